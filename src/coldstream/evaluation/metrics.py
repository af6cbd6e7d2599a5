"""Ranking metrics: pure functions of arrays with one row per tested event. The mean of no events is NaN."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.support.arrays import Doubles, Longs


class Spread(NamedTuple):
    """A mean and its population standard deviation, which divides by n, as the paper does."""

    mean: float
    deviation: float


def hits(rank: Doubles, top: int) -> NDArray[np.bool_]:
    """Return for each tested event whether its item ranked among the best `top`."""
    return rank < top


def recall(rank: Doubles, top: int) -> float:
    """Return recall@N: the share of tested events that are hits."""
    return mean(hits(rank, top))


def moving_recall(rank: Doubles, top: int, window: int) -> Doubles:
    """Return recall@N/T after each event t: the hits among the last T events, divided by min(t + 1, T)."""
    return moving_mean(hits(rank, top), window)


def moving_mean(values: NDArray[Any], window: int) -> Doubles:
    """Return after each value the mean of the last `window` values, or of all values so far while there are fewer."""
    total = np.cumsum(values, dtype=np.float64)
    fallen_out = np.zeros_like(total)
    fallen_out[window:] = total[:-window]
    return (total - fallen_out) / np.minimum(np.arange(1, len(total) + 1), window)


def paper_recall(curves: Sequence[Doubles]) -> Spread:
    """Return the paper's recall: the mean and deviation of recall@N/T over time and trials."""
    return spread(np.concatenate(curves))


def percentiles(rank: Doubles, candidates: Longs) -> Doubles:
    """Return percentile ranks, 100 · rank / (candidates − 1): 0 is best, chance is 50. A single candidate has 0."""
    return 100 * rank / np.maximum(candidates - 1, 1)


def mpr(rank: Doubles, candidates: Longs) -> float:
    """Return the mean percentile rank."""
    return mean(percentiles(rank, candidates))


def mrr(rank: Doubles) -> float:
    """Return the mean reciprocal rank: the mean of 1 / (rank + 1), because ranks count from 0 here."""
    return mean(1 / (rank + 1))


def ndcg(rank: Doubles, top: int) -> float:
    """Return nDCG@N with one relevant item per event: the mean of 1 / log2(rank + 2) for hits and 0 for misses."""
    return mean(hits(rank, top) / np.log2(rank + 2))


def coverage(recommended: int, registered: int) -> float:
    """Return the share of all registered items that were recommended at least once; NaN without items."""
    return recommended / registered if registered else math.nan


def spread(values: Doubles) -> Spread:
    """Return the mean and the population standard deviation of values; NaN for both without values."""
    return Spread(mean(values), float(values.std()) if len(values) else math.nan)


def mean(values: NDArray[Any]) -> float:
    """Return the mean of values; NaN without values."""
    return float(values.mean()) if len(values) else math.nan
