"""Trends: how often an item was chosen lately, as the logarithm of a decaying count.

In the logarithm decay is a constant rate, so a value at any later time is one multiply-add and one maximum away.

An item that nobody has chosen yet has no count, which is not the same as a count of nothing. It is taken to be as hot as
newcomers have lately been: how many untried items were chosen, over how many fresh ones there were to choose, is their rate
per event, and an item of that rate would have a count of rate × half-life / log 2. From there an item that goes on being
untried fades, as fast as the fastest trend.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from coldstream.arrays import Flags, Floats, Integers
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
def guessed(trends: Trends, slot: int, clock: int, guess: np.float32) -> np.float32:
    """The same for an untried item, from the guess for one that comes now."""
    return np.float32(guess - np.float32(trends.fade) * np.float32(max(clock - trends.clock[slot], 0)))


@inlined
def counted_value(trends: Trends, slot: int, h: int, clock: int) -> np.float32:
    """The value of an item that was chosen; 0 for one that is untried."""
    return np.float32(max(_level(trends, slot, h, clock), np.float32(0.0)))


@inlined
def trend_value(trends: Trends, slot: int, h: int, clock: int) -> np.float32:
    """log(max(count, ε) / ε) now: the feature's value, 0 for an item nobody chose lately; a guess for an untried one."""
    if trends.times[slot] == 0:
        return np.float32(max(guessed(trends, slot, clock, trends.guess[h]), np.float32(0.0)))
    return counted_value(trends, slot, h, clock)


@kernel
def enter(trends: Trends, slot: int, clock: int) -> None:
    """An item comes, untried."""
    trends.times[slot], trends.clock[slot] = 0, clock
    trends.untried[0] += 1.0


@kernel
def leave(trends: Trends, slot: int, clock: int) -> None:
    """An item goes, or is untried no longer."""
    if trends.times[slot] == 0:
        trends.untried[0] = max(trends.untried[0] - math.exp(-trends.fade * (clock - trends.clock[slot])), 0.0)


@kernel
def count_touch(trends: Trends, slot: int, clock: int) -> None:
    """Count one more choice of an item, at every half-life. One call per event: whatever fades, fades by one event."""
    first = trends.times[slot] == 0
    for h in range(len(trends.rate)):
        rate = np.float64(trends.rate[h])
        trends.newcomers[0, h] = math.exp(-rate) * trends.newcomers[0, h] + first
        trends.newcomers[1, h] = math.exp(-rate) * trends.newcomers[1, h] + trends.untried[0]
        pace = trends.newcomers[0, h] / (trends.newcomers[1, h] + 1.0)  # at first as if one had gone unchosen
        trends.guess[h] = math.log(max(pace / rate, EPSILON)) - _LOG_EPSILON
    leave(trends, slot, clock)
    trends.untried[0] *= math.exp(-trends.fade)
    trends.times[slot] += 1
    for h in range(len(trends.rate)):
        count = math.exp(np.float64(_level(trends, slot, h, clock)) + _LOG_EPSILON)
        trends.level[slot, h] = math.log1p(count) - _LOG_EPSILON
    trends.clock[slot] = clock


@kernel
def replay_touches(trends: Trends, slot: Integers, came: Flags, clock: int, level: Floats, guess: Floats) -> None:
    """Count the events of a batch in order: the guess before each, and the item's levels after it.

    Where an item came with an event, it is entered then.
    """
    for e in range(len(slot)):
        if came[e]:
            enter(trends, slot[e], clock + e)
        for h in range(level.shape[1]):
            guess[e, h] = trends.guess[h]
        count_touch(trends, slot[e], clock + e)
        for h in range(level.shape[1]):
            level[e, h] = trends.level[slot[e], h]


def trends_of(half_lives: Iterable[float], columns: Iterable[int], interacting: bool) -> Trends:
    """Trends with no item yet."""
    rate = np.array([math.log(2.0) / half_life for half_life in half_lives], np.float32)
    level = np.full((0, len(rate)), NO_COUNT, np.float32)
    clock, times, column = np.zeros(0, np.int64), np.zeros(0, np.int32), np.array(list(columns), np.int32)
    fade, newcomers, guess = float(rate.max(initial=0.0)), np.zeros((2, len(rate))), np.zeros(len(rate), np.float32)
    return Trends(level, clock, times, rate, column, interacting, fade, np.zeros(1), newcomers, guess)


def copied(trends: Trends) -> Trends:
    """Trends that can be counted on without changing these."""
    arrays: dict[str, Any] = {name: own.copy() for name, own in trends._asdict().items() if isinstance(own, np.ndarray)}
    return trends._replace(**arrays)
