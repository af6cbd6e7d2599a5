"""How useful things are, things being numbered rows: how often they were used, the latest uses counting most.

A use counts half after every half-life H, of as many events as there may be things of the kind. Whichever of two is the more
useful does not depend on when one asks: what is kept is log₂ Σ 2^(t/H) over the uses at events t, which only grows. A use at
event t adds 2^(t/H).
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coldstream.bounds.bounds import age_seconds
from coldstream.events.clock import Clock
from coldstream.support.arrays import Doubles, Integers, Longs, grown_up_to

NEVER = -1e300
"""The time of a use before any event had a time."""

HalfLife: TypeAlias = float | Doubles
"""One for all rows, or one for each."""

_NAMES = ("worth", "used_at", "used_time")


class Usage:
    """The worth of every row, and when it was last used: by the count of events, and by the time of the stream."""

    def __init__(self) -> None:
        self.worth: Doubles = np.zeros(0, np.float64)
        self.used_at: Longs = np.zeros(0, np.int64)
        self.used_time: Doubles = np.zeros(0, np.float64)
        self.most_rows = 0
        """How many rows there can be, where that is known: room for all of them is asked for at once. No promise."""

    def make_room(self, rows: int) -> None:
        """Room for so many rows. Those of which nothing is known were used once, when the stream began."""
        if rows > self._room:
            for name in _NAMES:
                setattr(self, name, grown_up_to(self.most_rows, getattr(self, name), rows))

    @property
    def _room(self) -> int:
        """Rows that all arrays have room for: where memory is short, some may have more than others."""
        return min(len(self.worth), len(self.used_at), len(self.used_time))

    def start(self, rows: Integers, clock: Clock, half_life: HalfLife) -> None:
        """Rows that stand for something new: their coming is their first use."""
        self.make_room(int(rows.max(initial=-1)) + 1)
        self.worth[rows] = clock.events / half_life
        self._touch(rows, clock)

    def start_as_used(self, rows: Integers, used_at: Longs, clock: Clock, half_life: float) -> None:
        """Rows that matter from now on, and whose last use is known by its event; how often they were used is not."""
        self.start(rows, clock, half_life)
        self.worth[rows] = np.clip(used_at, 0, clock.events) / half_life

    def note(self, rows: Integers, clock: Clock, half_life: HalfLife) -> None:
        """Rows were used, each once."""
        self.make_room(int(rows.max(initial=-1)) + 1)
        self.worth[rows] = np.logaddexp2(self.worth[rows], clock.events / half_life)
        self._touch(rows, clock)

    def note_one(self, row: int, clock: Clock, half_life: float) -> None:
        """One row was used."""
        self.make_room(row + 1)
        self.worth[row] = np.logaddexp2(self.worth[row], clock.events / half_life)
        self.used_at[row], self.used_time[row] = clock.events, NEVER if clock.time is None else clock.time

    def forget(self, rows: Sequence[int] | Integers) -> None:
        """Rows that stand for nothing any more."""
        own = np.asarray(rows, np.int64)
        known = own[own < self._room]
        for name in _NAMES:
            getattr(self, name)[known] = 0

    def older(self, rows: Integers, age: int | str, clock: Clock) -> Integers:
        """Those of some rows that were not used for longer than this.

        The time of those that were used before there were times begins when one first asks.
        """
        self.make_room(int(rows.max(initial=-1)) + 1)
        if clock.time is not None:
            self.used_time[rows[self.used_time[rows] == NEVER]] = clock.time
        if not isinstance(age, str):
            old = self.used_at[rows] < clock.events - age
        elif clock.time is not None:
            old = self.used_time[rows] < clock.time - age_seconds(age)
        else:
            old = np.zeros(len(rows), np.bool_)
        chosen: Integers = rows[old]
        return chosen

    def rescale(self, rows: Integers, clock: Clock, before: float, after: float) -> None:
        """Rows go on with another half-life; what each counts now, it counts still."""
        self.make_room(int(rows.max(initial=-1)) + 1)
        self.worth[rows] += clock.events / after - clock.events / before

    def counts(self, rows: Integers, clock: Clock, half_life: float) -> Doubles:
        """The logarithms of how often rows were used lately: to compare rows of different half-lives."""
        return self.worth[rows] - clock.events / half_life

    def _touch(self, rows: Integers, clock: Clock) -> None:
        self.used_at[rows] = clock.events
        self.used_time[rows] = NEVER if clock.time is None else clock.time

    def least(self, rows: Integers, count: int) -> Integers:
        """Those of some rows in ascending order that are least useful, so many; of equals, the first."""
        if count >= len(rows):
            return rows
        self.make_room(int(rows[-1]) + 1)
        found: Integers = rows[least_of(self.worth[rows], count)]
        return found

    def copy(self, rows: int) -> "Usage":
        """The same as it is now, of the first rows: behind them is nothing but room."""
        other = Usage()
        other.most_rows = self.most_rows
        for name in _NAMES:
            setattr(other, name, getattr(self, name)[:rows].copy())
        return other

    def state(self, rows: int) -> dict[str, NDArray[Any]]:
        """Of the first rows, as named arrays."""
        self.make_room(rows)
        return {name: getattr(self, name)[:rows].copy() for name in _NAMES}

    def restore(self, rows: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of `state`."""
        self.make_room(rows)
        for name in _NAMES:
            source, own = arrays[name], getattr(self, name)
            if source.dtype != own.dtype or source.shape != (rows,) or not np.isfinite(source).all():
                raise ValueError(f"{name} has type {source.dtype} and shape {source.shape}, or is not finite")
            own[:rows] = source


def least_of(worth: Doubles, count: int) -> NDArray[np.bool_]:
    """Which of several are the least useful, so many; of equals, the first."""
    if count >= len(worth):
        return np.ones(len(worth), np.bool_)
    limit = np.partition(worth, count - 1)[count - 1]
    chosen: NDArray[np.bool_] = worth < limit
    chosen[np.flatnonzero(worth == limit)[: count - int(chosen.sum())]] = True
    return chosen


CHECKS = 64
"""How often, in the time that something may go without use, it is looked at whether it did."""


def is_time_to_look(age: int | str, before: Clock, after: Clock) -> bool:
    """Whether, between two moments, it became time to look for what is older than this."""
    if not isinstance(age, str):
        step = max(1, age // CHECKS)
        return before.events // step != after.events // step
    if after.time is None:
        return False
    seconds = age_seconds(age) / CHECKS
    return before.time is None or before.time // seconds != after.time // seconds
