"""Cross features, which depend on a user and an item together, computed from the neighbours of the user's recent items.

`follows`: how often an item was chosen right after the last one. `together`: how often it is chosen with the recent ones.
`again`: how often the user chose it before. Counts grow without bound, so features are log(1 + count) and √Σ cosines.
"""

from typing import NamedTuple

import numpy as np

from coldstream.catalogue.shapes import Items, UserHistory
from coldstream.support.arrays import Floats, Integers
from coldstream.support.compiled import inlined, kernel

FOLLOWS, TOGETHER, AGAIN = 0, 1, 2
CROSS_FEATURES = 3
"""Number of cross features; every array has them in the order above."""
_SPREAD = 0x9E3779B1  # odd, so that neighbouring slots land far apart and no runs of them collide


@inlined
def scale_of(choices: int) -> np.float32:
    """Return the weight 1/√n of a pair, where n is how often one of the two was chosen."""
    return np.float32(np.float32(1.0) / np.sqrt(np.float32(max(choices, 1))))


@inlined
def closeness(total: np.float32, choices: int) -> np.float32:
    """Return the feature `together`, from Σ c/√n over the recent items and the item's own choices."""
    return np.float32(np.sqrt(total / np.sqrt(np.float32(max(choices, 1)))))


@inlined
def log_count(count: np.float32) -> np.float32:
    """Return the feature `follows` or `again`. Most counts are 0, and a comparison is cheaper than a logarithm."""
    return np.float32(np.log1p(count)) if count > np.float32(0.0) else np.float32(0.0)


class Tally(NamedTuple):
    """Counts of some items, in a hash table by slot."""

    place: Integers  # (a power of two,): the row of a slot, or −1
    slot: Integers  # (rows,): each slot once
    value: Floats  # (rows, CROSS_FEATURES): the counts, and Σ c/√n


@inlined
def tally_of(items: Items, history: UserHistory, slots: Integers) -> Tally:
    """Return the counts of these items. They are few and neighbours are many: most neighbours are skipped by their mark."""
    neighbours, marked = items.neighbours, items.marked
    size = 16
    while size < 8 * len(slots):
        size *= 2
    place = np.full(size, -1, np.int32)
    value = np.zeros((len(slots), CROSS_FEATURES), np.float32)
    tally = Tally(place, np.empty(len(slots), np.int32), value)
    found = 0
    for j in range(len(slots)):
        at = _place_of(tally, slots[j])
        if place[at] < 0:
            place[at] = found
            tally.slot[found] = slots[j]
            marked[slots[j]] = 1
            found += 1
    recent = history.recent
    for n in range(len(recent)):
        one = recent[n]
        scale, start = scale_of(items.choices[one]), neighbours.start[one]
        partner = neighbours.partner[start : start + neighbours.length[one]]
        for at in range(len(partner)):
            # Unsigned, which saves the check whether an index counts from the end: most of the time is spent here.
            if marked[np.uint32(partner[at])]:
                row = place[_place_of(tally, partner[at])]
                value[row, TOGETHER] += np.float32(neighbours.together[start + at]) * scale
                if n == len(recent) - 1:
                    value[row, FOLLOWS] = np.float32(neighbours.follows[start + at])
    if neighbours.column[AGAIN] >= 0:
        for n in range(len(history.seen)):
            if marked[history.seen[n]]:
                value[place[_place_of(tally, history.seen[n])], AGAIN] += np.float32(history.times[n])
    for n in range(found):
        marked[tally.slot[n]] = 0
    return tally


@inlined
def _place_of(tally: Tally, slot: int) -> int:
    """Return where the table holds a slot, or where it would."""
    mask = len(tally.place) - 1
    at = (slot * _SPREAD) & mask
    while tally.place[at] >= 0 and tally.slot[tally.place[at]] != slot:
        at = (at + 1) & mask
    return at


@inlined
def features_of(tally: Tally, choices: Integers, slot: int, out: Floats, j: int) -> None:
    """Write the cross features of an item of the tally to row `j` of `out`."""
    row = tally.place[_place_of(tally, slot)]
    out[j, FOLLOWS] = log_count(tally.value[row, FOLLOWS])
    out[j, TOGETHER] = closeness(tally.value[row, TOGETHER], choices[slot])
    out[j, AGAIN] = log_count(tally.value[row, AGAIN])


@kernel
def cross_features(items: Items, history: UserHistory, slots: Integers) -> Floats:
    """Return the cross features of some items for a user."""
    tally = tally_of(items, history, slots)
    out = np.empty((len(slots), CROSS_FEATURES), np.float32)
    for j in range(len(slots)):
        features_of(tally, items.choices, slots[j], out, j)
    return out
