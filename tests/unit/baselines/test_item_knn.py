"""Item-kNN sums shrunk cosines between what a user had and everything else."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import STRANGER, Moment, in_order, streams, told

from coldstream.baselines import pair_counts
from coldstream.baselines.item_knn import TIE, ItemKnn
from coldstream.baselines.pair_counts import PairCounts
from coldstream.baselines.recent_popularity import DecayedPopularity
from coldstream.baselines.user_past import UserPast
from coldstream.errors import InvalidInput
from coldstream.support.arrays import Doubles


def definition(moment: Moment, item: int, shrinkage: float, recency: float) -> float:
    total = 0.0
    for nth, other in enumerate(moment.had, start=1):
        together = moment.owners(item, other)
        if together:
            cosine = together / (math.sqrt(moment.owners(item) * moment.owners(other)) + shrinkage)
            total += cosine / nth**recency
    return total


@given(streams, st.sampled_from([0.0, 20.0]), st.sampled_from([0.0, 1.0]))
def test_scores_follow_the_definition(stream: list[tuple[int, int]], shrinkage: float, recency: float) -> None:
    for moment in told(ItemKnn(shrinkage, recency), stream):
        expected = [definition(moment, item, shrinkage, recency) for item in range(moment.items)]
        above = moment.scores - expected
        assert ((above > -1e-12) & (above < TIE)).all()


@given(streams)
def test_the_default_is_shrunk_and_prefers_the_latest(stream: list[tuple[int, int]]) -> None:
    default, stated = told(ItemKnn(), stream), told(ItemKnn(shrinkage=20, recency=1), stream)
    for ours, theirs in zip(default, stated, strict=True):
        np.testing.assert_array_equal(ours.scores, theirs.scores)


@given(streams)
def test_recent_popularity_breaks_ties_and_serves_who_has_no_past(stream: list[tuple[int, int]]) -> None:
    for moment in told(ItemKnn(), stream):
        keys = [(definition(moment, i, 20.0, 1.0), moment.count(i, half_life=2000)) for i in range(moment.items)]
        if moment.user == STRANGER:
            assert {key[0] for key in keys} <= {0.0}
        assert np.argsort(moment.scores, kind="stable").tolist() == in_order(keys)


class DenseKnn:
    """The same sums over a square of counts, of which most are 0."""

    def __init__(self, shrinkage: float, recency: float) -> None:
        self._shrinkage, self._recency = shrinkage, recency
        self._popularity = DecayedPopularity()
        self._counts = np.zeros((0, 0))

    def grow(self, items: int, /) -> None:
        self._counts = np.pad(self._counts, (0, items - len(self._counts)))
        self._popularity.grow(items)

    def scores(self, past: UserPast, /) -> Doubles:
        roots = np.sqrt(np.maximum(np.diagonal(self._counts), 1.0))
        total = np.zeros(len(roots))
        for had, weight in zip(past.distinct, past.weights(self._recency), strict=True):
            total += weight * self._counts[had] / (roots[had] * roots + self._shrinkage)
        return total + self._popularity.standings(below=TIE)

    def learn(self, past: UserPast, item: int, /) -> None:
        if item not in past:
            for had in past.distinct:
                self._counts[had, item] += 1
                self._counts[item, had] += 1
            self._counts[item, item] += 1
        self._popularity.learn(past, item)


@given(streams, st.sampled_from([0.0, 20.0]), st.sampled_from([0.0, 1.0]))
def test_scores_have_the_bits_of_a_square(stream: list[tuple[int, int]], shrinkage: float, recency: float) -> None:
    square = told(DenseKnn(shrinkage, recency), stream)
    for ours, theirs in zip(told(ItemKnn(shrinkage, recency), stream), square, strict=True):
        np.testing.assert_array_equal(ours.scores, theirs.scores)


def test_scores_have_the_bits_of_a_square_where_pasts_are_long() -> None:
    rng = np.random.default_rng(3)
    sparse, square, pasts = ItemKnn(), DenseKnn(20.0, 1.0), [UserPast() for _ in range(12)]
    for scorer in (sparse, square):
        scorer.grow(300)
    for item in (rng.zipf(1.3, 1500) % 300).tolist():
        past = pasts[rng.integers(len(pasts))]
        for scorer in (sparse, square):
            scorer.learn(past, item)
        past.append(item)
        np.testing.assert_array_equal(sparse.scores(past), square.scores(past))


def test_memory_grows_with_the_pairs_that_occurred_and_not_with_the_items() -> None:
    scorer, counts = ItemKnn(), PairCounts()
    scorer.grow(1_000_000)  # of which a square would take 4 TB
    counts.grow(1_000_000)
    for user in range(300):
        past = UserPast()
        for item in (user, 999_999 - user, 500_000):
            scorer.learn(past, item)
            counts.add(past.distinct, item)
            assert counts.places <= len(counts.rows.item) == len(counts.rows.users)  # what kernels trust
            past.append(item)
    pairs = 300 * 2 * 3 + 600 + 1  # each user's three pairs both ways round, and every item with itself
    assert int(counts.rows.length.sum()) == pairs
    assert counts.places < 6 * pairs
    past = UserPast()
    past.append(7)
    assert np.argsort(-scorer.scores(past), kind="stable")[:3].tolist() == [999_992, 7, 500_000]


def test_too_many_pairs_are_refused_and_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_counts, "MOST_PLACES", 30)
    scorer, past = ItemKnn(), UserPast()
    scorer.grow(20)
    for item in range(3):
        scorer.learn(past, item)
        past.append(item)
    before = scorer.scores(past).copy()

    def go_on() -> None:
        for item in range(3, 20):
            before[:] = scorer.scores(past)
            scorer.learn(past, item)
            past.append(item)

    with pytest.raises(InvalidInput, match=r"item-knn .* takes 30 at most, got \d+; leave item-knn out"):
        go_on()
    np.testing.assert_array_equal(scorer.scores(past), before)


@pytest.mark.parametrize("name", ["shrinkage", "recency"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "1", None])
def test_odd_parameters_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"{name} must be a number from 0"):
        ItemKnn(**{name: value})
