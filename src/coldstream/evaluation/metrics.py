"""What ranks amount to: pure functions of arrays with one row per tested event. Of no events the mean is nan."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.support.arrays import Doubles, Longs


class Spread(NamedTuple):
    """A mean and the standard deviation around it, both over all of what there is: divided by n, as the paper's are."""

    mean: float
    deviation: float


def hits(rank: Doubles, top: int) -> NDArray[np.bool_]:
    """Whether each item was among the best `top`."""
    return rank < top


def recall(rank: Doubles, top: int) -> float:
    """recall@N: the share of hits."""
    return mean(hits(rank, top))


def moving_recall(rank: Doubles, top: int, window: int) -> Doubles:
    """recall@N/T after every event: the hits among the last T events / min(t + 1, T)."""
    return moving_mean(hits(rank, top), window)


def moving_mean(values: NDArray[Any], window: int) -> Doubles:
    """The mean of the last `window` values after every one of them, of fewer where there are not yet as many."""
    total = np.cumsum(values, dtype=np.float64)
    fallen_out = np.zeros_like(total)
    fallen_out[window:] = total[:-window]
    return (total - fallen_out) / np.minimum(np.arange(1, len(total) + 1), window)


def paper_recall(curves: Sequence[Doubles]) -> Spread:
    """The paper's recall: the mean of recall@N/T over time and trials, and its deviation over time and trials."""
    return spread(np.concatenate(curves))


def percentiles(rank: Doubles, candidates: Longs) -> Doubles:
    """100 · rank / (candidates − 1): 0 is best, chance is 50. A single candidate is the best there is."""
    return 100 * rank / np.maximum(candidates - 1, 1)


def mpr(rank: Doubles, candidates: Longs) -> float:
    """The mean percentile rank."""
    return mean(percentiles(rank, candidates))


def mrr(rank: Doubles) -> float:
    """The mean reciprocal rank, which counts from 1."""
    return mean(1 / (rank + 1))


def ndcg(rank: Doubles, top: int) -> float:
    """nDCG@N where one item is relevant: the mean of 1 / log2(rank + 2) of hits, and of 0."""
    return mean(hits(rank, top) / np.log2(rank + 2))


def coverage(recommended: int, registered: int) -> float:
    """The share of all items that were recommended at all."""
    return recommended / registered if registered else math.nan


def spread(values: Doubles) -> Spread:
    """The mean and the deviation of values."""
    return Spread(mean(values), float(values.std()) if len(values) else math.nan)


def mean(values: NDArray[Any]) -> float:
    """The mean of values."""
    return float(values.mean()) if len(values) else math.nan
