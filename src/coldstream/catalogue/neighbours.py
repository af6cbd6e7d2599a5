"""Neighbours: which items are chosen together, and which after which, counted by pair as events happen.

Every item has a row of at most `most` partners. A pair is in both rows or in neither, so removing an item visits only the
rows of its own partners. A full row drops the pair chosen together least often. A row is one contiguous piece of memory,
read forwards; a row that grows moves to a piece of twice the size. Rows never hold an item that is not live.
"""

from collections.abc import Mapping
from secrets import randbits
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.catalogue.shapes import MOST_COUNTED, Neighbours
from coldstream.model.keyed_random import hashed
from coldstream.support.arrays import Integers, checked_columns, grown
from coldstream.support.compiled import inlined, kernel

SIZE = 16
"""Entries of the smallest piece of memory; every other size is twice the one below."""
MOST = 256
"""Most partners of one item."""
LOOK = 64
"""Entries compared at once, before the one that is equal is located."""


# Counting


@kernel
def count_neighbours(rows: Neighbours, choices: Integers, slot: int, recent: Integers) -> None:
    """Count a choice after others, the latest at the end. Items that are no longer live have −1 choices and are skipped."""
    for n in range(len(recent)):
        if choices[recent[n]] >= 0:
            _meet(rows, slot, recent[n])
            if recent[n] != slot:
                _meet(rows, recent[n], slot)
    if len(recent) and choices[recent[-1]] >= 0:
        at = _find(rows, recent[-1], slot)
        rows.follows[at] += rows.follows[at] < MOST_COUNTED


@inlined
def _meet(rows: Neighbours, slot: int, partner: int) -> None:
    """Count a pair in the row of one of its two items; a full row drops its rarest pair first, the oldest of equals."""
    at = _find(rows, slot, partner)
    if at < 0:
        if rows.length[slot] == rows.most:
            rarest = _rarest(rows, slot)
            rare = rows.partner[rarest]
            _drop(rows, slot, rarest)
            if rare != slot:
                _drop(rows, rare, _find(rows, rare, slot))
        at = _append(rows, slot)
        rows.partner[at] = partner
        rows.together[at] = 0
        rows.follows[at] = 0
    rows.together[at] += rows.together[at] < MOST_COUNTED


@inlined
def _find(rows: Neighbours, slot: int, partner: int) -> int:
    """Return where a row holds a partner, or −1."""
    start = rows.start[slot]
    return _place_of(rows.partner, partner, start, start + rows.length[slot])


@inlined
def _place_of(numbers: Integers, wanted: int, start: int, end: int) -> int:
    """Return where a number first occurs from `start` on and before `end`, or −1."""
    own = np.int32(wanted)
    for first in range(start, end, LOOK):
        part, found = numbers[first : min(first + LOOK, end)], 0
        for n in range(len(part)):  # without a break, so that the compiler vectorizes it
            found += int(part[n] == own)
        if found:
            for n in range(len(part)):
                if part[n] == own:
                    return int(first + n)
    return -1


@inlined
def _rarest(rows: Neighbours, slot: int) -> int:
    """Return where a row has the pair that was counted least often, the oldest of equals."""
    start = rows.start[slot]
    end = start + rows.length[slot]
    together, least = rows.together[start:end], np.int32(2**31 - 1)
    for n in range(len(together)):
        least = together[n] if together[n] < least else least
    return _place_of(rows.together, int(least), start, end)


@inlined
def _append(rows: Neighbours, slot: int) -> int:
    """Add an entry at the end of a row, and return its place."""
    if rows.length[slot] == rows.room[slot]:
        _widen(rows, slot)
    rows.length[slot] += 1
    return int(rows.start[slot] + rows.length[slot] - 1)


@inlined
def _widen(rows: Neighbours, slot: int) -> None:
    """Move a row to a piece of twice the size."""
    old, size = rows.start[slot], rows.room[slot]
    new = _take(rows, max(2 * size, SIZE))
    for n in range(size):
        rows.partner[new + n] = rows.partner[old + n]
        rows.together[new + n] = rows.together[old + n]
        rows.follows[new + n] = rows.follows[old + n]
    if size:
        _give_back(rows, old, size)
    rows.start[slot], rows.room[slot] = new, max(2 * size, SIZE)


@inlined
def _take(rows: Neighbours, size: int) -> int:
    """Allocate a piece of so many entries, and return where it begins."""
    kind = _kind(size)
    at = int(rows.free[kind])
    if at >= 0:
        rows.free[kind] = rows.partner[at]
    else:
        at = int(rows.used[0])
        rows.used[0] += size
    return at


@inlined
def _give_back(rows: Neighbours, at: int, size: int) -> None:
    """Put a piece on the free list of its size; its first entry links to the next one."""
    kind = _kind(size)
    rows.partner[at] = rows.free[kind]
    rows.free[kind] = at


@inlined
def _kind(size: int) -> int:
    kind = 0
    while SIZE << kind < size:
        kind += 1
    return kind


def _kinds(size: NDArray[Any]) -> NDArray[np.int64]:
    """Return `_kind` of many sizes, outside of kernels, where `_kind` would be compiled anew in every process."""
    return np.searchsorted(SIZE << np.arange(27), size)


@inlined
def _drop(rows: Neighbours, slot: int, at: int) -> None:
    """Remove an entry; the newest of the row takes its place."""
    rows.length[slot] -= 1
    newest = rows.start[slot] + rows.length[slot]
    rows.partner[at] = rows.partner[newest]
    rows.together[at] = rows.together[newest]
    rows.follows[at] = rows.follows[newest]


@kernel
def take_out(rows: Neighbours, slot: int) -> None:
    """Remove every pair of an item that is no longer live."""
    start = rows.start[slot]
    for at in range(start, start + rows.length[slot]):
        partner = rows.partner[at]
        if partner != slot:
            _drop(rows, partner, _find(rows, partner, slot))
    if rows.room[slot]:
        _give_back(rows, start, rows.room[slot])
    rows.start[slot], rows.length[slot], rows.room[slot] = 0, 0, 0


# Growing and surviving


def neighbours_of(columns: Integers, most: int = MOST) -> Neighbours:
    """Return neighbours of no items yet."""
    none = np.zeros(0, np.int32)
    free = np.full(int(_kinds(np.array(most))) + 1, -1, np.int32)
    return Neighbours(none, none, none, none, none, none, np.zeros(1, np.int32), free, columns, most)


def with_slots(rows: Neighbours, slots: int) -> Neighbours:
    """Return neighbours with room for more slots, none of them live yet."""
    if slots <= len(rows.start):
        return rows
    start, length, room = (grown(own, slots) for own in (rows.start, rows.length, rows.room))
    return rows._replace(start=start, length=length, room=room)


def with_room(rows: Neighbours, recent: int) -> Neighbours:
    """Return neighbours with room to count choices after `recent` others in all: each row may move to a wider piece."""
    widest = SIZE << (len(rows.free) - 1)
    return _with_entries(rows, int(rows.used[0]) + (recent + 2) * widest)


def _with_entries(rows: Neighbours, entries: int) -> Neighbours:
    if entries <= len(rows.partner):
        return rows
    partner, together, follows = (grown(own, entries) for own in (rows.partner, rows.together, rows.follows))
    return rows._replace(partner=partner, together=together, follows=follows)


def state(rows: Neighbours, slots: int) -> dict[str, NDArray[Any]]:
    """Return the rows as arrays, one after another, each from its oldest entry to its newest."""
    length = rows.length[:slots].copy()
    before = np.cumsum(length) - length
    # Entry n of the output is as far from its row's start as n is from the number of the row's first entry.
    entry = np.arange(length.sum()) + np.repeat(rows.start[:slots] - before, length)
    return {
        "partners": length,
        "partner": rows.partner[entry],
        "together": rows.together[entry],
        "follows": rows.follows[entry],
    }


def restored(rows: Neighbours, slots: int, live: Integers, arrays: Mapping[str, NDArray[Any]]) -> Neighbours:
    """Return the neighbours that `state` saved, in `rows` with room for so many slots, of which `live` are live."""
    length = checked_columns("partners", arrays["partners"], 0, rows.most + 1)
    partner = checked_columns("partner", arrays["partner"], 0, slots)
    together, follows = (checked_columns(name, arrays[name], 0, 2**31 - 1) for name in ("together", "follows"))
    if {int(length.sum(dtype=np.int64))} != {len(partner), len(together), len(follows)} or slots != len(length):
        raise ValueError("the neighbours do not add up")
    alive = np.zeros(slots, bool)
    alive[live] = True
    if not alive[partner].all() or not alive[length > 0].all() or not _are_mutual(length, partner, np.uint64(randbits(64))):
        raise ValueError("the neighbours are not mutual")
    rows = _with_entries(rows, int((SIZE << _kinds(length[length > 0])).sum()))
    _enter_rows(rows, length, partner, together, follows)
    return rows


@kernel
def _are_mutual(length: Integers, partner: Integers, key: np.uint64) -> bool:
    """Return whether every pair is in both rows equally often, by sums of keyed hashes, without sorting all pairs.

    Unequal pairs have equal sums with probability 2⁻⁶⁴, and the key is drawn anew, so no file can be made to fit it.
    """
    there, back, entry, slots = np.uint64(0), np.uint64(0), 0, len(length)
    for slot in range(slots):
        for _ in range(length[slot]):
            there += hashed(key, slot * slots + partner[entry])
            back += hashed(key, partner[entry] * slots + slot)
            entry += 1
    return bool(there == back)


@kernel
def _enter_rows(rows: Neighbours, length: Integers, partner: Integers, together: Integers, follows: Integers) -> None:
    entry = 0
    for slot in range(len(length)):
        size = length[slot]
        if size:
            rows.room[slot] = SIZE << _kind(size)
            rows.start[slot] = _take(rows, rows.room[slot])
            rows.length[slot] = size
        for at in range(rows.start[slot], rows.start[slot] + size):
            rows.partner[at] = partner[entry]
            rows.together[at] = together[entry]
            rows.follows[at] = follows[entry]
            entry += 1
