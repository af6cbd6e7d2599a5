"""EASE kept up to date is EASE computed from scratch, whatever the stream."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import STRANGER, USERS, Moment, in_order, streams, told

from coldstream.baselines.ease import TIE, Ease
from coldstream.baselines.inverse import GramInverse
from coldstream.baselines.square import MOST_ITEMS
from coldstream.baselines.user_past import UserPast
from coldstream.errors import InvalidInput
from coldstream.support.arrays import Doubles


def definition(moment: Moment, penalty: float, recency: float) -> Doubles:
    """The weighted row of the user times B, with B from the inverse of the whole Gram matrix."""
    X = np.array([[(user, item) in moment.choices for item in range(moment.items)] for user in USERS], float)
    P = np.linalg.inv(X.T @ X + penalty * np.eye(moment.items))
    B = -P / np.diagonal(P)
    np.fill_diagonal(B, 0.0)
    weight = {item: nth**-recency for nth, item in enumerate(moment.had, start=1)}
    return np.array([weight.get(item, 0.0) for item in range(moment.items)]) @ B


@given(streams, st.sampled_from([0.5, 300.0]), st.sampled_from([0.0, 1.0]))
def test_scores_follow_the_definition(stream: list[tuple[int, int]], penalty: float, recency: float) -> None:
    for moment in told(Ease(penalty, recency), stream):
        above = moment.scores - definition(moment, penalty, recency)
        assert ((above > -1e-12) & (above < TIE + 1e-12)).all()


@given(streams)
def test_the_default_is_as_published(stream: list[tuple[int, int]]) -> None:
    default, stated = told(Ease(), stream), told(Ease(penalty=300, recency=0), stream)
    for ours, theirs in zip(default, stated, strict=True):
        np.testing.assert_array_equal(ours.scores, theirs.scores)


@given(streams)
def test_recent_popularity_serves_who_has_no_past(stream: list[tuple[int, int]]) -> None:
    for moment in told(Ease(), stream):
        if moment.user == STRANGER:
            counts = [(moment.count(item, half_life=2000),) for item in range(moment.items)]
            assert np.argsort(moment.scores, kind="stable").tolist() == in_order(counts)


@pytest.mark.parametrize("penalty", [0.5, 300.0])
def test_nothing_drifts_in_thousands_of_events(penalty: float, rng: np.random.Generator) -> None:
    items = 300
    X = np.zeros((200, items))
    inverse = GramInverse(penalty)
    for n in range(5000):
        user, item = rng.integers(len(X)), int(items * rng.random() ** 3)
        inverse.grow(min(items, 100 + n // 10))
        item = min(item, 99 + n // 10)
        if not X[user, item]:
            inverse.gain(np.flatnonzero(X[user]), item)
            X[user, item] = 1.0
    P = np.linalg.inv(X.T @ X + penalty * np.eye(items))
    assert X.sum() > 3000
    kept = np.array([inverse.times(np.array([item]), np.ones(1)) for item in range(items)])
    np.testing.assert_allclose(penalty * kept, penalty * P, rtol=0, atol=1e-10)
    np.testing.assert_allclose(penalty * inverse.diagonal, penalty * np.diagonal(P), rtol=0, atol=1e-10)


def test_a_start_forgets_what_was_before() -> None:
    fresh, used = GramInverse(2.0), GramInverse(2.0)
    for inverse in (fresh, used):
        inverse.grow(3)
    used.gain(np.array([0]), 2)
    for inverse in (fresh, used):
        inverse.start([np.array([0, 1]), np.array([1])])
    for item in range(3):
        one = np.array([item]), np.ones(1)
        np.testing.assert_array_equal(used.times(*one), fresh.times(*one))
    np.testing.assert_array_equal(used.diagonal, fresh.diagonal)


def test_training_at_once_is_learning_one_by_one(rng: np.random.Generator) -> None:
    choices = [(int(user), int(item)) for user, item in zip(rng.integers(0, 12, 200), rng.integers(0, 25, 200), strict=True)]
    at_once, one_by_one = Ease(), Ease()
    pasts = [UserPast() for _ in range(12)]
    for scorer in (at_once, one_by_one):
        scorer.grow(25)
    for user, item in choices:
        one_by_one.learn(pasts[user], item)
        pasts[user].append(item)
    at_once.train([(pasts[user], item) for user, item in choices])
    for past in pasts:
        np.testing.assert_allclose(at_once.scores(past), one_by_one.scores(past), rtol=0, atol=1e-13)


def test_too_many_items_are_refused_and_leave_no_trace() -> None:
    scorer = Ease()
    scorer.grow(3)
    with pytest.raises(InvalidInput, match=r"ease .* takes 20,000 items at most, got 20,001; leave ease out"):
        scorer.grow(MOST_ITEMS + 1)
    for moment in told(scorer, [(0, 3), (1, 3), (1, 2)]):
        assert len(moment.scores) == 4


@pytest.mark.parametrize("penalty", [0, -1, math.nan, math.inf, "300", None])
def test_an_odd_penalty_is_refused(penalty: object) -> None:
    with pytest.raises(InvalidInput, match=r"penalty must be a number from 0\.001"):
        Ease(penalty)


@pytest.mark.parametrize("recency", [-1, math.nan, "1"])
def test_an_odd_recency_is_refused(recency: object) -> None:
    with pytest.raises(InvalidInput, match="recency must be a number from 0"):
        Ease(recency=recency)
