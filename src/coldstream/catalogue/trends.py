"""Trends: how often an item was chosen lately, as the logarithm of a decaying count.

In the logarithm decay is a constant rate, so a value at any later time is one multiply-add and one maximum away.
"""

import math
from collections.abc import Iterable

import numpy as np

from coldstream.arrays import Floats, Integers
from coldstream.catalogue.shapes import Trends
from coldstream.model.compiled import inlined, kernel

NO_COUNT = -math.inf

EPSILON = 0.01
"""ε: counts below a hundredth of one choice are taken as nothing."""
_LOG_EPSILON = math.log(EPSILON)


@inlined
def _level(trends: Trends, slot: int, h: int, clock: int) -> np.float32:
    """log(count / ε) now: decay is a constant rate in the logarithm."""
    return np.float32(trends.level[slot, h] - trends.rate[h] * np.float32(clock - trends.clock[slot]))


@inlined
def trend_value(trends: Trends, slot: int, h: int, clock: int) -> np.float32:
    """log(max(count, ε) / ε) now: the feature's value, 0 for an item that nobody chose lately."""
    return np.float32(max(_level(trends, slot, h, clock), np.float32(0.0)))


@kernel
def count_touch(trends: Trends, slot: int, clock: int) -> None:
    """Count one more choice of an item, at every half-life."""
    for h in range(len(trends.rate)):
        count = math.exp(np.float64(_level(trends, slot, h, clock)) + _LOG_EPSILON)
        trends.level[slot, h] = math.log1p(count) - _LOG_EPSILON
    trends.clock[slot] = clock


@kernel
def replay_touches(trends: Trends, slot: Integers, clock: int, level: Floats) -> None:
    """Count the events of a batch in order, on a copy of the trends, and write down each item's levels after each."""
    for e in range(len(slot)):
        count_touch(trends, slot[e], clock + e)
        for h in range(level.shape[1]):
            level[e, h] = trends.level[slot[e], h]


def trends_of(half_lives: Iterable[float], columns: Iterable[int], interacting: bool) -> Trends:
    """Trends with no item yet."""
    rate = np.array([math.log(2.0) / half_life for half_life in half_lives], np.float32)
    level = np.full((0, len(rate)), NO_COUNT, np.float32)
    return Trends(level, np.zeros(0, np.int64), rate, np.array(list(columns), np.int32), interacting)
