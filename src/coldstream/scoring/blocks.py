"""A block of the scan: space for its scores, and the marks of single items in it."""

from typing import NamedTuple

import numpy as np

from coldstream.catalogue.shapes import Items
from coldstream.support.arrays import Flags, Floats, Integers
from coldstream.support.compiled import inlined

BLOCK = 512
EXCLUDED = np.float32(-np.inf)
"""Score of an item excluded from a request; no other score is infinite."""


class Marks(NamedTuple):
    """A request's marks on single items, grouped by block; the entries of one item keep their order."""

    start: Integers  # (blocks + 1,)
    position: Integers
    kind: Flags
    value: Floats


class Room(NamedTuple):
    """Scratch arrays for one block."""

    score: Floats
    trend: Floats  # (H, BLOCK)
    elapsed: Floats
    choices: Integers
    again: Floats  # all 0 between two uses


@inlined
def room_of(items: Items) -> Room:
    """Return scratch arrays for one block of these items."""
    trend, elapsed = np.empty((len(items.trends.rate), BLOCK), np.float32), np.empty(BLOCK, np.float32)
    return Room(np.empty(BLOCK, np.float32), trend, elapsed, np.empty(BLOCK, np.int32), np.zeros(BLOCK, np.float32))


@inlined
def bucketed(count: int, marks: Marks) -> Marks:
    """Group the marks of `count` items by block."""
    blocks, found = (count + BLOCK - 1) // BLOCK, len(marks.position)
    start = np.zeros(blocks + 2, np.int32)
    for n in range(found):
        start[marks.position[n] // BLOCK + 2] += 1
    for block in range(2, blocks + 2):
        start[block] += start[block - 1]
    position, kind, value = np.empty(found, np.int32), np.empty(found, np.uint8), np.empty(found, np.float32)
    for n in range(found):
        block = marks.position[n] // BLOCK
        to = start[block + 1]
        start[block + 1] += 1
        position[to], kind[to], value[to] = marks.position[n] - block * BLOCK, marks.kind[n], marks.value[n]
    return Marks(start, position, kind, value)
