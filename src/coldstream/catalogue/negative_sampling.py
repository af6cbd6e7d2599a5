"""Negative sampling: items drawn uniformly from those that could have been chosen.

What is drawn follows from a key, and from the position and the time of the event.
"""

from typing import NamedTuple

import numpy as np

from coldstream.catalogue.shapes import Items
from coldstream.catalogue.windows import is_available
from coldstream.model.keyed_random import below, hashed
from coldstream.model.vectors import prefetch
from coldstream.support.arrays import Integers
from coldstream.support.compiled import inlined

_TRIES = 32  # draws for one negative before it is given up …
_MORE_TRIES = 1024  # … and further ones where items have windows: most may be out of season


class NegativeDraw(NamedTuple):
    """Where an event's negatives come from."""

    key: np.uint64
    position: int  # of the event in the log
    negatives: int
    exclude_seen: bool  # whether what the user had is no negative
    time: float  # of the event: what was not available then is no negative
    passed_over: Integers  # slots of items that are negatives as well, as long as they are live


NOTHING_PASSED_OVER: Integers = np.zeros(0, np.int32)


@inlined
def room_for(drawn: NegativeDraw) -> int:
    """How many a positive and its negatives are at most."""
    return 1 + drawn.negatives + len(drawn.passed_over)


@inlined
def _tried(items: Items, time: float, key: np.uint64, first: int, tries: int) -> int:
    """The position of the first drawn that is neither marked nor unavailable; −1 where none is found in so many tries."""
    for attempt in range(tries):
        position = below(key, first + attempt, items.size)
        slot = items.rows.slot[position]
        if not items.marked[slot] and is_available(items.windows, slot, time):
            return position
    return -1


@inlined
def draw(items: Items, drawn: NegativeDraw, positive: int, seen: Integers, out: Integers) -> int:
    """Positions of the positive and its negatives, and how many they are.

    Negatives are live items without the positive, what is excluded, and what was not available then. What was passed over
    comes after those that are drawn.
    """
    key = hashed(drawn.key, drawn.position)
    marked, rows = items.marked, items.rows
    if drawn.exclude_seen:
        for n in range(len(seen)):
            marked[seen[n]] = 1
    marked[rows.slot[positive]] = 1
    for j in range(drawn.negatives):  # all first tries are asked for before any is looked at
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
