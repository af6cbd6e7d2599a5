"""Losses: how scores become gradients with respect to the scores.

Score 0 belongs to what happened, the others to the negatives. Whatever the loss, all the rest of learning is the same.
"""

import math

from coldstream.arrays import Doubles
from coldstream.model.compiled import kernel

SQUARED, LOGISTIC, SOFTMAX, BPR = 0, 1, 2, 3
CODES = {"squared": SQUARED, "logistic": LOGISTIC, "softmax": SOFTMAX, "bpr": BPR}


@kernel
def sigmoid(score: float) -> float:
    """1 / (1 + e^−score), without overflow on either side."""
    if score >= 0.0:
        return 1.0 / (1.0 + math.exp(-score))
    e = math.exp(score)
    return e / (1.0 + e)


@kernel
def gradients(loss: int, target: float, y: Doubles, g: Doubles) -> float:
    """Write ∂ℓ/∂y into g and return Σg, which is zero by construction where only differences of scores matter."""
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
