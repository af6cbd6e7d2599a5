"""A stream of choices told moment by moment, with all that a slow twin needs to know."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import strategies as st

from coldstream.baselines.baseline import Scorer
from coldstream.baselines.user_past import UserPast
from coldstream.support.arrays import Doubles

USERS = range(4)
STRANGER = len(USERS)

streams = st.lists(st.tuples(st.sampled_from(USERS), st.integers(0, 7)), max_size=40)
"""(user, item); an item comes together with all items of lower numbers, which nobody may ever choose."""


class Moment(NamedTuple):
    """What a scorer says to one user, and what has happened until then."""

    scores: Doubles
    user: int
    items: int
    choices: list[tuple[int, int]]

    @property
    def had(self) -> list[int]:
        """What the user had, every item once, the latest first."""
        return list(dict.fromkeys(item for user, item in reversed(self.choices) if user == self.user))

    def count(self, item: int, half_life: float = math.inf) -> float:
        """How often an item was chosen, where half is forgotten every so many events."""
        now = len(self.choices)
        return math.fsum(2.0 ** ((t - now) / half_life) for t, choice in enumerate(self.choices) if choice[1] == item)

    def owners(self, *items: int) -> int:
        """How many users had all these items."""
        return sum(all((user, item) in self.choices for item in items) for user in USERS)


def told(scorer: Scorer, stream: list[tuple[int, int]]) -> Iterator[Moment]:
    """Every user's view, and a stranger's, before the first event and after every one."""
    pasts = [UserPast() for _ in (*USERS, STRANGER)]
    items = 0
    for n, (user, item) in enumerate([*stream, (STRANGER, 0)]):
        if item >= items:
            items = item + 1
            scorer.grow(items)
        for asking, past in enumerate(pasts):
            yield Moment(scorer.scores(past).copy(), asking, items, stream[:n])
        if user != STRANGER:
            scorer.learn(pasts[user], item)
            pasts[user].append(item)


def in_order(keys: list[tuple[float, ...]]) -> list[int]:
    """Items from the lowest key to the highest, equal ones in order of registration."""
    return sorted(range(len(keys)), key=lambda item: tuple(float(f"{part:.12g}") for part in keys[item]))
