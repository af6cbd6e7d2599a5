"""The scan order: the live items by position, with everything that a scan reads of them in parallel arrays."""

import numpy as np
from numpy.typing import NDArray

from coldstream.catalogue.shapes import ScanRows
from coldstream.support.arrays import Integers, grown

_SOME = 64
"""Items out of order that are tolerated in a catalogue of any size."""


class ScanOrder:
    """Live items in rows without gaps, nearly in the order of their id columns, so that memory is read forwards."""

    def __init__(self, combinations: int, numbers: int, trends: int) -> None:
        integers, floats = np.zeros(0, np.int32), np.zeros(0, np.float32)
        self.rows = ScanRows(
            slot=integers,
            id_column=integers,
            combination=np.zeros((combinations, 0), np.int32),
            number=np.zeros((numbers, 0), np.float32),
            level=np.zeros((trends, 0), np.float32),
            counted_at=np.zeros(0, np.int64),
            unchosen=floats,
        )
        self.position = integers
        """Position by slot; −1 where an item is not live."""
        self.count = 0
        self.out_of_order = 0
        """Items appended since the last sort with an id column below that of the item before them, and moved items."""

    def append(self, slot: int, id_column: int) -> int:
        """Append an item and return its position. The caller writes its other rows there."""
        position = self.count
        if position == self._room():
            self.make_room(position + 1)
        self.position = grown(self.position, slot + 1, -1)
        rows = self.rows
        self.position[slot], rows.slot[position], rows.id_column[position] = position, slot, id_column
        self.out_of_order += bool(position and rows.id_column[position - 1] > id_column)
        self.count += 1
        return position

    def append_all(self, slots: Integers, id_columns: Integers) -> int:
        """Append items of which none makes a sort due (see `stays_settled`), and return the position of the first."""
        first, last = self.count, self.count + len(slots)
        if last > self._room():
            self.make_room(last)
        self.position = grown(self.position, int(slots.max(initial=-1)) + 1, -1)
        self.position[slots] = np.arange(first, last, dtype=np.int32)
        self.rows.slot[first:last], self.rows.id_column[first:last] = slots, id_columns
        self.out_of_order += int(self._descents(id_columns).sum())
        self.count = last
        return first

    def stays_settled(self, id_columns: Integers) -> bool:
        """Return whether items with these columns can be appended one by one without making a sort due in between."""
        disorder = self.out_of_order + np.cumsum(self._descents(id_columns))
        most = _SOME + (self.count + 1 + np.arange(len(id_columns))) // 8
        return bool((disorder <= most).all())

    def _descents(self, id_columns: Integers) -> NDArray[np.bool_]:
        before = self.rows.id_column[self.count - 1] if self.count else -1
        return np.diff(id_columns, prepend=np.int32(before)) < 0

    def remove(self, slot: int) -> None:
        """Remove an item; the last one takes its position."""
        self.count -= 1
        place, last = int(self.position[slot]), self.count
        if place != last:
            for own in self.rows:
                own[..., place] = own[..., last]
            self.position[self.rows.slot[place]] = place
            self.out_of_order += 1
        self.position[slot] = -1

    def settle(self) -> bool:
        """Sort by id column if too many items are out of order, and return whether it did."""
        if self.out_of_order <= _SOME + self.count // 8:
            return False
        order = np.argsort(self.rows.id_column[: self.count], kind="stable")
        for own in self.rows:
            own[..., : self.count] = own[..., order]
        self.position[self.slots()] = np.arange(self.count, dtype=np.int32)
        self.out_of_order = 0
        return True

    def slots(self) -> Integers:
        """Return the live slots, in scan order. Do not write to them."""
        return self.rows.slot[: self.count]

    def make_room(self, rows: int) -> None:
        """Reserve room for so many live items."""
        self.rows = ScanRows(*(np.ascontiguousarray(grown(own.T, rows).T) for own in self.rows))

    def add_fields(self, combinations: int, numbers: int) -> None:
        """Add attribute fields, of which no item has a value yet."""
        room = self._room()
        more = np.zeros((combinations - len(self.rows.combination), room), np.int32)
        others = np.zeros((numbers - len(self.rows.number), room), np.float32)
        self.rows = self.rows._replace(
            combination=np.concatenate([self.rows.combination, more]), number=np.concatenate([self.rows.number, others])
        )

    def _room(self) -> int:
        return len(self.rows.slot)
