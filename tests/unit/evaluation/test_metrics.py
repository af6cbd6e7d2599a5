"""Every metric against its plain definition."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream.evaluation import metrics

halves = st.integers(0, 60).map(lambda twice: twice / 2)
ranks = st.lists(halves, min_size=1, max_size=40)
tops = st.integers(1, 20)
windows = st.integers(1, 50)


@given(ranks, tops)
def test_recall_is_the_share_of_ranks_below_n(rank: list[float], top: int) -> None:
    expected = [position < top for position in rank]
    assert metrics.hits(np.array(rank), top).tolist() == expected
    assert metrics.recall(np.array(rank), top) == pytest.approx(sum(expected) / len(expected))


@given(ranks, tops, windows)
def test_moving_recall_looks_back_at_the_last_events_only(rank: list[float], top: int, window: int) -> None:
    expected = []
    for t in range(len(rank)):
        last = [rank[s] for s in range(len(rank)) if t - window < s <= t]
        expected.append(sum(position < top for position in last) / min(t + 1, window))
    assert metrics.moving_recall(np.array(rank), top, window).tolist() == pytest.approx(expected)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), windows)
def test_a_moving_mean_is_the_mean_of_what_is_in_the_window(values: list[float], window: int) -> None:
    expected = [statistics.fmean(values[max(0, t - window + 1) : t + 1]) for t in range(len(values))]
    assert metrics.moving_mean(np.array(values), window).tolist() == pytest.approx(expected, abs=1e-9)


@given(st.lists(ranks, min_size=1, max_size=4), tops, windows)
def test_the_papers_recall_is_over_time_and_trials(trials: list[list[float]], top: int, window: int) -> None:
    curves = [metrics.moving_recall(np.array(rank), top, window) for rank in trials]
    points = [float(point) for curve in curves for point in curve]
    found = metrics.paper_recall(curves)
    assert found.mean == pytest.approx(statistics.fmean(points))
    assert found.deviation == pytest.approx(statistics.pstdev(points), abs=1e-9)


@given(st.lists(st.tuples(halves, st.integers(0, 30)), min_size=1, max_size=40))
def test_mpr_is_the_mean_of_percentiles(events: list[tuple[float, int]]) -> None:
    # However the ties: a rank is never behind the last candidate.
    rank = [position for position, _ in events]
    candidates = [math.ceil(position) + 1 + more for position, more in events]
    expected = [100 * r / (c - 1) if c > 1 else 0 for r, c in zip(rank, candidates, strict=True)]
    assert metrics.percentiles(np.array(rank), np.array(candidates)).tolist() == pytest.approx(expected)
    assert metrics.mpr(np.array(rank), np.array(candidates)) == pytest.approx(statistics.fmean(expected))
    assert all(0 <= percentile <= 100 for percentile in expected)


def test_a_single_candidate_has_percentile_zero() -> None:
    assert metrics.percentiles(np.array([0.0, 1.0]), np.array([1, 2])).tolist() == [0, 100]


@given(ranks)
def test_mrr_counts_from_one(rank: list[float]) -> None:
    assert metrics.mrr(np.array(rank)) == pytest.approx(statistics.fmean(1 / (position + 1) for position in rank))


@given(ranks, tops)
def test_ndcg_discounts_hits_and_drops_misses(rank: list[float], top: int) -> None:
    gains = [1 / math.log2(position + 2) if position < top else 0.0 for position in rank]
    assert metrics.ndcg(np.array(rank), top) == pytest.approx(statistics.fmean(gains))


def test_ndcg_of_the_best_is_one_and_of_the_second_what_the_table_says() -> None:
    assert metrics.ndcg(np.array([0.0]), 10) == 1
    assert metrics.ndcg(np.array([1.0]), 10) == pytest.approx(0.6309, abs=1e-4)
    assert metrics.ndcg(np.array([2.0]), 10) == 0.5
    assert metrics.ndcg(np.array([10.0]), 10) == 0


def test_coverage_is_a_share_of_all_items() -> None:
    assert metrics.coverage(3, 12) == 0.25
    assert math.isnan(metrics.coverage(0, 0))


def test_of_no_events_there_is_no_figure() -> None:
    none, nobody = np.zeros(0), np.zeros(0, np.int64)
    assert math.isnan(metrics.recall(none, 10))
    assert math.isnan(metrics.mpr(none, nobody))
    assert math.isnan(metrics.mrr(none))
    assert math.isnan(metrics.ndcg(none, 10))
    assert all(map(math.isnan, metrics.spread(none)))
