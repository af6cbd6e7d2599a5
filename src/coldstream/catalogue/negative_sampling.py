"""Negative sampling: items drawn uniformly from those that could have been chosen.

The draw is a function of a key, and of the position and the time of the event.
"""

from typing import NamedTuple

import numpy as np

from coldstream.catalogue.shapes import Items
from coldstream.catalogue.windows import is_available
from coldstream.model.keyed_random import below, hashed
from coldstream.model.vectors import prefetch
from coldstream.support.arrays import Integers
from coldstream.support.compiled import inlined

_TRIES = 32  # draws for one negative before giving up
_MORE_TRIES = 1024  # further draws where items have windows, as most items may be unavailable


class NegativeDraw(NamedTuple):
    """Parameters of the draw of an event's negatives."""

    key: np.uint64
    position: int  # of the event in the log
    negatives: int
    exclude_seen: bool  # whether items the user had are no negatives
    time: float  # of the event; items unavailable then are no negatives
    passed_over: Integers  # slots of items that are additional negatives if they are live


NOTHING_PASSED_OVER: Integers = np.zeros(0, np.int32)


@inlined
def room_for(drawn: NegativeDraw) -> int:
    """Return the most candidates of an event: the positive and its negatives."""
    return 1 + drawn.negatives + len(drawn.passed_over)


@inlined
def _tried(items: Items, time: float, key: np.uint64, first: int, tries: int) -> int:
    """Return the position of the first drawn item that is neither marked nor unavailable, or −1 after `tries` draws."""
    for attempt in range(tries):
        position = below(key, first + attempt, items.size)
        slot = items.rows.slot[position]
        if not items.marked[slot] and is_available(items.windows, slot, time):
            return position
    return -1


@inlined
def draw(items: Items, drawn: NegativeDraw, positive: int, seen: Integers, out: Integers) -> int:
    """Write the positions of the positive and of its negatives to `out`, and return their number.

    Negatives are live items other than the positive, those excluded, and those unavailable at the time. Items passed over
    come after those drawn.
    """
    key = hashed(drawn.key, drawn.position)
    marked, rows = items.marked, items.rows
    if drawn.exclude_seen:
        for n in range(len(seen)):
            marked[seen[n]] = 1
    marked[rows.slot[positive]] = 1
    for j in range(drawn.negatives):  # all first tries are prefetched before any is read
        prefetch(rows.slot, below(key, j * _TRIES, items.size), 1)
    for j in range(drawn.negatives):
        prefetch(marked, rows.slot[below(key, j * _TRIES, items.size)], 1)
    out[0] = positive
    found = 1
    for j in range(drawn.negatives):
        position = _tried(items, drawn.time, key, j * _TRIES, _TRIES)
        if position < 0 and len(items.windows.begin):
            position = _tried(items, drawn.time, hashed(key, drawn.negatives * _TRIES + j), 0, _MORE_TRIES)
        if position >= 0:
            out[found] = position
            found += 1
    if drawn.exclude_seen:
        for n in range(len(seen)):
            marked[seen[n]] = 0
    marked[rows.slot[positive]] = 0
    for n in range(len(drawn.passed_over)):
        position = items.position[drawn.passed_over[n]]
        if position >= 0 and position != positive:
            out[found] = position
            found += 1
    return found
