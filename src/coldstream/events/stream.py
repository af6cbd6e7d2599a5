"""A whole stream of events, with what is known of its users and items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from coldstream.events.event import Event


@dataclass(frozen=True, slots=True)
class Stream:
    """Events in order of time, equal times in the order of their file; attributes by id."""

    name: str
    events: Sequence[Event]
    users: Mapping[str, Mapping[str, Any]]
    items: Mapping[str, Mapping[str, Any]]
    repeats: bool = False
    """Whether users take the same items again: then what a user had stays a candidate."""

    def first(self, events: int) -> "Stream":
        """The beginning of the stream, so many events of it."""
        return replace(self, events=self.events[:events])
