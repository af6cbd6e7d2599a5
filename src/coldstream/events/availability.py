"""Availability: when an item may be recommended."""

from dataclasses import dataclass
from typing import Any

from coldstream.errors import InvalidInput, shown
from coldstream.events.event import checked_time


@dataclass(frozen=True, slots=True)
class Availability:
    """When an item may be recommended: from a time on, until another, or not at all for now. Validated when built.

    Times are seconds since 1970 in UTC, or aware datetimes, which are converted. An item that is not available keeps all
    that was learned of it.
    """

    available_from: float | None = None
    """First moment at which the item is available; None for no lower limit."""
    available_until: float | None = None
    """First moment at which the item is no longer available; None for no upper limit."""
    hidden: bool = False
    """Whether the item is unavailable at any time."""

    def __post_init__(self) -> None:
        if self.available_from is None and self.available_until is None and self.hidden is False:
            return
        first, end = (checked_time(getattr(self, name), name) for name in ("available_from", "available_until"))
        if not isinstance(self.hidden, bool):
            raise _refused("hidden", f"hidden must be true or false, got {shown(self.hidden)}; leave it out for false")
        if first is not None and end is not None and not first < end:
            message = f"available_until must be after available_from, which is {shown(first)}, got {shown(end)}"
            raise _refused("available_until", f"{message}; give a later time, or hidden=True for not at all")
        object.__setattr__(self, "available_from", first)
        object.__setattr__(self, "available_until", end)

    @classmethod
    def of(cls, item: str, available_from: Any, available_until: Any, hidden: Any) -> "Availability":
        """Build an availability from `available_from`, `available_until` and `hidden`.

        `InvalidInput` then names the `item`.
        """
        if available_from is None and available_until is None and hidden is False:
            return ALWAYS
        try:
            return cls(available_from, available_until, hidden)
        except InvalidInput as error:
            named = InvalidInput(f"item {item!r}: {error}")
            named.field = error.field
            raise named from error


ALWAYS = Availability()
"""Default availability of an item."""


def _refused(field: str, message: str) -> InvalidInput:
    error = InvalidInput(message)
    error.field = field
    return error
