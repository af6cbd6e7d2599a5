"""Streams: events with the attributes of users and items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from coldstream.events.event import Event


@dataclass(frozen=True, slots=True)
class Stream:
    """Events in order of time, equal times in the order of their file, and attributes of `users` and `items` by id."""

    name: str
    events: Sequence[Event]
    users: Mapping[str, Mapping[str, Any]]
    items: Mapping[str, Mapping[str, Any]]
    repeats: bool = False
    """Whether users choose items repeatedly, so that items that a user had remain candidates."""

    def first(self, events: int) -> "Stream":
        """Return the stream with only its first `events`."""
        return replace(self, events=self.events[:events])
