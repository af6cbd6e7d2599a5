"""Negative sampling: items drawn uniformly from those that could have been chosen, by nothing but a key and a position."""

from typing import NamedTuple

import numpy as np

from coldstream.arrays import Integers
from coldstream.catalogue.shapes import Items
from coldstream.model.compiled import inlined
from coldstream.model.keyed_random import below, hashed
from coldstream.model.vectors import prefetch

_TRIES = 32  # draws for one negative before it is given up


class NegativeDraw(NamedTuple):
    """Where an event's negatives come from."""

    key: np.uint64
    position: int  # of the event in the log
    negatives: int
    exclude_seen: bool  # whether what the user had is no negative


@inlined
def draw(items: Items, drawn: NegativeDraw, positive: int, seen: Integers, out: Integers) -> int:
    """Positions of the positive and its negatives: live items without the positive and what is excluded; how many."""
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
        for attempt in range(_TRIES):
            position = below(key, j * _TRIES + attempt, items.size)
            if not marked[rows.slot[position]]:
                out[found] = position
                found += 1
                break
    if drawn.exclude_seen:
        for n in range(len(seen)):
            marked[seen[n]] = 0
    marked[rows.slot[positive]] = 0
    return found
