"""Popularity over the whole stream."""

import numpy as np

from coldstream.baselines.user_past import UserPast
from coldstream.support.arrays import Doubles, grown


class Popularity:
    """A scorer by the number of choices of an item since the stream began."""

    def __init__(self) -> None:
        self._counts: Doubles = np.empty(0, np.float64)
        self._items = 0

    def grow(self, items: int, /) -> None:
        self._counts = grown(self._counts, items)
        self._items = items

    def scores(self, _: UserPast, /) -> Doubles:
        return self._counts[: self._items]

    def learn(self, _: UserPast, item: int, /) -> None:
        self._counts[item] += 1

    def forget(self, item: int) -> None:
        """Reset the count of an item's number that is given to another item."""
        self._counts[item] = 0

    def restore(self, counts: Doubles) -> None:
        """Restore counts that an earlier call of `scores` returned."""
        self._counts, self._items = counts.astype(np.float64), len(counts)
