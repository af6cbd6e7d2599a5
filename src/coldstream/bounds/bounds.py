"""Bounds on what is learned and remembered: how much, how long, and how much at once."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypeAlias

from coldstream.errors import InvalidInput, shown
from coldstream.support.amounts import bytes_of, seconds_of
from coldstream.support.arrays import plain

Age: TypeAlias = int | str | None
"""Maximum time without use: an integer counts events, a text such as "30d" is a duration, None is forever."""

AGES = 'a whole number of events, or a time such as "30d", "12h", "90m" or "45s"'
SIZES = 'a text such as "2 GiB" or "500 MiB", from 1 MiB on'


HALF_LIFE = 100_000.0
"""Default half-life of uses, in events, for anything with neither a bound nor a memory budget."""

A_THING = 5000
"""Approximate cost of a user or a value in bytes, which estimates how many of them fit into a memory budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """All bounds on what is learned and remembered. Validated when built, frozen afterwards. None is no bound.

    At a bound, the least useful is evicted: what was used least often, where the weight of a use halves every half-life.
    Fields have bounds of their own besides: `most`, `admit_after` and `expire`.
    """

    memory: str | None = None
    """Memory budget, such as "2 GiB"; users and values are evicted until the total fits."""
    users: int | None = None
    """Maximum number of users."""
    items: int | None = None
    """Maximum number of items in the catalogue. Beyond it, the item chosen least is evicted; putting an item counts as a
    choice."""
    expire_users: Age = None
    """Maximum time that a user is kept without an event or a put: a number of events, or a duration such as "365d"."""
    seen: int | None = 1000
    """Maximum number of distinct items remembered per user as seen, the latest ones."""
    undeclared: int | None = 100
    """Maximum number of undeclared context fields that events may add; others are ignored."""
    undeclared_values: int | None = 10_000
    """Maximum number of values of each undeclared context field."""
    admissions: int | None = 1000
    """Maximum number of new features that one event or one put may add; others are ignored."""
    half_life: float | None = None
    """Events after which the weight of a use halves. None takes the maximum number of values of a field, of users or of
    items.

    Where only a memory budget is the bound, None takes the number that fits into it at 5 kB each.
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
        """Return bounds without any limit, which apply to a log that records no bounds."""
        return cls(seen=None, undeclared=None, undeclared_values=None, admissions=None)

    @property
    def memory_bytes(self) -> int | None:
        """The memory budget in bytes, None if there is none."""
        return None if self.memory is None else _bytes(self.memory)

    def half_life_of(self, most: int | None) -> float:
        """Return the half-life in events for a kind of thing of which at most `most` are kept."""
        if self.half_life is not None or most is not None:
            return float(self.half_life or most or 1)
        return HALF_LIFE if self.memory_bytes is None else max(1.0, self.memory_bytes / A_THING)

    def document(self) -> dict[str, Any]:
        """Return the bounds as JSON can hold them."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Bounds":
        """Build bounds from a `document` as `document()` returns it."""
        return cls.none().with_(**document)

    def with_(self, **changes: Any) -> "Bounds":
        """Return the bounds with some `changes`. Raise `InvalidInput` for an unknown name or an invalid value."""
        known = [bound.name for bound in fields(self)]
        for name, value in changes.items():
            if name not in known:
                raise InvalidInput(f"{name}: no such bound, got {shown(value)}; known are {', '.join(known)}")
        return replace(self, **changes)


def is_age(age: object) -> bool:
    """Return whether a value is a valid age: a positive number of events, a duration, or None."""
    if isinstance(age, str):
        return seconds_of(age) is not None
    return age is None or (isinstance(age, int) and not isinstance(age, bool) and 0 < age < 2**53)


@lru_cache
def age_seconds(age: str) -> float:
    """Return the seconds of a duration such as "30d".

    >>> age_seconds("90m")
    5400.0
    """
    seconds = seconds_of(age)
    assert seconds is not None, "it was checked"
    return seconds


_bytes = lru_cache(bytes_of)  # cached, because it is needed after every event


def _require(name: str, value: object, holds: bool, rule: str) -> None:
    if not holds:
        raise InvalidInput(f"{name} must be {rule}, got {shown(value)}")
