"""Recent popularity: counts of choices that decay exponentially, or counts within a sliding window."""

import math

import numpy as np

from coldstream.baselines.parameter import checked_count, checked_number
from coldstream.baselines.user_past import UserPast
from coldstream.support.arrays import Doubles, Longs, grown

NEVER = -1.0
"""Level of an item without choices, below that of any chosen item."""


class DecayedPopularity:
    """A scorer by the number of choices of an item, exponentially decayed with a half-life of `half_life` events.

    A choice in event t counts 2^(t / half_life), so that decay changes no stored number. The base-2 logarithm of an item's
    sum, its level, is stored, which neither overflows nor underflows.
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
        """Count an event that is not a choice, which lets all counts decay."""
        self._events += 1

    def forget(self, item: int) -> None:
        """Reset the level of an item's number that is given to another item."""
        self._levels[item] = NEVER

    def restore(self, levels: Doubles, events: int) -> None:
        """Restore levels that an earlier call of `scores` returned after that many events."""
        self._levels, self._items, self._events = levels.astype(np.float64), len(levels), events
        self._highest = float(levels.max(initial=0.0))

    def standings(self, below: float) -> Doubles:
        """Return the levels scaled to [0, below), which break ties of scores whose differences are at least `below`."""
        return (self._levels[: self._items] - NEVER) * (below / (self._highest + 2.0))


class WindowedPopularity:
    """A scorer by the number of choices of an item among the last `window` events."""

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
