"""A block of the scan: room for its scores, and what single items of it are marked with."""

from typing import NamedTuple

import numpy as np

from coldstream.catalogue.shapes import Items
from coldstream.support.arrays import Flags, Floats, Integers
from coldstream.support.compiled import inlined

BLOCK = 512
EXCLUDED = np.float32(-np.inf)
"""The score of an item that a request may not get; no other score is infinite."""


class Marks(NamedTuple):
    """What a request says of single items, bucketed by block; the entries of one item keep their order."""

    start: Integers  # (blocks + 1,)
    position: Integers
    kind: Flags
    value: Floats


class Room(NamedTuple):
    """Room for one block."""

    score: Floats
    trend: Floats  # (H, BLOCK)
    elapsed: Floats
    choices: Integers
    again: Floats  # all 0 between two uses


@inlined
def room_of(items: Items) -> Room:
    """Room for one block of these items."""
    trend, elapsed = np.empty((len(items.trends.rate), BLOCK), np.float32), np.empty(BLOCK, np.float32)
    return Room(np.empty(BLOCK, np.float32), trend, elapsed, np.empty(BLOCK, np.int32), np.zeros(BLOCK, np.float32))


@inlined
def bucketed(count: int, marks: Marks) -> Marks:
    """Marks of so many items, by block."""
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
