"""A past is the choices of one user, seen in the ways that scorers need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream.baselines.user_past import UserPast


@given(st.lists(st.integers(0, 30), max_size=60))
def test_a_past_is_what_was_chosen(choices: list[int]) -> None:
    past = UserPast()
    for n, item in enumerate(choices):
        assert (item in past) == (item in choices[:n])
        past.append(item)
        assert past.last == item
        latest_first = list(dict.fromkeys(reversed(choices[: n + 1])))
        assert past.distinct.tolist() == latest_first[::-1]


def test_nobody_has_a_last_item_before_the_first() -> None:
    assert UserPast().last is None
    assert UserPast().distinct.tolist() == []


@pytest.mark.parametrize(("recency", "expected"), [(0.0, [1, 1, 1]), (1.0, [1 / 3, 1 / 2, 1]), (2.0, [1 / 9, 1 / 4, 1])])
def test_the_latest_item_weighs_most(recency: float, expected: list[float]) -> None:
    past = UserPast()
    for item in (5, 3, 5, 8, 3):
        past.append(item)
    assert past.distinct.tolist() == [5, 8, 3]
    assert past.weights(recency) == pytest.approx(expected)
