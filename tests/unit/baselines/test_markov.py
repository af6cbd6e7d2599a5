"""The Markov chain counts what followed the user's last item, and asks recent popularity where that does not decide."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from moments import USERS, Moment, in_order, streams, told

from coldstream.baselines.markov import Markov


def followed(moment: Moment, item: int) -> int:
    """How often any user chose an item right after the last item of this one."""
    if not moment.had:
        return 0
    steps = [step for user in USERS for step in pairwise(choice for of, choice in moment.choices if of == user)]
    return steps.count((moment.had[0], item))


@given(streams)
def test_followers_are_counted(stream: list[tuple[int, int]]) -> None:
    for moment in told(Markov(), stream):
        assert np.floor(moment.scores).tolist() == [followed(moment, item) for item in range(moment.items)]


@given(streams)
def test_recent_popularity_breaks_ties_and_serves_who_has_no_past(stream: list[tuple[int, int]]) -> None:
    for moment in told(Markov(), stream):
        keys = [(followed(moment, item), moment.count(item, half_life=2000)) for item in range(moment.items)]
        assert np.argsort(moment.scores, kind="stable").tolist() == in_order(keys)
