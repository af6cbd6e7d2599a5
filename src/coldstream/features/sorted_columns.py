"""Columns in ascending order, of which many come and go between two looks at them.

To keep a long list sorted with every newcomer would move half of it each time; so newcomers wait, and whoever looks sorts.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from coldstream.support.arrays import Integers

FEWEST_WAITING, SHARE_WAITING = 4096, 16
"""So many changes wait for somebody who looks, or so many-th as there are columns: they are memory too."""


class SortedColumns:
    """A set of columns that is read in ascending order."""

    def __init__(self, columns: Integers) -> None:
        self._sorted = columns
        self._waiting: dict[int, bool] = {}  # what became of columns since: whether each is there

    def add(self, column: int) -> None:
        """A column came that was not there."""
        self._waiting[column] = True
        self._bound()

    def remove(self, column: int) -> None:
        """A column went that was there."""
        self._waiting[column] = False
        self._bound()

    def remove_all(self, columns: Sequence[int]) -> None:
        """Several went, in whatever order."""
        self._waiting.update(dict.fromkeys(columns, False))
        self._bound()

    def all(self) -> Integers:
        """All of them, to be read only."""
        self._settle()
        return self._sorted

    def since(self, first: int) -> Iterator[int]:
        """Those from one on, as they are now."""
        own = self.all()
        return (int(own[n]) for n in range(bisect_left(own, first), len(own)))

    def _bound(self) -> None:
        if len(self._waiting) > max(FEWEST_WAITING, len(self._sorted) // SHARE_WAITING):
            self._settle()

    def _settle(self) -> None:
        if not self._waiting:
            return
        changed, there = np.array(list(self._waiting), np.int32), np.array(list(self._waiting.values()), np.bool_)
        left = np.delete(self._sorted, self._found(changed))
        came = np.sort(changed[there])
        self._sorted = np.insert(left, np.searchsorted(left, came), came)
        self._waiting = {}

    def _found(self, columns: Integers) -> Integers:
        """Where those of some columns stand that are sorted in already."""
        at = np.searchsorted(self._sorted, columns)
        inside = at < len(self._sorted)
        found: Integers = at[inside][self._sorted[at[inside]] == columns[inside]]
        return found
