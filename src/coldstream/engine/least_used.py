"""Of very many rows the few that are least useful, in one pass over all of them: whoever looks holds up everybody else.

A sample says below which worth the wanted ones are, most likely; only rows below that are compared with each other. Which
rows are found does not depend on the sample.
"""

import math

import numpy as np

from coldstream.support.arrays import Doubles, Integers
from coldstream.support.compiled import inlined, kernel

SAMPLE = 4096
"""So many rows say where the least of all lie: what they are wrong by is a few per cent."""

SPARE = 2
"""So many times as many as are wanted are looked for below the sample's mark, so that a second look is rare."""


def least_used(worth: Doubles, group: Integers, shift: Doubles, count: int) -> Integers:
    """So many rows of which `worth` less the `shift` of their group is least, in order of groups; of equals, the first.

    Rows of no group (below 0), and of groups whose shift is not a number, are passed over.
    """
    most = _mark(worth, group, shift, count)
    rows = _not_above(worth, group, shift, most)
    if len(rows) < count and most < math.inf:
        rows = _not_above(worth, group, shift, math.inf)
    least = _least_of(rows, worth, group, shift, count)
    ordered: Integers = least[np.lexsort((least, group[least]))]
    return ordered


def _mark(worth: Doubles, group: Integers, shift: Doubles, count: int) -> float:
    """A worth that enough rows do not exceed, by a sample of them; infinity where a sample says too little."""
    rows = min(len(worth), len(group))
    step = rows // SAMPLE
    if step < 2:
        return math.inf
    own = group[:rows:step]
    seen = worth[:rows:step][own >= 0] - shift[own[own >= 0]]
    seen = seen[~np.isnan(seen)]
    at = SPARE * count // step + 8
    return float(np.partition(seen, at)[at]) if at < len(seen) else math.inf


@kernel
def _not_above(worth: Doubles, group: Integers, shift: Doubles, most: float) -> Integers:
    """The rows whose worth does not exceed a mark, in ascending order."""
    rows, size = min(len(worth), len(group)), 0
    found = np.empty(rows, np.int32)
    for row in range(rows):
        if group[row] >= 0 and worth[row] - shift[group[row]] <= most:  # what is not a number exceeds all
            found[size] = row
            size += 1
    return found[:size].copy()


@kernel
def _least_of(rows: Integers, worth: Doubles, group: Integers, shift: Doubles, count: int) -> Integers:
    # A heap of the least so far, the one that has to leave it first on top: most rows are compared with that one alone.
    held, size = np.empty(min(count, len(rows)), np.int32), 0
    for row in rows:
        if size < len(held):
            at = size
            size += 1
            while at > 0 and _comes_before(worth, group, shift, held[(at - 1) // 2], row):
                held[at] = held[(at - 1) // 2]
                at = (at - 1) // 2
            held[at] = row
        elif size > 0 and _comes_before(worth, group, shift, row, held[0]):
            at, child = 0, 1
            while child < size:
                if child + 1 < size and _comes_before(worth, group, shift, held[child], held[child + 1]):
                    child += 1
                if not _comes_before(worth, group, shift, row, held[child]):
                    break
                held[at] = held[child]
                at, child = child, 2 * child + 1
            held[at] = row
    return held


@inlined
def _comes_before(worth: Doubles, group: Integers, shift: Doubles, one: int, other: int) -> bool:
    """Whether one row goes before another."""
    own, their = worth[one] - shift[group[one]], worth[other] - shift[group[other]]
    if own != their:
        return bool(own < their)
    if group[one] != group[other]:
        return bool(group[one] < group[other])
    return one < other
