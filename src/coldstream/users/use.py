"""Usefulness of users: how often they came, recent times counting most."""

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.bounds.usage import Usage
from coldstream.events.clock import Clock
from coldstream.support.arrays import Integers, checked_columns


class UserUse:
    """The use of every user, in a row each. The lowest free row is taken first, so that rows follow from the log alone."""

    def __init__(self, half_life: float) -> None:
        self.half_life = half_life
        self.usage = Usage()
        self._rows: dict[str, int] = {}
        self._names: list[str | None] = []
        self._gaps: list[int] = []

    def __contains__(self, user: object) -> bool:
        return user in self._rows

    def note(self, user: str, clock: Clock) -> None:
        """Count an event of a user, who may be new."""
        self.come(user, clock)
        self.usage.note_one(self._rows[user], clock, self.half_life)

    def come(self, user: str, clock: Clock) -> None:
        """Give a user a row unless there is one; a user's arrival counts as the first use, as a value's does."""
        if user in self._rows:
            return
        if self._gaps:
            row = heapq.heappop(self._gaps)
            self._names[row] = user
        else:
            row = len(self._names)
            self._names.append(user)
        self._rows[user] = row
        self.usage.start(np.array([row], np.int32), clock, self.half_life)

    def come_as_learned(self, user: str, event: int, clock: Clock) -> None:
        """Give a row to a user known before use was tracked, and count the event at which the user was learned last."""
        self.come(user, clock)
        self.usage.start_as_used(np.array([self._rows[user]], np.int32), np.array([event], np.int64), clock, self.half_life)

    def forget(self, user: str) -> None:
        """Free the row of a user who was removed."""
        row = self._rows.pop(user)
        self._names[row] = None
        self.usage.forget([row])
        heapq.heappush(self._gaps, row)

    def take_half_life(self, half_life: float, clock: Clock) -> None:
        """Switch to another half-life."""
        self.usage.rescale(self.rows(), clock, self.half_life, half_life)
        self.half_life = half_life

    def rows(self) -> Integers:
        """Return the rows of all users, in ascending order."""
        taken = np.ones(len(self._names), np.bool_)
        taken[self._gaps] = False
        return np.flatnonzero(taken).astype(np.int32)

    def names(self, rows: Iterable[int]) -> list[str]:
        """Return the users of some rows."""
        return [name for row in rows if (name := self._names[row]) is not None]

    def copy(self) -> "UserUse":
        """Return an independent copy."""
        other = UserUse(self.half_life)
        other.usage, other._rows = self.usage.copy(len(self._names)), dict(self._rows)
        other._names, other._gaps = list(self._names), list(self._gaps)
        return other

    def state(self, users: Iterable[str]) -> dict[str, NDArray[Any]]:
        """Return the row of each user, in the order given, and the use of each row."""
        own = np.array([self._rows[user] for user in users], np.int32)
        return {"row": own, **self.usage.state(len(self._names))}

    def restore(self, users: Sequence[str], arrays: dict[str, NDArray[Any]]) -> None:
        """Load what `state` returned."""
        rows = len(arrays["worth"])
        own = checked_columns("row", arrays["row"], 0, rows)
        self._rows = dict(zip(users, own.tolist(), strict=True))
        self._names = [None] * rows
        for user, row in self._rows.items():
            if self._names[row] is not None:
                raise ValueError("two users have one row")
            self._names[row] = user
        self._gaps = [row for row, name in enumerate(self._names) if name is None]
        self.usage.restore(rows, arrays)
