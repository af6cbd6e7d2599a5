"""Sparse counts of the users who had both items of a pair."""

from typing import NamedTuple

import numpy as np

from coldstream.errors import InvalidInput
from coldstream.support.arrays import Integers, Longs, grown
from coldstream.support.compiled import kernel

MOST_PLACES = 400_000_000
"""Largest number of stored pairs, which take 3.2 GB."""
_FIRST_ROOM = 4
"""Smallest capacity of a row, in places."""


class PairRows(NamedTuple):
    """Sparse rows, one per item, in shared arrays: row i has `length[i]` places from `start[i]` on, and room for `room[i]`.

    A place holds another item, or the item itself, and the number of users who had both. The places of a row are sorted by
    item.
    """

    start: Longs
    length: Integers
    room: Integers
    item: Integers
    users: Integers


class PairCounts:
    """Counts of users per pair of items that occurred, in both orders, and per item with itself."""

    def __init__(self) -> None:
        empty = np.empty(0, np.int32)
        self._rows = PairRows(np.empty(0, np.int64), empty, empty, empty, empty)
        self._used = 0

    @property
    def rows(self) -> PairRows:
        """The rows of counts, valid until the next change."""
        return self._rows

    @property
    def places(self) -> int:
        """Number of places in use or abandoned by rows that moved, which determines the memory used."""
        return self._used

    def grow(self, items: int) -> None:
        """Add empty rows up to one for each of `items` items."""
        rows = self._rows
        self._rows = rows._replace(
            start=grown(rows.start, items), length=grown(rows.length, items), room=grown(rows.room, items)
        )

    def add(self, had: Longs, item: int) -> int:
        """Count a new item of a user who had the distinct items `had`. Return the number of users who have the item now.

        A call that raises `InvalidInput`, because the counts would be more than `MOST_PLACES`, changes nothing.
        """
        self._make_room(had, item)
        self._used, users = _add(self._rows, self._used, had, item)
        return int(users)

    def _make_room(self, had: Longs, item: int) -> None:
        """Grow the arrays for all that `_add` may need; a full row moves behind all others and doubles its room."""
        rows = self._rows
        full = had[rows.length[had] == rows.room[had]]
        others = np.maximum(2 * rows.room[full].astype(np.int64), _FIRST_ROOM).sum()
        length, room = int(rows.length[item]) + len(had) + 1, int(rows.room[item])
        own = max(length, 2 * room, _FIRST_ROOM) if length > room else 0
        needed = self._used + int(others) + own
        if needed > MOST_PLACES:
            raise InvalidInput(
                f"item-knn keeps a count for every pair of items that a user had and takes {MOST_PLACES:,} at most, got"
                f" {needed:,}; leave item-knn out, or the users who had most"
            )
        self._rows = rows._replace(item=grown(rows.item, needed), users=grown(rows.users, needed))


@kernel
def _add(rows: PairRows, used: int, had: Longs, item: int) -> tuple[int, int]:
    """Count the item with each item in `had` and with itself. Return the end of the used places and the item's users."""
    used = _ensure(rows, used, item, rows.length[item] + len(had) + 1)
    for h in range(len(had)):
        used = _ensure(rows, used, had[h], rows.length[had[h]] + 1)
        _count(rows, had[h], item)
        _count(rows, item, had[h])
    return used, _count(rows, item, item)


@kernel
def _ensure(rows: PairRows, used: int, row: int, length: int) -> int:
    """Make room for `length` places in a row, moving the row if needed. Return the end of the used places."""
    if length <= rows.room[row]:
        return used
    room = max(length, 2 * rows.room[row], _FIRST_ROOM)
    start = rows.start[row]
    for n in range(rows.length[row]):
        rows.item[used + n] = rows.item[start + n]
        rows.users[used + n] = rows.users[start + n]
    rows.start[row], rows.room[row] = used, room
    return int(used + room)


@kernel
def _count(rows: PairRows, row: int, item: int) -> int:
    """Add one user to the place of an item in a row, inserting the place if needed. Return its number of users."""
    start = rows.start[row]
    end = start + rows.length[row]
    low, high = start, end
    while low < high:
        middle = (low + high) // 2
        if rows.item[middle] < item:
            low = middle + 1
        else:
            high = middle
    if low == end or rows.item[low] != item:
        for n in range(end, low, -1):
            rows.item[n], rows.users[n] = rows.item[n - 1], rows.users[n - 1]
        rows.item[low], rows.users[low] = item, 0
        rows.length[row] += 1
    rows.users[low] += 1
    return int(rows.users[low])
