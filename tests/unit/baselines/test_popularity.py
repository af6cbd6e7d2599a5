"""Popularity is a count: of all choices, of decaying ones, or of the last few."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import in_order, streams, told

from coldstream.baselines.popularity import Popularity
from coldstream.baselines.recent_popularity import DecayedPopularity, WindowedPopularity
from coldstream.baselines.user_past import UserPast
from coldstream.errors import InvalidInput

NOBODY = UserPast()


@given(streams)
def test_popularity_counts_all_choices(stream: list[tuple[int, int]]) -> None:
    for moment in told(Popularity(), stream):
        assert moment.scores.tolist() == [moment.count(item) for item in range(moment.items)]


@given(streams, st.sampled_from([0.5, 3.0, 2000.0]))
def test_decayed_counts_lose_half_in_a_half_life(stream: list[tuple[int, int]], half_life: float) -> None:
    for moment in told(DecayedPopularity(half_life), stream):
        now = len(moment.choices) / half_life
        counts = [moment.count(item, half_life) for item in range(moment.items)]
        for score, count in zip(moment.scores, counts, strict=True):
            assert score == pytest.approx(math.log2(count) + now if count else -1.0, abs=1e-9)


@given(streams, st.sampled_from([0.5, 3.0, 2000.0]))
def test_standings_keep_the_order_and_stay_below(stream: list[tuple[int, int]], half_life: float) -> None:
    scorer = DecayedPopularity(half_life)
    for moment in told(scorer, stream):
        standings = scorer.standings(below=0.25)
        assert ((standings >= 0) & (standings < 0.25)).all()
        counts = [(moment.count(item, half_life),) for item in range(moment.items)]
        assert np.argsort(standings, kind="stable").tolist() == in_order(counts)


def test_decayed_counts_of_a_long_stream_neither_overflow_nor_vanish() -> None:
    scorer = DecayedPopularity(half_life=0.5)
    scorer.grow(4)
    for item in (2, 1, *[0] * 5000):
        scorer.learn(NOBODY, item)
    scores = scorer.scores(NOBODY)
    assert np.isfinite(scores).all()
    assert np.argsort(scores).tolist() == [3, 2, 1, 0]


@given(streams, st.integers(1, 10))
def test_a_window_counts_the_last_events_only(stream: list[tuple[int, int]], window: int) -> None:
    for moment in told(WindowedPopularity(window), stream):
        last = [item for _, item in moment.choices[-window:]]
        assert moment.scores.tolist() == [last.count(item) for item in range(moment.items)]


@pytest.mark.parametrize("half_life", [0, -1.0, math.inf, math.nan, "500", True, 10**400])
def test_an_odd_half_life_is_refused(half_life: object) -> None:
    with pytest.raises(InvalidInput, match=r"half_life must be a number from 0\.001"):
        DecayedPopularity(half_life)


@pytest.mark.parametrize("window", [0, -1, 2.0, "100", True, 10**400])
def test_an_odd_window_is_refused(window: object) -> None:
    with pytest.raises(InvalidInput, match="window must be a whole number from 1"):
        WindowedPopularity(window)
