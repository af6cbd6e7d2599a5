"""Merging rows that several learners have changed, in one pass; `coldstream.cluster.merging` states the rule.

Shapes: d columns, u of them touched by any learner, n learners, g rows given by all learners together, m numbers per row.
"""

import numpy as np

from coldstream.support.arrays import Floats, Integers
from coldstream.support.compiled import inlined, kernel

_HALF = np.float32(0.5)
_NOTHING = np.float32(0.0)


@kernel
def merge_rows(
    rows: Floats,  # (d, m): the current values; changed in place
    base: Floats,  # (d, m): the values after the last merge; changed in place
    column: Integers,  # (u,)
    source: Integers,  # (u, n): the index in `given` of each learner's row; −1 if the learner has not touched the column
    given: Floats,  # (g, m)
    share: Floats,  # (n + 1,): the divisor of the sum of deltas, by the number of learners that touched a row
    squares: bool,  # whether the rows are AdaGrad's sums, which a learner may have reset
    negative: bool,  # whether values may be negative
) -> None:
    """Merge the rows that learners have touched. A row that one learner alone has touched is copied."""
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
    """Return whether any learner has reset any sum of a row."""
    found = False
    for learner in range(source.shape[1]):
        n = source[u, learner]
        if n >= 0:
            for f in range(base.shape[1]):
                found |= given[n, f] < _HALF * base[c, f]
    return found


@inlined
def _begin_anew(base: Floats, c: int, source: Integers, u: int, given: Floats, merged: Floats) -> None:
    """Merge the sums of a row if any was reset: a reset sum counts in full, and the sum before the reset is dropped."""
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
