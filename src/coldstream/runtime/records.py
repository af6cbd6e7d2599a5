"""What the log holds: everything that ever changed what is known, each as one line of JSON.

Tags and fields are what logs on disk say: a class may get another name, they may not.
"""

from typing import Any, TypeAlias

import msgspec

from coldstream.errors import StoreDamaged
from coldstream.events.availability import Availability
from coldstream.events.event import Event
from coldstream.storage.store import Entry, LogLine


class LogHeader(msgspec.Struct, frozen=True, tag="begin", tag_field="kind", omit_defaults=True):
    """The first line of a log: what its recommender is made from."""

    schema: dict[str, Any]
    hyperparameters: dict[str, Any]
    seed: int
    bounds: dict[str, Any] | None = None
    """None in logs that were begun before there were bounds."""
    rule: int = 1
    """By which rule it is learned, until a line says otherwise."""


class BoundsChanged(msgspec.Struct, frozen=True, tag="bounds", tag_field="kind"):
    """What is learned and remembered is kept within other bounds from here on."""

    bounds: dict[str, Any]


class RuleChanged(msgspec.Struct, frozen=True, tag="rule", tag_field="kind"):
    """From here on the log is learned by another rule, and no replay begins before."""

    rule: int


class Merged(msgspec.Struct, frozen=True, tag="merged", tag_field="kind"):
    """What several learners have learned since the last such line is merged; from here on there are so many of them.

    A log without such lines is learned by one.
    """

    learners: int


class FeaturesReleased(msgspec.Struct, frozen=True, tag="features-released", tag_field="kind"):
    """What `ValuesReleased` is to learners whose columns have other numbers. No log has such a line."""

    names: tuple[tuple[str, str], ...]


class Evicted(msgspec.Struct, frozen=True, tag="evicted", tag_field="kind"):
    """What had to go at a merge, for learners, who do not know all that there is. No log has such a line."""

    users: tuple[str, ...]
    items: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    """Fields and values."""


class SchemaExtended(msgspec.Struct, frozen=True, tag="schema", tag_field="kind"):
    """More fields were declared."""

    schema: dict[str, Any]


class FieldsAdded(msgspec.Struct, frozen=True, tag="fields", tag_field="kind"):
    """Fields were declared while the service ran: by side, field → options. The settings' schema need not have them."""

    fields: dict[str, dict[str, Any]]


class UserPut(msgspec.Struct, frozen=True, tag="user", tag_field="kind"):
    """A user came, or has other attributes now."""

    id: str
    attributes: dict[str, Any]


class ItemPut(msgspec.Struct, frozen=True, tag="item", tag_field="kind", omit_defaults=True):
    """An item came, or has other attributes now."""

    id: str
    attributes: dict[str, Any]
    available_from: float | None = None
    available_until: float | None = None
    hidden: bool = False

    def availability(self) -> Availability:
        """When it may be recommended."""
        return Availability.of(self.id, self.available_from, self.available_until, self.hidden)


class ItemRemoved(msgspec.Struct, frozen=True, tag="item-removed", tag_field="kind"):
    """An item went."""

    id: str


class UserForgotten(msgspec.Struct, frozen=True, tag="user-forgotten", tag_field="kind", omit_defaults=True):
    """A user went, and is to be purged from the log."""

    id: str
    columns: tuple[int, ...] = ()
    """What `ValuesReleased` says now: older releases looked for it first, and wrote it into the same line."""
    time: float = 0.0
    """When it was asked for, in seconds since 1970; nothing that is learned depends on it."""


class UserMerged(msgspec.Struct, frozen=True, tag="user-merged", tag_field="kind"):
    """What a session did belongs to a user now, and the session went. Its lines stay, until the user goes."""

    id: str
    into: str


class ValuesReleased(msgspec.Struct, frozen=True, tag="values-released", tag_field="kind"):
    """Values went that nobody had but people who had left."""

    columns: tuple[int, ...]
    """Their columns: numbers, so that the line repeats none of the values."""


class Interaction(msgspec.Struct, frozen=True, tag="event", tag_field="kind", omit_defaults=True):
    """A user chose an item."""

    user: str
    item: str
    time: float | None = None
    context: dict[str, Any] = {}
    event_id: str | None = None
    feedback: str | None = None
    """The kind of the event, where it has one."""
    recommendation_id: str | None = None
    """The recommendation that it was taken from, where the client says so; nothing that is learned depends on it."""
    passed_over: tuple[str, ...] = ()
    """What was shown above the item and not taken, where it is learned from: a replay needs to know nothing else of it."""

    def event(self) -> Event:
        """What the recommender learns from."""
        return Event.logged(self.user, self.item, self.time, self.context, self.feedback, self.passed_over)


Record: TypeAlias = (
    LogHeader
    | BoundsChanged
    | RuleChanged
    | Merged
    | FeaturesReleased
    | Evicted
    | SchemaExtended
    | FieldsAdded
    | UserPut
    | ItemPut
    | ItemRemoved
    | UserForgotten
    | UserMerged
    | ValuesReleased
    | Interaction
)


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def line(record: Record) -> LogLine:
    """A record as the store takes it."""
    body = _encoder.encode(record)
    match record:
        case Interaction():
            return LogLine(body, record.user, record.event_id)
        case UserPut():
            return LogLine(body, record.id)
        case UserMerged():
            return LogLine(body, record.into)
        case UserForgotten():
            return LogLine(body, record.id, forgets=True)
        case _:
            return LogLine(body)


def record_of(entry: Entry) -> Record:
    """The inverse of `line`."""
    try:
        return _decoder.decode(entry.body)
    except msgspec.DecodeError as error:
        message = f"line {entry.position} of the log cannot be read ({error}); it was damaged, or written by a newer release"
        raise StoreDamaged(message) from error
