"""How often every item was chosen lately: by counts that decay, or among a last few events."""

import math

import numpy as np

from coldstream.baselines.parameter import checked_count, checked_number
from coldstream.baselines.user_past import UserPast
from coldstream.support.arrays import Doubles, Longs, grown

NEVER = -1.0
"""Below the level of anything that was ever chosen."""


class DecayedPopularity:
    """The number of choices of an item, of which half are forgotten every `half_life` events.

    A choice in event t counts 2^(t / half_life), so that forgetting touches nothing. What is kept is the logarithm to base 2
    of the sum, the item's level, which neither overflows nor vanishes.
    """

    def __init__(self, half_life: float = 2000.0) -> None:
        self._half_life = checked_number("half_life", half_life, lowest=1e-3)
        self._levels: Doubles = np.empty(0, np.float64)
        self._items = 0
        self._events = 0
        self._highest = 0.0

    def grow(self, items: int, /) -> None:
        self._levels = grown(self._levels, items, NEVER)
        self._items = items

    def scores(self, _: UserPast, /) -> Doubles:
        return self._levels[: self._items]

    def learn(self, _: UserPast, item: int, /) -> None:
        worth, level = self._events / self._half_life, float(self._levels[item])
        self._levels[item] = worth if level == NEVER else worth + math.log2(1.0 + 2.0 ** (level - worth))
        self._highest = max(self._highest, float(self._levels[item]))
        self._events += 1

    def pass_by(self) -> None:
        """An event has happened that is no choice."""
        self._events += 1

    def forget(self, item: int) -> None:
        """The item is another one from now on."""
        self._levels[item] = NEVER

    def restore(self, levels: Doubles, events: int) -> None:
        """Go on from levels that `scores` gave once, after so many choices."""
        self._levels, self._items, self._events = levels.astype(np.float64), len(levels), events
        self._highest = float(levels.max(initial=0.0))

    def standings(self, below: float) -> Doubles:
        """The items in the same order as numbers in [0, below): what breaks the ties of scores that differ by more."""
        return (self._levels[: self._items] - NEVER) * (below / (self._highest + 2.0))


class WindowedPopularity:
    """The number of choices of an item among the last `window` events."""

    def __init__(self, window: int = 2000) -> None:
        self._ring: Longs = np.zeros(checked_count("window", window), np.int64)
        self._counts: Doubles = np.empty(0, np.float64)
        self._items = 0
        self._events = 0

    def grow(self, items: int, /) -> None:
        self._counts = grown(self._counts, items)
        self._items = items

    def scores(self, _: UserPast, /) -> Doubles:
        return self._counts[: self._items]

    def learn(self, _: UserPast, item: int, /) -> None:
        place = self._events % len(self._ring)
        if self._events >= len(self._ring):
            self._counts[self._ring[place]] -= 1
        self._ring[place] = item
        self._counts[item] += 1
        self._events += 1
