"""Combinations: the distinct values, and sets of values, that items have in their attribute fields.

Items that share a combination share its part of the score, which is computed once per request.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from coldstream.catalogue.shapes import Combinations
from coldstream.features.sparse import Sparse
from coldstream.support.arrays import Integers, grown

Entries: TypeAlias = tuple[tuple[int, float], ...]
"""(column, value) of each feature of a combination, in ascending order of the columns."""

EMPTY = 0
"""Number of the empty combination."""


class CombinationTable:
    """A reference-counted set of combinations in flat arrays. Numbers and space of unused combinations are reused."""

    def __init__(self) -> None:
        integers, floats = np.zeros(0, np.int32), np.zeros(0, np.float32)
        self._start, self._length = np.zeros(16, np.int32), np.zeros(16, np.int32)
        self._feature, self._value, self._column = integers, floats, integers
        self._owner = integers  # entry → the number of the combination that was written there
        self._numbers: dict[Entries, int] = {(): EMPTY}
        self._entries: list[Entries] = [()]
        self._holders: list[int] = [0]
        self._free: list[int] = []  # a heap, so that the lowest number is taken first
        self._places: dict[int, int] = {}  # column → feature
        self.unheld: dict[int, None] = {}
        """Columns that combinations had and none has any more, as an ordered set."""
        self._uses: list[int] = []
        self._free_places: list[int] = []
        self._used = 0
        self._wasted = 0
        self.longest = 0
        """Most features that any combination has had."""

    def take(self, entries: Entries) -> int:
        """Return the number of a combination, and count one more item that has it."""
        number = self._numbers.get(entries)
        if number is None:
            number = heapq.heappop(self._free) if self._free else self._append()
            self._hold(number, entries)
        self._holders[number] += 1
        return number

    def take_again(self, number: int, entries: Entries) -> int:
        """Like `take`, without a lookup if `entries` still have the number they had before."""
        if number >= 0 and self._entries[number] is entries:
            self._holders[number] += 1
            return number
        return self.take(entries)

    def drop(self, number: int) -> None:
        """Count one item less that has this combination, and release it if there is none left."""
        self._holders[number] -= 1
        if self._holders[number] or number == EMPTY:
            return
        entries = self._entries[number]
        del self._numbers[entries]
        self._entries[number] = ()
        for column, _ in entries:
            place = self._places[column]
            self._uses[place] -= 1
            if not self._uses[place]:
                del self._places[column]
                self.unheld[column] = None
                heapq.heappush(self._free_places, place)
        heapq.heappush(self._free, number)
        self._length[number] = 0
        self._wasted += len(entries)
        if self._wasted > 1024 and 2 * self._wasted > self._used:
            self._compact()

    def features(self, number: int) -> Entries:
        """Return the features of a combination."""
        return self._entries[number]

    def view(self) -> Combinations:
        """Return the arrays that kernels read."""
        return Combinations(
            len(self._entries), len(self._uses), self._start, self._length, self._feature, self._value, self._column
        )

    def holding(self, columns: set[int]) -> Integers:
        """Return the numbers of the combinations that have any of the columns."""
        wanted = np.zeros(len(self._uses), np.bool_)
        wanted[[self._places[column] for column in columns if column in self._places]] = True
        if not wanted.any():
            return np.zeros(0, np.int32)
        found = np.flatnonzero(wanted[self._feature[: self._used]])
        owner = self._owner[found]
        start = self._start[owner]
        is_current = (start <= found) & (found < start + self._length[owner])  # not a leftover of a released one
        has = np.zeros(len(self._entries), np.bool_)
        has[owner[is_current]] = True
        numbers: Integers = np.flatnonzero(has).astype(np.int32)
        return numbers

    def find_unheld(self, columns: Iterable[int]) -> None:
        """Recompute which of the columns that were ever taken no combination has."""
        self.unheld = {column: None for column in columns if column not in self._places}

    def _append(self) -> int:
        self._entries.append(())
        self._holders.append(0)
        count = len(self._entries)
        self._start, self._length = grown(self._start, count), grown(self._length, count)
        return count - 1

    def _hold(self, number: int, entries: Entries) -> None:
        self._numbers[entries], self._entries[number] = number, entries
        self.longest = max(self.longest, len(entries))
        for column, _ in entries:
            self._uses[self._place(column)] += 1
        self._write(number, entries)

    def _place(self, column: int) -> int:
        place = self._places.get(column)
        if place is None:
            if self._free_places:
                place = heapq.heappop(self._free_places)
            else:
                place = len(self._uses)
                self._uses.append(0)
                self._column = grown(self._column, place + 1)
            self._places[column], self._column[place] = place, column
            self.unheld.pop(column, None)
        return place

    def _write(self, number: int, entries: Entries) -> None:
        first, self._used = self._used, self._used + len(entries)
        self._feature, self._value = grown(self._feature, self._used), grown(self._value, self._used)
        self._owner = grown(self._owner, self._used)
        self._start[number], self._length[number] = first, len(entries)
        self._owner[first : self._used] = number
        for at, (column, value) in enumerate(entries, first):
            self._feature[at], self._value[at] = self._places[column], value

    def _compact(self) -> None:
        """Rewrite the combinations in use without gaps between them."""
        self._used = self._wasted = 0
        for number, entries in enumerate(self._entries):
            if entries:
                self._write(number, entries)

    # For snapshots

    def state(self) -> tuple[Integers, Sparse]:
        """Return the number of entries of each combination, and all entries in order of combinations."""
        flat = [entry for entries in self._entries for entry in entries]
        lengths = np.array([len(entries) for entries in self._entries], np.int32)
        columns = np.array([column for column, _ in flat], np.int32)
        return lengths, Sparse(columns, np.array([value for _, value in flat], np.float32))

    def restore(self, lengths: Integers, entries: Sparse, held: Integers) -> None:
        """Load what `state` returned; `held` has the number of each combination once per item that has it."""
        holders = np.bincount(held, minlength=len(lengths))
        if lengths[EMPTY] or len(holders) != len(lengths) or lengths.sum() != len(entries.column):
            raise ValueError("the combinations do not add up")
        for number in (1 + np.flatnonzero((lengths[1:] > 0) != (holders[1:] > 0))[:1]).tolist():
            raise ValueError(f"combination {number} has {lengths[number]} entries and {holders[number]} holders")
        numbers = np.flatnonzero(lengths)
        pairs = list(zip(entries.column.tolist(), entries.value.tolist(), strict=True))
        count, ends = len(lengths), np.cumsum(lengths)[numbers].tolist()
        self._entries = [()] * count
        self._start, self._length = grown(self._start, count), grown(self._length, count)
        for number, end, length in zip(numbers.tolist(), ends, lengths[numbers].tolist(), strict=True):
            own = tuple(pairs[end - length : end])
            if own in self._numbers or list(own) != sorted(own):
                raise ValueError(f"combination {number} is there twice, or not in order")
            self._hold(number, own)
        self._free = (1 + np.flatnonzero(lengths[1:] == 0)).tolist()  # ascending, and therefore a heap
        self._holders = holders.tolist()


def entries_of(features: Sequence[tuple[int, float]]) -> Entries:
    """Return features of one field as a combination, with values rounded to float32, as they are stored and compared."""
    entries = [(column, value if value == 1.0 else float(np.float32(value))) for column, value in features]
    return (entries[0],) if len(entries) == 1 else tuple(sorted(entries))
