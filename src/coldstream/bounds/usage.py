"""Usage statistics for eviction: how often numbered rows were used, with exponential decay.

The weight of a use halves after every half-life H, which is as many events as there may be rows of the kind. The order of
two rows does not depend on the time of comparison, because the stored worth is log₂ Σ 2^(t/H) over the uses at events t,
which only grows. A use at event t adds 2^(t/H) to the sum.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coldstream.bounds.bounds import age_seconds
from coldstream.events.clock import Clock
from coldstream.support.arrays import Doubles, Integers, Longs, grown_up_to

NEVER = -1e300
"""Stream time of a use before any event had a time."""

HalfLife: TypeAlias = float | Doubles
"""Half-life in events: one for all rows, or one for each."""

_NAMES = ("worth", "used_at", "used_time")


class Usage:
    """The worth of every row, and its last use: as a number of events, and as a time of the stream."""

    def __init__(self) -> None:
        self.worth: Doubles = np.zeros(0, np.float64)
        self.used_at: Longs = np.zeros(0, np.int64)
        self.used_time: Doubles = np.zeros(0, np.float64)
        self.most_rows = 0
        """Expected maximum number of rows, 0 if unknown. Memory for all of them is reserved at once; it is no limit."""

    def make_room(self, rows: int) -> None:
        """Allocate room for this many rows. New rows count as used once, at the beginning of the stream."""
        if rows > self._room:
            for name in _NAMES:
                setattr(self, name, grown_up_to(self.most_rows, getattr(self, name), rows))

    @property
    def _room(self) -> int:
        """Number of rows that every array has room for; if memory ran out, some have room for more."""
        return min(len(self.worth), len(self.used_at), len(self.used_time))

    def start(self, rows: Integers, clock: Clock, half_life: HalfLife) -> None:
        """Reset rows for new owners, with one use now."""
        self.make_room(int(rows.max(initial=-1)) + 1)
        self.worth[rows] = clock.events / half_life
        self._touch(rows, clock)

    def start_as_used(self, rows: Integers, used_at: Longs, clock: Clock, half_life: float) -> None:
        """Reset rows for owners whose last use is known by its event number, and whose number of uses is unknown."""
        self.start(rows, clock, half_life)
        self.worth[rows] = np.clip(used_at, 0, clock.events) / half_life

    def note(self, rows: Integers, clock: Clock, half_life: HalfLife) -> None:
        """Count a use of each of these rows, which must be distinct."""
        self.make_room(int(rows.max(initial=-1)) + 1)
        self.worth[rows] = np.logaddexp2(self.worth[rows], clock.events / half_life)
        self._touch(rows, clock)

    def note_one(self, row: int, clock: Clock, half_life: float) -> None:
        """Count a use of one row."""
        self.make_room(row + 1)
        self.worth[row] = np.logaddexp2(self.worth[row], clock.events / half_life)
        self.used_at[row], self.used_time[row] = clock.events, NEVER if clock.time is None else clock.time

    def forget(self, rows: Sequence[int] | Integers) -> None:
        """Clear rows that are no longer in use."""
        own = np.asarray(rows, np.int64)
        known = own[own < self._room]
        for name in _NAMES:
            getattr(self, name)[known] = 0

    def older(self, rows: Integers, age: int | str, clock: Clock) -> Integers:
        """Return those of the rows that were last used longer ago than `age`.

        Rows that were used before the stream had a time count as used at the time of the first such call.
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
        """Change the half-life of rows so that their decayed counts stay as they are now."""
        self.make_room(int(rows.max(initial=-1)) + 1)
        self.worth[rows] += clock.events / after - clock.events / before

    def counts(self, rows: Integers, clock: Clock, half_life: float) -> Doubles:
        """Return log₂ of the decayed number of uses of rows, which can be compared across half-lives."""
        return self.worth[rows] - clock.events / half_life

    def _touch(self, rows: Integers, clock: Clock) -> None:
        self.used_at[rows] = clock.events
        self.used_time[rows] = NEVER if clock.time is None else clock.time

    def least(self, rows: Integers, count: int) -> Integers:
        """Return the `count` least useful of some rows in ascending order; among equals, the first."""
        if count >= len(rows):
            return rows
        self.make_room(int(rows[-1]) + 1)
        found: Integers = rows[least_of(self.worth[rows], count)]
        return found

    def copy(self, rows: int) -> "Usage":
        """Return a copy of the first rows; all other rows are unused."""
        other = Usage()
        other.most_rows = self.most_rows
        for name in _NAMES:
            setattr(other, name, getattr(self, name)[:rows].copy())
        return other

    def state(self, rows: int) -> dict[str, NDArray[Any]]:
        """Return the first rows as named arrays."""
        self.make_room(rows)
        return {name: getattr(self, name)[:rows].copy() for name in _NAMES}

    def restore(self, rows: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `state` returned. Raise `ValueError` if an array does not fit."""
        self.make_room(rows)
        for name in _NAMES:
            source, own = arrays[name], getattr(self, name)
            if source.dtype != own.dtype or source.shape != (rows,) or not np.isfinite(source).all():
                raise ValueError(f"{name} has type {source.dtype} and shape {source.shape}, or is not finite")
            own[:rows] = source


def least_of(worth: Doubles, count: int) -> NDArray[np.bool_]:
    """Return a mask of the `count` least values; among equals, the first."""
    if count >= len(worth):
        return np.ones(len(worth), np.bool_)
    limit = np.partition(worth, count - 1)[count - 1]
    chosen: NDArray[np.bool_] = worth < limit
    chosen[np.flatnonzero(worth == limit)[: count - int(chosen.sum())]] = True
    return chosen


CHECKS = 64
"""Number of checks for expiry within a maximum age."""


def is_time_to_look(age: int | str, before: Clock, after: Clock) -> bool:
    """Return whether a check for expiry is due between two clocks."""
    if not isinstance(age, str):
        step = max(1, age // CHECKS)
        return before.events // step != after.events // step
    if after.time is None:
        return False
    seconds = age_seconds(age) / CHECKS
    return before.time is None or before.time // seconds != after.time // seconds
