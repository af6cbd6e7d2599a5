"""Of very many rows the few that are least useful, in one pass over all of them: whoever looks holds up everybody else."""

import numpy as np

from coldstream.arrays import Doubles, Integers
from coldstream.model.compiled import inlined, kernel


def least_used(worth: Doubles, group: Integers, shift: Doubles, count: int) -> Integers:
    """So many rows of which `worth` less the `shift` of their group is least, in order of groups; of equals, the first.

    Rows of no group (below 0), and of groups whose shift is not a number, are passed over.
    """
    rows = _least_used(worth, group, shift, count)
    ordered: Integers = rows[np.lexsort((rows, group[rows]))]
    return ordered


@kernel
def _least_used(worth: Doubles, group: Integers, shift: Doubles, count: int) -> Integers:
    # A heap of the least so far, the one that has to leave it first on top: most rows are compared with that one alone.
    held, size = np.empty(count, np.int32), 0
    for row in range(min(len(worth), len(group))):
        if group[row] < 0 or np.isnan(shift[group[row]]):
            continue
        if size < count:
            at = size
            size += 1
            while at > 0 and _comes_before(worth, group, shift, held[(at - 1) // 2], row):
                held[at] = held[(at - 1) // 2]
                at = (at - 1) // 2
            held[at] = row
        elif count > 0 and _comes_before(worth, group, shift, row, held[0]):
            at, child = 0, 1
            while child < size:
                if child + 1 < size and _comes_before(worth, group, shift, held[child], held[child + 1]):
                    child += 1
                if not _comes_before(worth, group, shift, row, held[child]):
                    break
                held[at] = held[child]
                at, child = child, 2 * child + 1
            held[at] = row
    return held[:size]


@inlined
def _comes_before(worth: Doubles, group: Integers, shift: Doubles, one: int, other: int) -> bool:
    """Whether one row goes before another."""
    own, their = worth[one] - shift[group[one]], worth[other] - shift[group[other]]
    if own != their:
        return bool(own < their)
    if group[one] != group[other]:
        return bool(group[one] < group[other])
    return one < other
