"""The merge rule: how changes of the same numbers by several learners since their last merge are combined.

    w, V and w0      θ = θ_before + Σ (θ_l − θ_before) / √n     over those n learners that touched it
    AdaGrad's sums   G = G_before + Σ (G_l − G_before)          they are sums; a sum that was restarted drops what was before
    sensitivities    S = S_before + Σ (S_l − S_before) / n      they are a state of the parameter, not a sum
    λ per field      log λ as θ; its steps are factors
    the paper's λ    λ = max(0, λ_before + Σ (λ_l − λ_before) / √n)
    scales of λ      as sensitivities
    surprise         counts and means as sums of their changes; if one learner restarts them, all do

A number that a single learner has touched is taken as it is, so merging a single learner changes no bit.
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
"""Power of n by which sums of changes are divided.

With 0, steps that many learners took in one direction go too far; with 1, the weight of each event falls with the number of
learners.
"""

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
"""Power of n, by parameter, by which the sum of the changes is divided."""

_SQUARES = ("Gw", "GV")
_LAMBDAS = ("lambda_w", "lambda_V")
_NEVER_NEGATIVE = ("Gw", "GV", "G0", "lambda0", "lambda_w", "lambda_V", "penalty_mean_square")


def merge_rows(name: str, rows: Floats, base: Floats, column: Integers, source: Integers, given: Sequence[Floats]) -> None:
    """Merge rows of one kind in place: both the present ones, and the base, which are those of the last merge.

    `source` has, for each column and learner, the place of the learner's row in the concatenation of `given`; −1 for none.
    """
    share = np.arange(source.shape[1] + 1, dtype=np.float32)
    share = np.maximum(share, np.float32(1.0)) ** np.float32(_DIVIDED[name])
    wide = (_wide(rows), _wide(base), column, source, _wide(np.concatenate(given)))
    _merge_rows(*wide, share, name in _SQUARES, name not in _NEVER_NEGATIVE)


def _wide(rows: Floats) -> Floats:
    """Return rows with two dimensions, also where each row is a single number."""
    return rows.reshape(-1, 1) if rows.ndim == 1 else rows


def merged_surprise(before: Doubles, given: Sequence[Doubles]) -> Doubles:
    """Merge the statistics of surprise that learners gathered, each from its own events."""
    moved = [one for one in given if (one != before).any()]
    if len(moved) < 2:
        return moved[0] if moved else before
    merged: Doubles = before + sum((one - before for one in moved), np.zeros(before.shape))
    merged[LAST], merged[RENEWED] = moved[-1][LAST], max(one[RENEWED] for one in moved)
    if merged[RENEWED] > before[RENEWED]:
        merged[EVENTS] = 0.0
    return merged


def merged_penalties(name: str, before: NDArray[Any], given: Sequence[NDArray[Any]], regularization: int) -> NDArray[Any]:
    """Merge w0, its AdaGrad sum or λ of all fields; learners whose value differs from `before` touched it."""
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
