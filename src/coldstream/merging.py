"""The merge rule: what several learners did to the same numbers since they last agreed, put together.

    w, V and w0      θ = θ_before + Σ (θ_l − θ_before) / √n     over those n learners that touched it
    AdaGrad's sums   G = G_before + Σ (G_l − G_before)          they are sums
    sensitivities    S = S_before + Σ (S_l − S_before) / n      they are a state of the parameter, not a sum
    λ per field      log λ as θ; its steps are factors
    the paper's λ    λ = max(0, λ_before + Σ (λ_l − λ_before) / √n)
    scales of λ      as sensitivities
    surprise         as sums; what has begun anew for one has begun anew for all

What one learner alone has touched is taken as it is, so that one learner is the same as no merge, in every bit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import Doubles, Integers
from coldstream.model.renewal import EVENTS, RENEWED
from coldstream.model.shapes import FIXED, PER_FIELD

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
    "surprise": 0.0,
}
"""By name, the power of n that the sum of the deltas is divided by."""

_LAMBDAS = ("lambda_w", "lambda_V")
_NEVER_NEGATIVE = ("Gw", "GV", "G0", "lambda0", "lambda_w", "lambda_V", "penalty_mean_square")


def merged_rows(
    name: str, before: NDArray[Any], count: Integers, given: Sequence[tuple[NDArray[Any], NDArray[Any]]]
) -> NDArray[Any]:
    """Rows of one kind: as they were, how many learners touched each, and what each learner has at which of them."""
    total = np.zeros(before.shape, before.dtype)
    for at, values in given:
        total[at] += values - before[at]
    share = np.maximum(count, 1).astype(np.float32) ** np.float32(_DIVIDED[name])
    total /= share if total.ndim == 1 else share[:, None]
    merged: NDArray[Any] = before + total
    if name in _NEVER_NEGATIVE:
        several = count > 1 if total.ndim == 1 else (count > 1)[:, None]
        np.maximum(merged, 0.0, out=merged, where=several)
    for at, values in given:
        alone = count[at] == 1
        merged[at[alone]] = values[alone]
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


def merged_surprise(before: Doubles, given: Sequence[Doubles]) -> Doubles:
    """How surprising choices were: as it was, and what each learner has. Their means are moved by all events."""
    if len(given) == 1:
        return given[0]
    merged = merged_penalties("surprise", before, given, FIXED)
    merged[RENEWED] = max(one[RENEWED] for one in given)
    if merged[RENEWED] > before[RENEWED]:
        merged[EVENTS] = 0.0
    return merged
