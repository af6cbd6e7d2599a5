"""Item-kNN sums shrunk cosines between what a user had and everything else."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import STRANGER, Moment, in_order, streams, told

from coldstream.baselines.item_knn import TIE, ItemKnn
from coldstream.baselines.square import MOST_ITEMS
from coldstream.errors import InvalidInput


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


def test_too_many_items_are_refused_and_leave_no_trace() -> None:
    scorer = ItemKnn()
    scorer.grow(3)
    with pytest.raises(InvalidInput, match=r"item-knn .* takes 20,000 items at most, got 20,001; leave item-knn out"):
        scorer.grow(MOST_ITEMS + 1)
    moments = [moment.scores for moment in told(scorer, [(0, 3), (1, 3)])]
    assert moments[-1].argmax() == 3


@pytest.mark.parametrize("name", ["shrinkage", "recency"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "1", None])
def test_odd_parameters_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"{name} must be a number from 0"):
        ItemKnn(**{name: value})
