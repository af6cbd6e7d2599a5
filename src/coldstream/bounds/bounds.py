"""Bounds on what is learned and remembered, each stated once: how much, how long, and how much at once."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypeAlias

from coldstream.errors import InvalidInput, shown
from coldstream.support.amounts import bytes_of, seconds_of
from coldstream.support.arrays import plain

Age: TypeAlias = int | str | None
"""How long something may go without use: a whole number counts events, a text such as "30d" is time, None is for ever."""

AGES = 'a whole number of events, or a time such as "30d", "12h", "90m" or "45s"'
SIZES = 'a text such as "2 GiB" or "500 MiB", from 1 MiB on'


HALF_LIFE = 100_000.0
"""Of what has no bound of its own."""

A_THING = 5000
"""Bytes of a user or a value, more or less: a budget has room for as many things as it has this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """All that bounds what is learned and remembered. Validated when built, frozen afterwards. None is no bound.

    Where a bound is reached, the least useful goes: what was used least often, a use counting half after a half-life. A
    field has bounds of its own besides: `most`, `admit_after` and `expire`.
    """

    memory: str | None = None
    """The most that all of it together may weigh, such as "2 GiB"; users and values go, until it fits."""
    users: int | None = None
    """Users that are known at once."""
    items: int | None = None
    """Items in the catalogue at once; past it the one goes that was chosen least, its coming counting as a choice."""
    expire_users: Age = None
    """How long a user is known without an event or a put: a number of events, or a time such as "365d"."""
    seen: int | None = 1000
    """Of the items that a user had, the latest so many different ones are remembered."""
    undeclared: int | None = 100
    """Context fields that events may bring and nobody declared; others are left out."""
    undeclared_values: int | None = 10_000
    """Values of each of those fields."""
    admissions: int | None = 1000
    """New features that one event or one put may bring; what is new beyond them is left out."""
    half_life: float | None = None
    """Events after which a use counts half; None for as many as there may be of a kind: values of a field, users, items.

    Of what only a budget bounds, as many as fit into it at 5 kB each.
    """

    def __post_init__(self) -> None:
        for bound in fields(self):
            object.__setattr__(self, bound.name, plain(getattr(self, bound.name)))
        _require("memory", self.memory, self.memory is None or (bytes_of(self.memory) or 0) >= 2**20, SIZES)
        _require("expire_users", self.expire_users, is_age(self.expire_users), AGES)
        for name in ("users", "items", "seen", "undeclared", "undeclared_values", "admissions"):
            value, lowest = getattr(self, name), int(name != "undeclared")
            whole = value is None or (isinstance(value, int) and not isinstance(value, bool) and lowest <= value < 2**31)
            _require(name, value, whole, f"a whole number from {lowest} on, or nothing")
        number = isinstance(self.half_life, int | float) and not isinstance(self.half_life, bool)
        sensible = self.half_life is None or (number and 1 <= self.half_life <= 1e12)
        _require("half_life", self.half_life, sensible, "from 1 to 1e12 events, or nothing")

    @classmethod
    def none(cls) -> "Bounds":
        """No bounds at all: what a log that says nothing of bounds was learned with."""
        return cls(seen=None, undeclared=None, undeclared_values=None, admissions=None)

    @property
    def memory_bytes(self) -> int | None:
        """The budget as a number of bytes."""
        return None if self.memory is None else _bytes(self.memory)

    def half_life_of(self, most: int | None) -> float:
        """Events after which a use of a kind counts half, of which there may be so many at most."""
        if self.half_life is not None or most is not None:
            return float(self.half_life or most or 1)
        return HALF_LIFE if self.memory_bytes is None else max(1.0, self.memory_bytes / A_THING)

    def document(self) -> dict[str, Any]:
        """The bounds as JSON can hold them."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Bounds":
        """The inverse of `document`."""
        return cls.none().with_(**document)

    def with_(self, **changes: Any) -> "Bounds":
        """The same bounds with some `changes`."""
        known = [bound.name for bound in fields(self)]
        for name, value in changes.items():
            if name not in known:
                raise InvalidInput(f"{name}: no such bound, got {shown(value)}; known are {', '.join(known)}")
        return replace(self, **changes)


def is_age(age: object) -> bool:
    """Whether this says how long."""
    if isinstance(age, str):
        return seconds_of(age) is not None
    return age is None or (isinstance(age, int) and not isinstance(age, bool) and 0 < age < 2**53)


@lru_cache
def age_seconds(age: str) -> float:
    """The seconds of a text such as "30d".

    >>> age_seconds("90m")
    5400.0
    """
    seconds = seconds_of(age)
    assert seconds is not None, "it was checked"
    return seconds


_bytes = lru_cache(bytes_of)  # it is asked after every event


def _require(name: str, value: object, holds: bool, rule: str) -> None:
    if not holds:
        raise InvalidInput(f"{name} must be {rule}, got {shown(value)}")
