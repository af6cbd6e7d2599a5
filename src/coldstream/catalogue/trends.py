"""Trends: how often an item was chosen lately, as the logarithm of a decaying count.

In the logarithm decay is a constant rate, so a value at any later time takes one multiply-add and one maximum.

An item that was never chosen has no count, which differs from a count of 0. Its trend is the prior: the choices that
unchosen items received lately, divided by how many recent ones there were to choose, give their rate per event, and an item
of that rate would have a count of rate × half-life / log 2. While the item stays unchosen, the prior decays at the rate of
the fastest trend.
"""

import math
from collections.abc import Iterable

import numpy as np

from coldstream.catalogue.shapes import ScanRows, Trends
from coldstream.support.arrays import Flags, Floats, Integers
from coldstream.support.compiled import inlined, kernel

NO_COUNT = -math.inf

EPSILON = 0.01
"""ε: a hundredth of one choice; lower counts are treated as this one, with a trend of 0."""
_LOG_EPSILON = math.log(EPSILON)


@inlined
def trend_value(
    level: np.float32, rate: np.float32, unchosen: np.float32, prior: np.float32, decay: np.float32, elapsed: np.float32
) -> np.float32:
    """Return log(max(count, ε) / ε) after `elapsed` events: that of the count, or of the prior if the item was never chosen.

    Without a count the level is −∞. The code has no branch, so that the compiler vectorizes it.
    """
    zero = np.float32(0.0)
    return np.float32(max(level - rate * elapsed, zero) + unchosen * max(prior - decay * elapsed, zero))


@inlined
def value_at(trends: Trends, rows: ScanRows, position: int, h: int, clock: int) -> np.float32:
    """Return the present value of trend `h` of a live item."""
    elapsed, decay = np.float32(clock - rows.counted_at[position]), np.float32(trends.prior_decay)
    return trend_value(rows.level[h, position], trends.rate[h], rows.unchosen[position], trends.prior[h], decay, elapsed)


@kernel
def enter(trends: Trends, rows: ScanRows, position: int, clock: int) -> None:
    """Initialize the trends of an arriving item, which is unchosen."""
    for h in range(len(trends.rate)):
        rows.level[h, position] = NO_COUNT
    rows.counted_at[position], rows.unchosen[position] = clock, 1.0
    trends.unchosen_total[0] += 1.0


def enter_all(trends: Trends, rows: ScanRows, first: int, last: int, clock: int) -> None:
    """Initialize the trends of items that arrive at positions from `first` on and before `last`, unchosen."""
    rows.level[:, first:last] = NO_COUNT
    rows.counted_at[first:last], rows.unchosen[first:last] = clock, 1.0
    total = float(trends.unchosen_total[0])
    for _ in range(first, last):  # rounded after each addition, as when items arrive one by one
        total += 1.0
    trends.unchosen_total[0] = total


@kernel
def leave(trends: Trends, rows: ScanRows, position: int, clock: int) -> None:
    """Subtract an item that leaves or is first chosen from the unchosen ones."""
    if rows.unchosen[position] > 0.0:
        faded = math.exp(-trends.prior_decay * (clock - rows.counted_at[position]))
        trends.unchosen_total[0] = max(trends.unchosen_total[0] - faded, 0.0)


@inlined
def _note_newcomers(trends: Trends, first: float) -> None:
    """Update the prior after an event, where `first` is 1 if the event chose an unchosen item, and 0 otherwise."""
    for h in range(len(trends.rate)):
        rate = np.float64(trends.rate[h])
        trends.newcomers[0, h] = math.exp(-rate) * trends.newcomers[0, h] + first
        trends.newcomers[1, h] = math.exp(-rate) * trends.newcomers[1, h] + trends.unchosen_total[0]
        pace = trends.newcomers[0, h] / (trends.newcomers[1, h] + 1.0)  # + 1: as if one had gone unchosen
        trends.prior[h] = math.log(max(pace / rate, EPSILON)) - _LOG_EPSILON


@kernel
def pass_by(trends: Trends) -> None:
    """Decay by one event that counts no choice."""
    _note_newcomers(trends, 0.0)
    trends.unchosen_total[0] *= math.exp(-trends.prior_decay)


@kernel
def count_trend(trends: Trends, rows: ScanRows, position: int, clock: int) -> None:
    """Count a choice of an item in each trend, and decay by one event. To be called once per event."""
    _note_newcomers(trends, float(rows.unchosen[position]))
    leave(trends, rows, position, clock)
    trends.unchosen_total[0] *= math.exp(-trends.prior_decay)
    elapsed = np.float32(clock - rows.counted_at[position])
    for h in range(len(trends.rate)):
        level = np.float32(rows.level[h, position] - trends.rate[h] * elapsed)
        rows.level[h, position] = math.log1p(math.exp(np.float64(level) + _LOG_EPSILON)) - _LOG_EPSILON
    rows.counted_at[position], rows.unchosen[position] = clock, 0.0


@kernel
def replay_choices(
    trends: Trends,
    rows: ScanRows,
    position: Integers,
    came: Flags,
    counted: Flags,
    clock: int,
    level: Floats,
    prior: Floats,
) -> None:
    """Count the events of a batch in order; write the prior before each, and the levels of its item after it.

    An item that arrived with an event (`came`) is initialized there. Events not in `counted` only decay.
    """
    for e in range(len(position)):
        if came[e]:
            enter(trends, rows, position[e], clock + e)
        for h in range(level.shape[1]):
            prior[e, h] = trends.prior[h]
        if counted[e]:
            count_trend(trends, rows, position[e], clock + e)
        else:
            pass_by(trends)
        for h in range(level.shape[1]):
            level[e, h] = rows.level[h, position[e]]


def trends_of(half_lives: Iterable[float], columns: Iterable[int]) -> Trends:
    """Return trends of no items yet."""
    rate = np.array([math.log(2.0) / half_life for half_life in half_lives], np.float32)
    column, decay = np.array(list(columns), np.int32), float(rate.max(initial=0.0))
    return Trends(rate, column, decay, np.zeros(1), np.zeros((2, len(rate))), np.zeros(len(rate), np.float32))
