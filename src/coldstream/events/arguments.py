"""Validation of call arguments: return them, or raise `InvalidInput` with the argument, the value and the remedy."""

from collections.abc import Iterable, Mapping
from typing import Any

from coldstream.errors import InvalidInput, shown
from coldstream.events.availability import ALWAYS, Availability
from coldstream.events.event import Event
from coldstream.support.arrays import plain


def checked_event(event: object) -> Event:
    """Return an event, or raise `InvalidInput` if it is none."""
    if not isinstance(event, Event):
        raise InvalidInput(f"event must be an Event, got {shown(event)}; write Event(user=…, item=…)")
    return event


def checked_events(events: object) -> list[Event]:
    """Return events as a list, or raise `InvalidInput` if any is none."""
    if isinstance(events, str | Mapping) or not isinstance(events, Iterable):
        raise InvalidInput(f"events must be a list of events, got {shown(events)}; write Event(user=…, item=…) for each")
    return [checked_event(event) for event in events]


def checked_pairs(what: str, given: object) -> list[tuple[str, Mapping[str, Any] | None]]:
    """Return pairs of id and attributes as a list, from pairs or from a mapping. Raise `InvalidInput` for anything else."""
    if isinstance(given, Mapping):
        given = given.items()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInput(f"{what} must be pairs of id and attributes, got {shown(given)}")
    pairs = list(given)
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInput(f"{what} must be pairs of id and attributes, got {shown(pair)} among them")
    return [(name, attributes) for name, attributes in pairs]


def checked_items(given: object) -> list[tuple[str, Mapping[str, Any] | None, Availability]]:
    """Return items as triples of id, attributes and availability; an item without availability gets `ALWAYS`.

    Accepts pairs of id and attributes, triples with the availability, or a mapping from id to attributes. Raises
    `InvalidInput` for anything else.
    """
    if isinstance(given, Mapping):
        given = given.items()
    wanted = "items must be pairs of id and attributes, or of id, attributes and availability"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInput(f"{wanted}, got {shown(given)}")
    found: list[tuple[str, Mapping[str, Any] | None, Availability]] = []
    for one in given:
        if not isinstance(one, tuple | list) or len(one) not in (2, 3):
            raise InvalidInput(f"{wanted}, got {shown(one)} among them")
        availability = one[2] if len(one) == 3 and one[2] is not None else ALWAYS
        if not isinstance(availability, Availability):
            message = f"item {shown(one[0])}: availability must be an Availability, got {shown(availability)}"
            raise InvalidInput(f"{message}; items are pairs of id and attributes, perhaps with an Availability behind")
        found.append((one[0], one[1], availability))
    return found


def checked_count(what: str, value: object) -> int:
    """Return an integer of 1 or more, or raise `InvalidInput`."""
    if type(value) is int and value > 0:
        return value
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidInput(f"{what} must be a whole number of 1 or more, got {shown(value)}")
    return number
