"""Losses: gradients of the loss with respect to the scores.

Score 0 belongs to the item that was chosen, the others to the negatives. All other parts of learning are the same for every
loss. The weight of an event scales its loss. An event with a negative weight speaks against its item: its loss is that of
the item not being chosen.
"""

import math

from coldstream.support.arrays import Doubles
from coldstream.support.compiled import kernel

SQUARED, LOGISTIC, SOFTMAX, BPR = 0, 1, 2, 3
CODES = {"squared": SQUARED, "logistic": LOGISTIC, "softmax": SOFTMAX, "bpr": BPR}


@kernel
def sigmoid(score: float) -> float:
    """Return 1 / (1 + e^−score), without overflow on either side."""
    if score >= 0.0:
        return 1.0 / (1.0 + math.exp(-score))
    e = math.exp(score)
    return e / (1.0 + e)


@kernel
def gradients(loss: int, target: float, weight: float, y: Doubles, g: Doubles) -> float:
    """Write ∂ℓ/∂y into g and return Σg, which is 0 by construction for losses that compare scores."""
    total = _opposed(loss, y, g) if weight < 0.0 else _supported(loss, target, y, g)
    if weight == 1.0:
        return total
    for j in range(len(g)):
        g[j] *= abs(weight)
    return total * abs(weight)


@kernel
def _supported(loss: int, target: float, y: Doubles, g: Doubles) -> float:
    """Write the unweighted gradients of an event that speaks for its item; return their sum."""
    m = len(y) - 1
    if loss == SOFTMAX:
        top = y.max()
        total = 0.0
        for j in range(m + 1):
            g[j] = math.exp(y[j] - top)
            total += g[j]
        for j in range(m + 1):
            g[j] /= total
        g[0] -= 1.0
        return 0.0
    if loss == BPR:  # the mean over the negatives of −log σ(y0 − yj)
        g[0] = 0.0
        for j in range(1, m + 1):
            g[j] = sigmoid(y[j] - y[0]) / m
            g[0] -= g[j]
        return 0.0
    total = 0.0
    for j in range(m + 1):
        wanted = target if j == 0 else 0.0
        g[j] = sigmoid(y[j]) - wanted if loss == LOGISTIC else 2.0 * (y[j] - wanted)
        total += g[j]
    return total


@kernel
def _opposed(loss: int, y: Doubles, g: Doubles) -> float:
    """Write the gradients of an event against its item; return their sum.

    The item's score goes down. Scores of negatives go up if the loss compares scores.
    """
    m = len(y) - 1
    for j in range(m + 1):
        g[j] = 0.0
    if loss == SOFTMAX and m:  # −log(1 − p0), with p0 = σ(y0 − log Σ e^yj) over the negatives
        top = y[1:].max()
        total = 0.0
        for j in range(1, m + 1):
            g[j] = math.exp(y[j] - top)
            total += g[j]
        g[0] = sigmoid(y[0] - top - math.log(total))
        for j in range(1, m + 1):
            g[j] *= -g[0] / total
    elif loss == BPR:  # the mean over the negatives of −log σ(yj − y0)
        for j in range(1, m + 1):
            g[j] = -sigmoid(y[0] - y[j]) / m
            g[0] -= g[j]
    elif loss != SOFTMAX:  # the loss of a target 0 for the item, as of a negative
        g[0] = sigmoid(y[0]) if loss == LOGISTIC else 2.0 * y[0]
        return float(g[0])
    return 0.0
