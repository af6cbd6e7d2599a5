"""Chance: a function of seed, event number and item, and of nothing else."""

from itertools import pairwise

import numpy as np
import pytest

from coldstream.baselines.random import Random
from coldstream.baselines.user_past import UserPast
from coldstream.errors import InvalidInput

NOBODY = UserPast()


def test_scores_last_until_the_next_event_however_often_they_are_read() -> None:
    scorer = Random(seed=3)
    scorer.grow(50)
    first = scorer.scores(NOBODY).copy()
    np.testing.assert_array_equal(scorer.scores(NOBODY), first)
    scorer.grow(60)
    np.testing.assert_array_equal(scorer.scores(NOBODY)[:50], first)
    scorer.learn(NOBODY, 0)
    assert not (scorer.scores(NOBODY)[:50] == first).any()


def test_seeds_make_the_difference() -> None:
    one, same, other = Random(seed=1), Random(seed=1), Random(seed=-2)
    for scorer in (one, same, other):
        scorer.grow(20)
        scorer.learn(NOBODY, 0)
    np.testing.assert_array_equal(one.scores(NOBODY), same.scores(NOBODY))
    assert not (one.scores(NOBODY) == other.scores(NOBODY)).any()


def test_every_item_is_as_likely_to_be_first() -> None:
    scorer = Random(seed=7)
    scorer.grow(4)
    best = []
    for _ in range(4000):
        best.append(int(np.argmax(scorer.scores(NOBODY))))
        scorer.learn(NOBODY, 0)
    # Five standard deviations of a binomial count, so that a fair draw stays inside for any seed.
    assert np.bincount(best, minlength=4) == pytest.approx([1000] * 4, abs=5 * np.sqrt(4000 * 0.25 * 0.75))
    again = sum(a == b for a, b in pairwise(best))
    assert again == pytest.approx(1000, abs=5 * np.sqrt(4000 * 0.25 * 0.75))


def test_an_odd_seed_is_refused() -> None:
    with pytest.raises(InvalidInput, match="seed must be a whole number"):
        Random(seed=1.5)
