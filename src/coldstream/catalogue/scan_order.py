"""The order of the scan: the live items by position, with all that a scan reads of them side by side."""

import numpy as np
from numpy.typing import NDArray

from coldstream.catalogue.shapes import ScanRows
from coldstream.support.arrays import Integers, grown

_SOME = 64
"""Items out of order that nobody notices."""


class ScanOrder:
    """Live items in rows without gaps, nearly in the order of their id columns: memory is then read forwards."""

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
        """By slot; −1 where an item is not live."""
        self.count = 0
        self.out_of_order = 0
        """Items that came with an id column below that of an item before them, since the last sort."""

    def append(self, slot: int, id_column: int) -> int:
        """One more, at the end; its position. What else is known of it has to be written there."""
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
        """Several more, of which none makes a sort due (see `stays_settled`); the position of the first."""
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
        """Whether items with these columns can be appended one by one without making a sort due in between."""
        disorder = self.out_of_order + np.cumsum(self._descents(id_columns))
        most = _SOME + (self.count + 1 + np.arange(len(id_columns))) // 8
        return bool((disorder <= most).all())

    def _descents(self, id_columns: Integers) -> NDArray[np.bool_]:
        before = self.rows.id_column[self.count - 1] if self.count else -1
        return np.diff(id_columns, prepend=np.int32(before)) < 0

    def remove(self, slot: int) -> None:
        """One less; the last one takes its place."""
        self.count -= 1
        place, last = int(self.position[slot]), self.count
        if place != last:
            for own in self.rows:
                own[..., place] = own[..., last]
            self.position[self.rows.slot[place]] = place
            self.out_of_order += 1
        self.position[slot] = -1

    def settle(self) -> bool:
        """Sort by id column, if too many are out of order; whether it did."""
        if self.out_of_order <= _SOME + self.count // 8:
            return False
        order = np.argsort(self.rows.id_column[: self.count], kind="stable")
        for own in self.rows:
            own[..., : self.count] = own[..., order]
        self.position[self.slots()] = np.arange(self.count, dtype=np.int32)
        self.out_of_order = 0
        return True

    def slots(self) -> Integers:
        """The live slots, in the order of the scan; to be read only."""
        return self.rows.slot[: self.count]

    def make_room(self, rows: int) -> None:
        """Room for so many live items."""
        self.rows = ScanRows(*(np.ascontiguousarray(grown(own.T, rows).T) for own in self.rows))

    def add_fields(self, combinations: int, numbers: int) -> None:
        """Go on with more attribute fields, of which no item has anything yet."""
        room = self._room()
        more = np.zeros((combinations - len(self.rows.combination), room), np.int32)
        others = np.zeros((numbers - len(self.rows.number), room), np.float32)
        self.rows = self.rows._replace(
            combination=np.concatenate([self.rows.combination, more]), number=np.concatenate([self.rows.number, others])
        )

    def _room(self) -> int:
        return len(self.rows.slot)
