"""Statistical significance of differences between methods: McNemar's test and a block bootstrap.

McNemar's test asks whether the events that only A hit outnumber those that only B hit by more than chance explains. It
assumes independent events, which consecutive events of one user are not. The block bootstrap does not assume that, and it
also gives an interval for the size of a difference.

Seeds are not a sample of events: they repeat the same events with another initialisation. Therefore hits are never pooled
over seeds, which would make any difference significant if it were repeated often enough. McNemar's test is made for each
seed that both methods have, and the p-values are combined by a majority: with K seeds and k = K // 2 + 1, p is K/k times
the k-th smallest. The result is a p-value for any dependence between the seeds (Rüger 1978), is never below the median
seed's, and with one seed equals the p-value of that seed. The bootstrap first averages hits and percentiles per event over
seeds.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.errors import InvalidInput
from coldstream.evaluation.metrics import hits, percentiles
from coldstream.evaluation.prequential import Trial
from coldstream.support.arrays import Doubles

BLOCK, RESAMPLES, CONFIDENCE = 200, 2000, 0.95
"""Events per block, number of resamples, and confidence level of the bootstrap's intervals."""
SMALLEST_BLOCK, FEWEST_BLOCKS = 10, 20
"""Bounds for short streams: blocks shrink to keep at least this many; below the smallest block there is no interval."""


class Interval(NamedTuple):
    """The 95 % confidence interval of a difference."""

    low: float
    high: float


class Comparison(NamedTuple):
    """Comparison of method a with method b: each difference is the metric of a minus that of b."""

    a: str
    b: str
    recall: float
    recall_interval: Interval | None
    """None if the stream is too short for 20 blocks of 10 events."""
    mpr: float
    mpr_interval: Interval | None
    """None if the stream is too short for 20 blocks of 10 events."""
    p: float
    """p-value of McNemar's test on hits, combined over seeds."""


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the p-value of McNemar's test with continuity correction, from the numbers of events that only one hit."""
    if only_a + only_b == 0:
        return 1.0
    return chi_squared_tail(max(abs(only_a - only_b) - 1, 0) ** 2 / (only_a + only_b))


def chi_squared_tail(statistic: float) -> float:
    """Return the probability that χ² with one degree of freedom is at least as large as the statistic."""
    return math.erfc(math.sqrt(statistic / 2))


def majority(p_values: Sequence[float]) -> float:
    """Combine p-values with unknown dependence into one, which is small only if most of them are small."""
    needed = len(p_values) // 2 + 1
    return min(1.0, len(p_values) / needed * sorted(p_values)[needed - 1])


def resampled_means(values: Doubles, block: int = BLOCK, resamples: int = RESAMPLES, seed: int = 0) -> Doubles:
    """Return bootstrap means of each column of `values`, resampled in blocks of `block` consecutive events.

    All columns share the same draws, so differences between columns are paired.
    """
    starts = np.arange(0, len(values), block)
    sums = np.add.reduceat(values, starts, axis=0)
    sizes = np.diff(starts, append=len(values))
    even = np.full(len(starts), 1 / len(starts))
    drawn = np.random.default_rng(seed).multinomial(len(starts), even, size=resamples).astype(np.float64)
    means: Doubles = (drawn @ sums) / (drawn @ sizes)[:, None]
    return means


def pairwise(trials: Mapping[str, Mapping[int, Trial]], top: int) -> list[Comparison]:
    """Compare each method with each later one; trials are by method and seed, all on the same events."""
    hit = {name: {seed: hits(trial.rank, top) for seed, trial in seeds.items()} for name, seeds in trials.items()}
    percentile = {
        name: {seed: percentiles(trial.rank, trial.candidates) for seed, trial in seeds.items()}
        for name, seeds in trials.items()
    }
    recalls, mprs = _Bootstrap(hit), _Bootstrap(percentile)
    return [
        Comparison(a, b, *recalls.difference(a, b), *mprs.difference(a, b), _mcnemar_over_seeds(a, hit[a], b, hit[b]))
        for a, b in combinations(trials, 2)
    ]


class _Bootstrap:
    """The mean of one metric per method, measured and resampled."""

    def __init__(self, values: Mapping[str, Mapping[int, NDArray[Any]]]) -> None:
        self._column = {name: column for column, name in enumerate(values)}
        # Streams that are generated per seed differ a little in length.
        shortest = min(len(events) for seeds in values.values() for events in seeds.values())
        averaged = np.stack(
            [np.mean([own[:shortest] for own in seeds.values()], axis=0) for seeds in values.values()], axis=1
        )
        self._mean = averaged.mean(axis=0)
        block = min(BLOCK, len(averaged) // FEWEST_BLOCKS)
        self._resampled = resampled_means(averaged, block) if block >= SMALLEST_BLOCK else None

    def difference(self, a: str, b: str) -> tuple[float, Interval | None]:
        a_column, b_column = self._column[a], self._column[b]
        difference = float(self._mean[a_column] - self._mean[b_column])
        if self._resampled is None:
            return difference, None
        tail = (1 - CONFIDENCE) / 2
        low, high = np.quantile(self._resampled[:, a_column] - self._resampled[:, b_column], [tail, 1 - tail])
        return difference, Interval(float(low), float(high))


def _mcnemar_over_seeds(
    a: str, a_hits: Mapping[int, NDArray[np.bool_]], b: str, b_hits: Mapping[int, NDArray[np.bool_]]
) -> float:
    common = [seed for seed in a_hits if seed in b_hits]
    if not common:
        raise InvalidInput(f"methods {a!r} and {b!r} have no seed in common; run both with the same seeds")
    return majority([mcnemar(int((a_hits[s] & ~b_hits[s]).sum()), int((b_hits[s] & ~a_hits[s]).sum())) for s in common])
