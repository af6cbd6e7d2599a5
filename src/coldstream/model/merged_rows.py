"""Rows that several learners have changed, merged in one pass over them; `coldstream.cluster.merging` states the rule.

Shapes: d columns, u of them touched by any learner, n learners, g rows given by all of them together, m numbers in a row.
"""

import numpy as np

from coldstream.support.arrays import Floats, Integers
from coldstream.support.compiled import inlined, kernel

_HALF = np.float32(0.5)
_NOTHING = np.float32(0.0)


@kernel
def merge_rows(
    rows: Floats,  # (d, m): as they are; changed in place
    base: Floats,  # (d, m): as they were at the last merge; changed in place
    column: Integers,  # (u,)
    source: Integers,  # (u, n): which of the rows given is a learner's; −1 where it has not touched the column
    given: Floats,  # (g, m)
    share: Floats,  # (n + 1,): by how many touched it, what the sum of the deltas is divided by
    squares: bool,  # whether they are AdaGrad's sums, which may have begun anew
    negative: bool,  # whether they may be below 0
) -> None:
    """Put together what all learners have made of the rows they touched. What one alone has touched is taken as it is."""
    learners, width = source.shape[1], base.shape[1]
    total = np.empty(width, np.float32)
    for u in range(len(column)):
        c, count, last = column[u], 0, 0
        for learner in range(learners):
            if source[u, learner] >= 0:
                count += 1
                last = source[u, learner]
        if count == 1:
            for f in range(width):
                base[c, f] = given[last, f]
                rows[c, f] = given[last, f]
            continue
        for f in range(width):
            total[f] = _NOTHING
        for learner in range(learners):
            n = source[u, learner]
            if n >= 0:
                for f in range(width):
                    total[f] += given[n, f] - base[c, f]
        divisor = share[count]
        for f in range(width):
            total[f] = base[c, f] + total[f] / divisor
        if squares and _has_begun_anew(base, c, source, u, given):
            _begin_anew(base, c, source, u, given, total)
        for f in range(width):
            merged = total[f]
            if not negative and merged < _NOTHING:
                merged = _NOTHING
            base[c, f] = merged
            rows[c, f] = merged


@inlined
def _has_begun_anew(base: Floats, c: int, source: Integers, u: int, given: Floats) -> bool:
    """Whether any learner let any sum of a row begin anew."""
    found = False
    for learner in range(source.shape[1]):
        n = source[u, learner]
        if n >= 0:
            for f in range(base.shape[1]):
                found |= given[n, f] < _HALF * base[c, f]
    return found


@inlined
def _begin_anew(base: Floats, c: int, source: Integers, u: int, given: Floats, merged: Floats) -> None:
    """Sums that learners let begin anew count as a whole, and what was before does not count any more."""
    for f in range(base.shape[1]):
        before, total, begun = base[c, f], _NOTHING, False
        for learner in range(source.shape[1]):
            n = source[u, learner]
            if n < 0:
                continue
            value = given[n, f]
            if value < _HALF * before:
                begun = True
                total += value
            else:
                total += value - before
        if begun:
            merged[f] = total
