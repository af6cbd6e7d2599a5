"""Neighbours: which items are chosen together, and which after which, counted pair by pair as events happen.

Every item has a row of at most `most` partners. A pair is in both rows or in neither, so an item is taken out by walking
its own row alone; where a row is full, the pair chosen together least often gives way. Rows are kept in blocks that link
from the newest to the oldest, and never hold an item that is not live.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import Floats, Integers, checked_columns, grown
from coldstream.catalogue.shapes import Neighbours, Person
from coldstream.model.compiled import inlined, kernel
from coldstream.model.shapes import Theta

SIZE = 16
"""Entries of a block."""
MOST = 256
"""Partners of one item, at most."""
_SPREAD = 0x9E3779B1  # odd: slots that stand together land far apart, so that runs of them do not pile up
FOLLOWS, TOGETHER, AGAIN = 0, 1, 2
TIES = 3
"""The features that tie an item to a user, in this order wherever they are kept."""


class Tally(NamedTuple):
    """The items that something ties to a user, each once, in a table that a slot is looked up in."""

    place: Integers  # (a power of two,): the row of a slot, or −1
    slot: Integers  # (rows,)
    value: Floats  # (rows, TIES): how often it followed the last item, Σ c/√n over the last ones, how often the user had it


# Counting


@kernel
def count_choice(rows: Neighbours, slot: int, past: Integers) -> None:
    """An item was chosen after others, the latest at the end. Those that are no longer live have `chosen` −1."""
    for n in range(len(past)):
        if rows.chosen[past[n]] >= 0:
            _meet(rows, slot, past[n])
            if past[n] != slot:
                _meet(rows, past[n], slot)
    if len(past) and rows.chosen[past[-1]] >= 0:
        block, place = _find(rows, past[-1], slot)
        rows.follows[block, place] += 1
    rows.chosen[slot] += 1


@inlined
def _meet(rows: Neighbours, slot: int, partner: int) -> None:
    """Count a pair in the row of one of its two; a full row lets its rarest pair go, the oldest of equals."""
    block, place = _find(rows, slot, partner)
    if block < 0:
        if rows.length[slot] == rows.most:
            block, place = _rarest(rows, slot)
            rare = rows.partner[block, place]
            _drop(rows, slot, block, place)
            if rare != slot:
                block, place = _find(rows, rare, slot)
                _drop(rows, rare, block, place)
        block, place = _append(rows, slot)
        rows.partner[block, place] = partner
        rows.together[block, place] = 0
        rows.follows[block, place] = 0
    rows.together[block, place] += 1


@inlined
def _find(rows: Neighbours, slot: int, partner: int) -> tuple[int, int]:
    """Where a row holds a partner: block and place, or −1."""
    block, left = rows.first[slot], rows.length[slot]
    while left > 0:
        here = (left - 1) % SIZE + 1
        for place in range(here):
            if rows.partner[block, place] == partner:
                return block, place
        left -= here
        block = rows.older[block]
    return -1, 0


@inlined
def _rarest(rows: Neighbours, slot: int) -> tuple[int, int]:
    block, left = rows.first[slot], rows.length[slot]
    rarest, where, least = block, 0, rows.together[block, 0]
    while left > 0:
        here = (left - 1) % SIZE + 1
        for n in range(here):
            place = here - 1 - n  # from the newest to the oldest, so that the oldest of equals is met last
            if rows.together[block, place] <= least:
                rarest, where, least = block, place, rows.together[block, place]
        left -= here
        block = rows.older[block]
    return rarest, where


@inlined
def _append(rows: Neighbours, slot: int) -> tuple[int, int]:
    """Room for one more entry at the end of a row."""
    place = rows.length[slot] % SIZE
    if place == 0:
        if rows.used[1] >= 0:
            block = rows.used[1]
            rows.used[1] = rows.older[block]
        else:
            block = rows.used[0]
            rows.used[0] += 1
        rows.older[block] = rows.first[slot]
        rows.first[slot] = block
    rows.length[slot] += 1
    return rows.first[slot], place


@inlined
def _drop(rows: Neighbours, slot: int, block: int, place: int) -> None:
    """Take an entry out; the newest of the row takes its place."""
    newest, last = rows.first[slot], (rows.length[slot] - 1) % SIZE
    rows.partner[block, place] = rows.partner[newest, last]
    rows.together[block, place] = rows.together[newest, last]
    rows.follows[block, place] = rows.follows[newest, last]
    rows.length[slot] -= 1
    if last == 0:
        rows.first[slot] = rows.older[newest]
        rows.older[newest] = rows.used[1]
        rows.used[1] = newest


@kernel
def take_out(rows: Neighbours, slot: int) -> None:
    """Forget every pair of an item, which is live no longer."""
    while rows.length[slot] > 0:
        newest, last = rows.first[slot], (rows.length[slot] - 1) % SIZE
        partner = rows.partner[newest, last]
        if partner != slot:
            block, place = _find(rows, partner, slot)
            _drop(rows, partner, block, place)
        _drop(rows, slot, newest, last)
    rows.chosen[slot] = -1


# Reading


@inlined
def tally_of(rows: Neighbours, person: Person) -> Tally:
    """The neighbours of a user's last items and, where that is asked for, all that the user had."""
    past = person.past
    again = len(person.had) if rows.column[AGAIN] >= 0 else 0
    room = again
    for n in range(len(past)):
        room += rows.length[past[n]]
    size = 16
    while size < 2 * room:
        size *= 2
    place = np.full(size, -1, np.int32)
    slot = np.empty(room, np.int32)
    value = np.zeros((room, TIES), np.float32)
    tally = Tally(place, slot, value)
    found = 0
    for n in range(len(past)):
        one = past[n]
        block, left = rows.first[one], rows.length[one]
        scale = np.float32(1.0) / np.sqrt(np.float32(max(rows.chosen[one], 1)))
        while left > 0:
            here = (left - 1) % SIZE + 1
            for entry in range(here):
                row = _row(tally, rows.partner[block, entry], found)
                found = max(found, row + 1)
                value[row, TOGETHER] += np.float32(rows.together[block, entry]) * scale
                if n == len(past) - 1:
                    value[row, FOLLOWS] = np.float32(rows.follows[block, entry])
            left -= here
            block = rows.older[block]
    for n in range(again):
        if rows.chosen[person.had[n]] >= 0:
            row = _row(tally, person.had[n], found)
            found = max(found, row + 1)
            value[row, AGAIN] += np.float32(person.times[n])
    return Tally(place, slot[:found], value[:found])


@inlined
def _row(tally: Tally, slot: int, new: int) -> int:
    """The row of a slot, which is `new` where it had none."""
    at = _place_of(tally, slot)
    if tally.place[at] < 0:
        tally.place[at] = new
        tally.slot[new] = slot
    return int(tally.place[at])


@inlined
def _place_of(tally: Tally, slot: int) -> int:
    """Where the table holds a slot, or would."""
    mask = len(tally.place) - 1
    at = (slot * _SPREAD) & mask
    while tally.place[at] >= 0 and tally.slot[tally.place[at]] != slot:
        at = (at + 1) & mask
    return at


@inlined
def ties_of(rows: Neighbours, tally: Tally, slot: int, out: Floats, j: int) -> None:
    """The features that tie an item to a user; 0 where nothing does."""
    for h in range(TIES):
        out[j, h] = np.float32(0.0)
    row = tally.place[_place_of(tally, slot)]
    if row >= 0:
        _tie(rows, tally, row, out, j)


@inlined
def _tie(rows: Neighbours, tally: Tally, row: int, out: Floats, j: int) -> None:
    """log(1 + count), because a count grows without end, √Σ cosines, and log(1 + count) again."""
    chosen = np.float32(max(rows.chosen[tally.slot[row]], 1))
    follows, again = tally.value[row, FOLLOWS], tally.value[row, AGAIN]
    zero = np.float32(0.0)  # few have followed, and few were had: a logarithm costs more than to ask
    out[j, FOLLOWS] = np.log1p(follows) if follows > zero else zero
    out[j, TOGETHER] = np.sqrt(tally.value[row, TOGETHER] / np.sqrt(chosen))
    out[j, AGAIN] = np.log1p(again) if again > zero else zero


@kernel
def ties(rows: Neighbours, person: Person, slots: Integers) -> Floats:
    """What ties some items to a user."""
    tally = tally_of(rows, person)
    out = np.empty((len(slots), TIES), np.float32)
    for j in range(len(slots)):
        ties_of(rows, tally, slots[j], out, j)
    return out


@kernel
def add_ties(theta: Theta, rows: Neighbours, person: Person, position: Integers, scores: Floats) -> None:
    """Add to the scores of all live items what ties them to a user; `position` is by slot."""
    tally = tally_of(rows, person)
    tie = np.empty((1, TIES), np.float32)
    for row in range(len(tally.slot)):
        _tie(rows, tally, row, tie, 0)
        for h in range(TIES):
            if rows.column[h] >= 0:
                scores[position[tally.slot[row]]] += tie[0, h] * theta.w[rows.column[h]]


# Growing and surviving


def neighbours_of(columns: Integers, most: int = MOST) -> Neighbours:
    """Neighbours of no item yet."""
    by_slot, block = np.zeros(0, np.int32), np.zeros((0, SIZE), np.int32)
    return Neighbours(by_slot, by_slot, by_slot, by_slot, block, block, block, np.array([0, -1], np.int32), columns, most)


def with_slot(rows: Neighbours, slot: int) -> Neighbours:
    """Room for a new slot, which is not live yet."""
    rows = rows._replace(
        first=grown(rows.first, slot + 1, -1), length=grown(rows.length, slot + 1), chosen=grown(rows.chosen, slot + 1, -1)
    )
    rows.first[slot], rows.length[slot], rows.chosen[slot] = -1, 0, -1
    return rows


def with_room(rows: Neighbours, past: int) -> Neighbours:
    """Room to count a choice after so many others: each may begin a block, and the item itself some."""
    blocks = int(rows.used[0]) + past + past // SIZE + 2
    if blocks <= len(rows.older):
        return rows
    return rows._replace(
        older=grown(rows.older, blocks),
        partner=grown(rows.partner, blocks),
        together=grown(rows.together, blocks),
        follows=grown(rows.follows, blocks),
    )


def state(rows: Neighbours, slots: int) -> dict[str, NDArray[Any]]:
    """All rows, one after the other, each from its oldest entry to its newest."""
    length = rows.length[:slots].copy()
    partner, together, follows = (np.zeros(int(length.sum()), np.int32) for _ in range(3))
    _list_rows(rows, slots, partner, together, follows)
    return {
        "chosen": rows.chosen[:slots].copy(),
        "partners": length,
        "partner": partner,
        "together": together,
        "follows": follows,
    }


def restored(rows: Neighbours, slots: int, live: Integers, arrays: Mapping[str, NDArray[Any]]) -> Neighbours:
    """The inverse of `state`, where there are so many slots and these are live."""
    length = checked_columns("partners", arrays["partners"], 0, rows.most + 1)
    partner = checked_columns("partner", arrays["partner"], 0, slots)
    together, follows = (checked_columns(name, arrays[name], 0, 2**31 - 1) for name in ("together", "follows"))
    chosen = checked_columns("chosen", arrays["chosen"], -1, 2**31 - 1)
    owner = np.repeat(np.arange(len(length), dtype=np.int32), length)
    if {len(owner)} != {len(partner), len(together), len(follows)} or {slots} != {len(chosen), len(length)}:
        raise ValueError("the neighbours do not add up")
    here, there = np.lexsort((partner, owner)), np.lexsort((owner, partner))
    mutual = (owner[here] == partner[there]).all() and (partner[here] == owner[there]).all()
    alive = np.zeros(slots, bool)
    alive[live] = True
    if not mutual or (alive != (chosen >= 0)).any() or not alive[partner].all() or not alive[owner].all():
        raise ValueError("the neighbours are not mutual")
    rows.chosen[:slots] = chosen
    rows = with_room(rows, int((length // SIZE + 1).sum()))
    _enter_rows(rows, length, partner, together, follows)
    return rows


@kernel
def _list_rows(rows: Neighbours, slots: int, partner: Integers, together: Integers, follows: Integers) -> None:
    end = 0
    for slot in range(slots):
        end += rows.length[slot]
        block, left, stop = rows.first[slot], rows.length[slot], end
        while left > 0:
            here = (left - 1) % SIZE + 1
            for place in range(here):
                partner[stop - here + place] = rows.partner[block, place]
                together[stop - here + place] = rows.together[block, place]
                follows[stop - here + place] = rows.follows[block, place]
            left -= here
            stop -= here
            block = rows.older[block]


@kernel
def _enter_rows(rows: Neighbours, length: Integers, partner: Integers, together: Integers, follows: Integers) -> None:
    entry = 0
    for slot in range(len(length)):
        for _ in range(length[slot]):
            block, place = _append(rows, slot)
            rows.partner[block, place] = partner[entry]
            rows.together[block, place] = together[entry]
            rows.follows[block, place] = follows[entry]
            entry += 1
