"""The merge rule: what several learners did to the same numbers since they last agreed, put together.

    w, V and w0      θ = θ_before + Σ (θ_l − θ_before) / √n     over those n learners that touched it
    AdaGrad's sums   G = G_before + Σ (G_l − G_before)          they are sums; where one began anew, what was before is gone
    sensitivities    S = S_before + Σ (S_l − S_before) / n      they are a state of the parameter, not a sum
    λ per field      log λ as θ; its steps are factors
    the paper's λ    λ = max(0, λ_before + Σ (λ_l − λ_before) / √n)
    scales of λ      as sensitivities
    surprise         counts and means as sums of their changes; who begins anew, all do

What one learner alone has touched is taken as it is, so that one learner is the same as no merge, in every bit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.model.merged_rows import merge_rows as _merge_rows_kernel
from coldstream.model.renewal import EVENTS, LAST, RENEWED
from coldstream.model.shapes import PER_FIELD
from coldstream.support.arrays import Doubles, Floats, Integers
from coldstream.support.compiled import unchecked_entry

_merge_rows = unchecked_entry(_merge_rows_kernel)

POWER = 0.5
"""Deltas are divided by n to this power. With 0, steps that many learners took in one direction go too far; with 1, the more
learners there are, the less each event counts."""

_DIVIDED: Mapping[str, float] = {
    "w": POWER,
    "V": POWER,
    "w0": POWER,
    "lambda0": POWER,
    "lambda_w": POWER,
    "lambda_V": POWER,
    "Gw": 0.0,
    "GV": 0.0,
    "G0": 0.0,
    "Sw": 1.0,
    "SV": 1.0,
    "penalty_mean_square": 1.0,
}
"""By name, the power of n that the sum of the deltas is divided by."""

_SQUARES = ("Gw", "GV")
_LAMBDAS = ("lambda_w", "lambda_V")
_NEVER_NEGATIVE = ("Gw", "GV", "G0", "lambda0", "lambda_w", "lambda_V", "penalty_mean_square")


def merge_rows(name: str, rows: Floats, base: Floats, column: Integers, source: Integers, given: Sequence[Floats]) -> None:
    """Put together rows of one kind, as they are and as they were at the last merge, both in place.

    `source` says of every column which of all rows `given`, learner behind learner, is each learner's; −1 for none.
    """
    share = np.arange(source.shape[1] + 1, dtype=np.float32)
    share = np.maximum(share, np.float32(1.0)) ** np.float32(_DIVIDED[name])
    wide = (_wide(rows), _wide(base), column, source, _wide(np.concatenate(given)))
    _merge_rows(*wide, share, name in _SQUARES, name not in _NEVER_NEGATIVE)


def _wide(rows: Floats) -> Floats:
    """A row for every column, also where each has one number."""
    return rows.reshape(-1, 1) if rows.ndim == 1 else rows


def merged_surprise(before: Doubles, given: Sequence[Doubles]) -> Doubles:
    """How surprising choices are, to several learners who each know their own."""
    moved = [one for one in given if (one != before).any()]
    if len(moved) < 2:
        return moved[0] if moved else before
    merged: Doubles = before + sum((one - before for one in moved), np.zeros(before.shape))
    merged[LAST], merged[RENEWED] = moved[-1][LAST], max(one[RENEWED] for one in moved)
    if merged[RENEWED] > before[RENEWED]:
        merged[EVENTS] = 0.0
    return merged


def merged_penalties(name: str, before: NDArray[Any], given: Sequence[NDArray[Any]], regularization: int) -> NDArray[Any]:
    """w0, AdaGrad's sum of it, or λ, of all fields: as it was, and what each learner has; who has another touched it."""
    count = sum(((one != before).astype(np.int32) for one in given), np.zeros(before.shape, np.int32))
    factors = name in _LAMBDAS and regularization == PER_FIELD  # these are never 0
    start: Doubles = np.log(before) if factors else before.astype(np.float64)
    total = np.zeros(before.shape)
    for one in given:
        touched = one != before
        total[touched] += (np.log(one) if factors else one)[touched] - start[touched]
    merged = start + total / np.maximum(count, 1) ** _DIVIDED[name]
    merged = np.exp(merged) if factors else merged
    if name in _NEVER_NEGATIVE:
        merged = np.maximum(merged, 0.0)
    result = before.copy()
    result[count > 1] = merged[count > 1]
    for one in given:
        alone = (count == 1) & (one != before)
        result[alone] = one[alone]
    return result
