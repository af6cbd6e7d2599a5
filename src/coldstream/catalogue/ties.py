"""Ties: what ties an item to a user, read from the neighbours of the user's last items and from what the user had."""

from typing import NamedTuple

import numpy as np

from coldstream.arrays import Floats, Integers
from coldstream.catalogue.shapes import Neighbours, Person
from coldstream.model.compiled import inlined, kernel, scan_kernel
from coldstream.model.shapes import Theta

FOLLOWS, TOGETHER, AGAIN = 0, 1, 2
TIES = 3
"""The features that tie an item to a user, in this order wherever they are kept."""
_SPREAD = 0x9E3779B1  # odd: slots that stand together land far apart, so that runs of them do not pile up


class Tally(NamedTuple):
    """What ties some items to a user, in a table that a slot is looked up in."""

    place: Integers  # (a power of two,): the row of a slot, or −1
    slot: Integers  # (rows,): each once
    value: Floats  # (rows, TIES): how often it followed the last item, Σ c/√n over the last ones, how often the user had it


@inlined
def tally_of(rows: Neighbours, person: Person, slots: Integers) -> Tally:
    """What ties these items to a user. They are few and neighbours are many, so that most look-ups find an empty place."""
    size = 16
    while size < 8 * len(slots):
        size *= 2
    place = np.full(size, -1, np.int32)
    value = np.zeros((len(slots), TIES), np.float32)
    tally = Tally(place, np.empty(len(slots), np.int32), value)
    found = 0
    for j in range(len(slots)):
        at = _place_of(tally, slots[j])
        if place[at] < 0:
            place[at] = found
            tally.slot[found] = slots[j]
            found += 1
    past = person.past
    for n in range(len(past)):
        one = past[n]
        scale = _scale(rows, one)
        for at in range(rows.start[one], rows.start[one] + rows.length[one]):
            row = place[_place_of(tally, rows.partner[at])]
            if row >= 0:
                value[row, TOGETHER] += np.float32(rows.together[at]) * scale
                if n == len(past) - 1:
                    value[row, FOLLOWS] = np.float32(rows.follows[at])
    if rows.column[AGAIN] >= 0:
        for n in range(len(person.had)):
            row = place[_place_of(tally, person.had[n])]
            if row >= 0:
                value[row, AGAIN] += np.float32(person.times[n])
    return tally


@inlined
def _choices(rows: Neighbours, slot: int) -> np.float32:
    return np.float32(max(rows.chosen[slot], 1))


@inlined
def _scale(rows: Neighbours, slot: int) -> np.float32:
    return np.float32(np.float32(1.0) / np.sqrt(_choices(rows, slot)))


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
    """The features that tie an item of the tally to the user.

    They are log(1 + count), because a count grows without end, √Σ cosines, and log(1 + count) again.
    """
    row = tally.place[_place_of(tally, slot)]
    follows, again = tally.value[row, FOLLOWS], tally.value[row, AGAIN]
    zero = np.float32(0.0)  # few have followed, and few were had: a logarithm costs more than to ask
    out[j, FOLLOWS] = np.log1p(follows) if follows > zero else zero
    out[j, TOGETHER] = _closeness(tally.value[row, TOGETHER], _choices(rows, slot))
    out[j, AGAIN] = np.log1p(again) if again > zero else zero


@inlined
def _closeness(total: np.float32, chosen: np.float32) -> np.float32:
    return np.float32(np.sqrt(total / np.sqrt(chosen)))


@kernel
def ties(rows: Neighbours, person: Person, slots: Integers) -> Floats:
    """What ties some items to a user."""
    tally = tally_of(rows, person, slots)
    out = np.empty((len(slots), TIES), np.float32)
    for j in range(len(slots)):
        ties_of(rows, tally, slots[j], out, j)
    return out


@scan_kernel
def add_ties(theta: Theta, rows: Neighbours, person: Person, live: Integers, position: Integers, scores: Floats) -> None:
    """Add to the scores of all live items what ties them to a user; `position` is by slot.

    All live items are asked for, so each has a place of its own and nothing is looked up.
    """
    past = person.past
    if rows.column[TOGETHER] >= 0:
        total = np.zeros(len(live), np.float32)
        for n in range(len(past)):
            start, stop = rows.start[past[n]], rows.start[past[n]] + rows.length[past[n]]
            partner, together, scale = rows.partner[start:stop], rows.together[start:stop], _scale(rows, past[n])
            for entry in range(len(partner)):
                # Unsigned, because it is then not asked whether an index counts from the end.
                total[np.uint32(position[np.uint32(partner[entry])])] += np.float32(together[entry]) * scale
        chosen = np.empty(len(live), np.float32)  # gathered apart from what runs on vectors
        for n in range(len(live)):
            chosen[n] = _choices(rows, live[n])
        weight = theta.w[rows.column[TOGETHER]]
        for n in range(len(live)):
            scores[n] += weight * _closeness(total[n], chosen[n])
    if rows.column[FOLLOWS] >= 0 and len(past):
        last, weight = past[-1], theta.w[rows.column[FOLLOWS]]
        for at in range(rows.start[last], rows.start[last] + rows.length[last]):
            if rows.follows[at]:
                scores[position[rows.partner[at]]] += weight * np.log1p(np.float32(rows.follows[at]))
    if rows.column[AGAIN] >= 0:
        times = np.zeros(len(live), np.float32)
        for n in range(len(person.had)):
            if rows.chosen[person.had[n]] >= 0:
                times[position[person.had[n]]] += np.float32(person.times[n])
        weight = theta.w[rows.column[AGAIN]]
        for n in range(len(live)):
            if times[n] > np.float32(0.0):
                scores[n] += weight * np.log1p(times[n])
