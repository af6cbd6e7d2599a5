"""Better, or only luckier."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials import trial_of

from coldstream import InvalidInput
from coldstream.evaluation.significance import (
    chi_squared_tail,
    majority,
    mcnemar,
    pairwise,
    resampled_means,
)
from coldstream.evaluation.study import Facts, Study
from coldstream.evaluation.tables import known_comparisons, metrics_of


@pytest.mark.parametrize(("statistic", "p"), [(2.706, 0.1), (3.841, 0.05), (5.412, 0.02), (6.635, 0.01), (10.828, 0.001)])
def test_the_tail_is_the_tables(statistic: float, p: float) -> None:
    assert chi_squared_tail(statistic) == pytest.approx(p, rel=2e-3)


@given(st.floats(0, 30))
def test_the_tail_is_that_of_a_squared_normal(statistic: float) -> None:
    assert chi_squared_tail(statistic) == pytest.approx(2 * NormalDist().cdf(-math.sqrt(statistic)), abs=1e-12)


def test_mcnemar_by_hand() -> None:
    # (|10 − 25| − 1)² / 35 = 196 / 35 = 5.6, whose tail is .01796
    assert mcnemar(10, 25) == mcnemar(25, 10) == pytest.approx(0.01796, abs=1e-5)
    # (|121 − 59| − 1)² / 180 = 20.67
    assert mcnemar(121, 59) == pytest.approx(5.45e-6, rel=1e-3)
    # (|5 − 0| − 1)² / 5 = 3.2
    assert mcnemar(5, 0) == pytest.approx(0.0736, abs=1e-4)


def test_mcnemar_of_hardly_any_difference_is_one() -> None:
    assert mcnemar(0, 0) == 1
    assert mcnemar(7, 7) == 1  # the correction does not turn no difference into one
    assert mcnemar(8, 7) == 1


@given(st.lists(st.floats(1e-9, 1), min_size=1, max_size=9))
def test_a_majority_of_seeds_has_to_agree(p_values: list[float]) -> None:
    """At level α the combined test rejects where more than half of the tests, k of K, reject at level α k / K."""
    combined = majority(p_values)
    needed = len(p_values) // 2 + 1
    for level in (0.999 * combined, 1.001 * combined):
        agreeing = sum(p <= level * needed / len(p_values) for p in p_values)
        assert combined == 1 or (agreeing >= needed) == (level > combined)


def test_one_seed_speaks_for_itself_and_a_lucky_one_does_not_speak_for_five() -> None:
    assert majority([0.03]) == 0.03
    assert majority([0.001, 0.4, 0.5, 0.6, 0.7]) == pytest.approx(5 / 3 * 0.5)
    assert majority([0.01, 0.02]) == 0.02
    assert majority([0.9, 0.9, 0.9]) == 1


def test_resampled_means_are_means_of_resampled_events() -> None:
    values = np.random.default_rng(1).random((730, 2))
    blocks = [values[start : start + 200] for start in range(0, 730, 200)]  # the last one is shorter
    drawn = np.random.default_rng(5).multinomial(4, [0.25] * 4, size=50)
    slow = [np.concatenate([blocks[b] for b in range(4) for _ in range(times[b])]).mean(axis=0) for times in drawn]
    np.testing.assert_allclose(resampled_means(values, 200, 50, seed=5), slow)


def test_the_bootstrap_is_repeatable_and_follows_its_seed() -> None:
    values = np.random.default_rng(2).random((3000, 1))
    first, again, other = (resampled_means(values, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_intervals_cover_a_known_difference_as_often_as_they_say() -> None:
    """Events in a row have luck in common, so that intervals from shorter blocks than their runs are too narrow."""
    rng = np.random.default_rng(4)
    covered = {10: 0, 200: 0}
    for _ in range(100):
        luck = np.repeat(rng.normal(0, 1, 120), 50)  # 6,000 events in runs of 50
        difference = (0.3 + luck + rng.normal(0, 1, 6000))[:, None]
        for block in covered:
            low, high = np.quantile(resampled_means(difference, block, 300), [0.025, 0.975])
            covered[block] += low < 0.3 < high
    assert 88 <= covered[200] < 100
    assert covered[10] < 80


def test_pairs_are_compared_in_order_with_the_second_subtracted() -> None:
    rng = np.random.default_rng(6)
    ranks = {name: rng.integers(0, worst, 1000).astype(float) for name, worst in (("good", 20), ("fair", 40), ("poor", 80))}
    trials = {name: {1: trial_of(rank, candidates=101)} for name, rank in ranks.items()}
    pairs = pairwise(trials, top=10)
    assert [(pair.a, pair.b) for pair in pairs] == [("good", "fair"), ("good", "poor"), ("fair", "poor")]
    first = pairs[0]
    good, fair = ranks["good"] < 10, ranks["fair"] < 10
    assert first.recall == pytest.approx(good.mean() - fair.mean())
    assert first.mpr == pytest.approx((ranks["good"] - ranks["fair"]).mean())  # of 101 candidates a rank is a percentile
    assert first.p == mcnemar(int((good & ~fair).sum()), int((fair & ~good).sum())) < 1e-6
    assert first.recall_interval.low < first.recall < first.recall_interval.high
    drawn = resampled_means(np.stack([good, fair], axis=1).astype(float), block=50)
    assert first.recall_interval == pytest.approx(np.quantile(drawn[:, 0] - drawn[:, 1], [0.025, 0.975]))
    assert first.mpr_interval.low < first.mpr < first.mpr_interval.high < 0 < first.recall_interval.low


def test_seeds_are_paired_and_averaged_never_pooled() -> None:
    rng = np.random.default_rng(7)
    trials = {name: {seed: trial_of(rng.integers(0, 30, 600)) for seed in (1, 2, 3)} for name in "ab"}
    (pair,) = pairwise(trials, top=10)
    by_seed = []
    for seed in (1, 2, 3):
        a, b = (trials[name][seed].rank < 10 for name in "ab")
        by_seed.append(mcnemar(int((a & ~b).sum()), int((b & ~a).sum())))
    assert pair.p == majority(by_seed)
    means = [np.mean([trial.rank < 10 for trial in trials[name].values()]) for name in "ab"]
    assert pair.recall == pytest.approx(means[0] - means[1])
    # A seed repeated is no more evidence: neither a smaller p than its own, nor a narrower interval.
    one, thrice = ({name: dict.fromkeys(seeds, trials[name][1]) for name in "ab"} for seeds in ((1,), (1, 2, 3)))
    (alone,), (repeated,) = pairwise(one, 10), pairwise(thrice, 10)
    assert repeated.p >= alone.p
    assert repeated.recall_interval == pytest.approx(alone.recall_interval)


def test_only_seeds_that_both_have_are_paired() -> None:
    rng = np.random.default_rng(8)
    a = {seed: trial_of(rng.integers(0, 30, 300)) for seed in (1, 2)}
    b = {2: trial_of(rng.integers(0, 20, 300)), 9: trial_of(rng.integers(0, 20, 300))}
    (pair,) = pairwise({"a": a, "b": b}, 10)
    (alone,) = pairwise({"a": {2: a[2]}, "b": {2: b[2]}}, 10)
    assert pair.p == alone.p
    with pytest.raises(InvalidInput, match=r"'a' and 'b' have no seed in common"):
        pairwise({"a": {1: a[1]}, "b": b}, 10)


def test_a_few_events_have_no_interval() -> None:
    rng = np.random.default_rng(9)
    for events, found in ((199, False), (200, True)):
        trials = {name: {1: trial_of(rng.integers(0, 30, events))} for name in "ab"}
        (pair,) = pairwise(trials, 10)
        assert (pair.recall_interval is not None) == (pair.mpr_interval is not None) == found


def test_a_short_stream_is_cut_into_smaller_blocks() -> None:
    """Three blocks of 200 events, the last of 20, drawn again gave intervals that did not even hold the difference."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        trials = {name: {1: trial_of(rng.integers(0, 30, 420))} for name in "ab"}
        (pair,) = pairwise(trials, 10)
        assert pair.recall_interval is not None
        assert pair.recall_interval.low <= pair.recall <= pair.recall_interval.high
        # Independent events: twice 1.96 deviations of a difference of two shares of 1/3.
        assert pair.recall_interval.high - pair.recall_interval.low == pytest.approx(0.128, rel=0.5)


def test_known_items_are_compared_apart() -> None:
    """On newcomers a is always right and b never; on known items it is the other way round."""
    rng = np.random.default_rng(1)
    newcomers = np.flatnonzero(rng.random(600) < 0.5).tolist()
    a = [0 if n in newcomers else 5 for n in range(600)]
    b = [5 if n in newcomers else int(rng.integers(0, 2)) for n in range(600)]
    trials = {"a": {0: trial_of(a, new_items=newcomers)}, "b": {0: trial_of(b, new_items=newcomers)}}
    study = Study(Facts("d", 900, 5, 9, False), 1, 50, trials)
    (pair,) = known_comparisons(study, metrics_of(study))
    assert (pair.a, pair.b) == ("a", "b")
    assert pair.recall == pytest.approx(-np.mean([rank == 0 for n, rank in enumerate(b) if n not in newcomers]))
    assert pair.p < 0.01
    nothing_new = Study(Facts("d", 900, 5, 9, False), 1, 50, {"a": {0: trial_of(a)}, "b": {0: trial_of(b)}})
    assert known_comparisons(nothing_new, metrics_of(nothing_new)) == []
