"""The past of one user: the items that the user had so far."""

import numpy as np

from coldstream.support.arrays import Doubles, Longs, grown


class UserPast:
    """The distinct items that a user had, in order of their last choice."""

    __slots__ = ("_distinct", "_known")

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._distinct: Longs = np.empty(0, np.int64)

    @property
    def distinct(self) -> Longs:
        """Each item once, in order of its last choice, oldest first; valid until the next choice."""
        return self._distinct[: len(self._known)]

    @property
    def last(self) -> int | None:
        """The item chosen last; None before the first choice."""
        return int(self._distinct[len(self._known) - 1]) if self._known else None

    def weights(self, recency: float) -> Doubles:
        """Return a weight for each distinct item: r^−recency for the r-th latest, so 1 for all if recency is 0."""
        return np.arange(len(self._known), 0, -1.0) ** -recency

    def __contains__(self, item: int) -> bool:
        return item in self._known

    def append(self, item: int) -> None:
        """Append a choice; an item that the user had before moves to the end."""
        if item in self._known:
            others = self.distinct[self.distinct != item]
            self._distinct[: len(others)] = others
        self._known.add(item)
        self._distinct = grown(self._distinct, len(self._known))
        self._distinct[len(self._known) - 1] = item
