"""The past of one user: what the user had so far."""

import numpy as np

from coldstream.support.arrays import Doubles, Longs, grown


class UserPast:
    """A user's last choice, and every item the user had."""

    __slots__ = ("_distinct", "_known")

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._distinct: Longs = np.empty(0, np.int64)

    @property
    def distinct(self) -> Longs:
        """Every item once, in order of its last choice; to be read before the next choice."""
        return self._distinct[: len(self._known)]

    @property
    def last(self) -> int | None:
        """The item chosen last."""
        return int(self._distinct[len(self._known) - 1]) if self._known else None

    def weights(self, recency: float) -> Doubles:
        """A weight for each of the distinct items: r^−recency for the r-th latest, 1 for all where recency is 0."""
        return np.arange(len(self._known), 0, -1.0) ** -recency

    def __contains__(self, item: int) -> bool:
        return item in self._known

    def append(self, item: int) -> None:
        """One more choice."""
        if item in self._known:
            others = self.distinct[self.distinct != item]
            self._distinct[: len(others)] = others
        self._known.add(item)
        self._distinct = grown(self._distinct, len(self._known))
        self._distinct[len(self._known) - 1] = item
