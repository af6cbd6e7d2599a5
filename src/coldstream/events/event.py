"""Events: one interaction of one user with one item."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from coldstream.errors import InvalidInput, shown
from coldstream.support.arrays import plain

EARLIEST, LATEST = -2_208_988_800.0, 7_258_118_400.0
"""First moment of the year 1900 and of the year 2200, in seconds since 1970. Numbers beyond are in another unit:
milliseconds since April 1970 are larger."""
PLAUSIBLE = "seconds since 1970, from the years 1900 to 2200"


MOST_PASSED_OVER = 100
"""Maximum number of items per event that were shown and not taken."""


@dataclass(frozen=True, slots=True)
class Event:
    """An interaction: a `user` chose an `item`, at a time, in a `context`. Validated when built."""

    user: str
    item: str
    time: float | None = None
    """Seconds since 1970 in UTC, from the years 1900 to 2200; an aware `datetime` is converted."""
    context: Mapping[str, Any] = field(default_factory=dict, hash=False)
    kind: str | None = None
    """Kind of the event, one that the schema declares as feedback; None for a plain choice."""
    passed_over: tuple[str, ...] = ()
    """Ids of items that were shown above this one and not taken, in the order of the list; at most 100."""

    def __post_init__(self) -> None:
        checked_id("user", self.user)
        checked_id("item", self.item)
        if type(self.time) is not float or not EARLIEST <= self.time < LATEST:
            object.__setattr__(self, "time", checked_time(self.time))
        checked_names("context", self.context)
        if self.kind is not None and (not isinstance(self.kind, str) or not self.kind):
            raise InvalidInput(f"kind must be a text such as 'view', got {shown(self.kind)}; leave it out for a choice")
        if self.passed_over != ():
            object.__setattr__(self, "passed_over", _checked_items(self.passed_over))

    @classmethod
    def logged(
        cls,
        user: str,
        item: str,
        time: float | None,
        context: Mapping[str, Any],
        kind: str | None = None,
        passed_over: tuple[str, ...] = (),
    ) -> "Event":
        """Build an event from logged `user`, `item`, `time`, `context`, `kind` and `passed_over`, without validation.

        It was validated before it was logged. So a log with values that a newer release refuses still replays to the same
        bits.
        """
        event = object.__new__(cls)
        _set_user(event, user)
        _set_item(event, item)
        _set_time(event, time)
        _set_context(event, context)
        _set_kind(event, kind)
        _set_passed_over(event, passed_over)
        return event


# Replay builds an event per line of a log, and `object.__setattr__` would look each name up again.
_set_user, _set_item, _set_time, _set_context, _set_kind, _set_passed_over = (
    getattr(Event, name).__set__ for name in ("user", "item", "time", "context", "kind", "passed_over")
)


def _checked_items(value: object) -> tuple[str, ...]:
    """Return ids of items as a tuple, or raise `InvalidInput`."""
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) > MOST_PASSED_OVER:
        message = f"passed_over must be a list of {MOST_PASSED_OVER} ids of items at most, got {shown(value)}"
        raise InvalidInput(f"{message}; name those shown above the item and not taken, or leave it out")
    return tuple(checked_id("passed_over: item", item) for item in value)


def checked_id(what: str, value: object) -> str:
    """Return an id that can be stored and hashed, which is a nonempty string; else raise `InvalidInput`."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} id must be a string, got {shown(value)}; pass str(id)")
    if not value:
        raise InvalidInput(f"{what} id must not be empty, got ''; pass the id of the {what}")
    return checked_text(f"{what} id", value)


def checked_text(what: str, value: str) -> str:
    """Return a string if UTF-8 can encode it, else raise `InvalidInput`."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput(f"{what} must be valid Unicode, got {shown(value)}; remove the lone surrogates") from None
    return value


def checked_time(value: object, what: str = "time") -> float | None:
    """Return seconds since 1970 in UTC, from a number or an aware datetime, or None.

    Raise `InvalidInput` if it is no such time.
    """
    if value is None or (type(value) is float and EARLIEST <= value < LATEST):
        return value
    given = value = plain(value)
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            remedy = "write .replace(tzinfo=timezone.utc) behind it if it is in UTC, .astimezone() if it is local time"
            raise InvalidInput(f"{what} must carry its time zone, got {shown(value)}; {remedy}")
        value = value.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        message = f"{what} must be seconds since 1970 (a finite number) or a datetime, got {shown(value)}"
        raise InvalidInput(f"{message}; leave it out if there is none")
    if not EARLIEST <= value < LATEST:
        remedy = "check its year" if isinstance(given, datetime) else shorter_unit(value)
        error = InvalidInput(f"{what} must be {PLAUSIBLE}, got {shown(given)}; {remedy}")
        error.field = what
        raise error
    return float(value)


def shorter_unit(value: float) -> str:
    """Return the remedy for a number that is not a plausible time in seconds."""
    for unit, per_second in (("milliseconds", 10**3), ("microseconds", 10**6), ("nanoseconds", 10**9)):
        if EARLIEST * per_second <= value < LATEST * per_second:
            return f"if it counts {unit}, divide it by {per_second}"
    return "convert it to seconds since 1970"


def checked_names(what: str, value: object) -> Mapping[str, Any]:
    """Return a mapping from field names to raw values, which are not checked. Raise `InvalidInput` if it is none."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{what} must be a mapping from field to value, got {shown(value)}")
    for name in value:
        if not isinstance(name, str):
            raise InvalidInput(f"{what}: a field name must be a string, got {shown(name)}")
    return value
