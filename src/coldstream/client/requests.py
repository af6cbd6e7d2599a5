"""What callers hand to a client, as messages."""

from collections.abc import Iterable, Mapping
from typing import Any

from coldstream.service.messages.core import NewEvent, NewItem, NewUser


def events_of(events: NewEvent | Iterable[NewEvent]) -> list[NewEvent]:
    """One event, or many."""
    return [events] if isinstance(events, NewEvent) else list(events)


def items_of(items: Mapping[str, Mapping[str, Any]] | Iterable[NewItem]) -> list[NewItem]:
    """Items, or attributes by id."""
    if isinstance(items, Mapping):
        return [NewItem(name, dict(attributes)) for name, attributes in items.items()]
    return list(items)


def users_of(users: Mapping[str, Mapping[str, Any]] | Iterable[NewUser]) -> list[NewUser]:
    """Users, or attributes by id."""
    if isinstance(users, Mapping):
        return [NewUser(name, dict(attributes)) for name, attributes in users.items()]
    return list(users)


def pieces(records: list[Any], most: int) -> list[list[Any]]:
    """Records in pieces that one call takes."""
    return [records[first : first + most] for first in range(0, len(records), most)]
