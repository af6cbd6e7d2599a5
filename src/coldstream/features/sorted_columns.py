"""A set of columns that is sorted lazily.

Inserting every new column into a long sorted list would move half of it each time. So changes are buffered, and merged when
the columns are read.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from coldstream.support.arrays import Integers

FEWEST_WAITING, SHARE_WAITING = 4096, 16
"""Buffered changes are merged when they exceed 4096 and 1/16 of the columns, because the buffer takes memory too."""


class SortedColumns:
    """A set of columns that is read in ascending order."""

    def __init__(self, columns: Integers) -> None:
        self._sorted = columns
        self._waiting: dict[int, bool] = {}  # buffered changes: column → whether it is in the set

    def add(self, column: int) -> None:
        """Add a column that is not in the set."""
        self._waiting[column] = True
        self._bound()

    def remove(self, column: int) -> None:
        """Remove a column that is in the set."""
        self._waiting[column] = False
        self._bound()

    def remove_all(self, columns: Sequence[int]) -> None:
        """Remove several columns, in any order."""
        self._waiting.update(dict.fromkeys(columns, False))
        self._bound()

    def all(self) -> Integers:
        """Return all columns in ascending order. The array must not be changed."""
        self._settle()
        return self._sorted

    def since(self, first: int) -> Iterator[int]:
        """Return the columns from `first` on, as they are now."""
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
        """Return where some columns stand in the sorted array, leaving out those that are not in it."""
        at = np.searchsorted(self._sorted, columns)
        inside = at < len(self._sorted)
        found: Integers = at[inside][self._sorted[at[inside]] == columns[inside]]
        return found
