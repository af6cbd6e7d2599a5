"""The kinds of record that a log holds.

A kind is a class with its check, its effect, what learners in other processes get to know of it, and what it claims of a
person's values. `record_kind` registers a class, and most kinds need no more. A kind that moves one person's past to another
is also known to `erasure/leaving.py` and `erasure/compaction.py`, and one that belongs to a single learner's users to
`cluster/partition.py`.

Tags and fields are those of logs on disk: a class may be renamed, its tag and its fields may not.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import msgspec

from coldstream.bounds.bounds import Bounds
from coldstream.errors import StoreDamaged, UnknownId
from coldstream.events.availability import Availability
from coldstream.events.event import Event
from coldstream.features.schema import Schema, fields_by_side
from coldstream.runtime.rule import check_rule
from coldstream.storage.store import Entry, LogLine

if TYPE_CHECKING:
    from coldstream.recommender import Recommender
    from coldstream.runtime.learner import Learner
    from coldstream.runtime.writing.checks import Batch
    from coldstream.scoring.ranking import Rank


class ClaimedValues(NamedTuple):
    """The values that a record gives for a person's user attributes, or for the context of the person's event."""

    person: str
    side: str
    """The side of the schema that declares the fields: "user" or "context"."""
    given: Mapping[str, Any]
    """The raw values by name of field."""


class Record(msgspec.Struct, frozen=True, tag_field="kind"):
    """A line of the log: one change to the state of a recommender."""

    applied_together: ClassVar[bool] = False
    """Whether consecutive records of this kind may be applied in one call, by `apply_all`."""
    checked_alone: ClassVar[bool] = False
    """Whether all earlier records must have been applied before a record of this kind can be checked."""
    removes: ClassVar[bool] = False
    """Whether the record removes an item or a user. Such a record is only checked together with records of its own kind."""
    forgets: ClassVar[bool] = False
    """Whether the record asks the store to erase the lines of its person."""

    def person(self) -> str | None:
        """Return the id of the user to whom the line belongs, or None."""
        return None

    def identity(self) -> str | None:
        """Return the id that the client gave the record, or None. The log holds each id at most once."""
        return None

    def check(self, batch: "Batch") -> None:
        """Raise a `ColdstreamError` if the record cannot be applied after the earlier records of its batch."""

    def apply(self, learner: "Learner", position: int, ranks: "list[Rank] | None" = None) -> None:
        """Apply the record to a learner.

        `position` is the position of its line. `ranks` are the ranks of the item before learning, where they were computed.
        """
        self.change(learner.recommender)

    @classmethod
    def apply_all(cls, learner: "Learner", lines: Sequence[tuple[int, Any]]) -> None:
        """Apply many records of this kind, each with its position. Only kinds with `applied_together` are applied so."""
        cls.change_all(learner.recommender, [record for _, record in lines])

    def change(self, recommender: "Recommender") -> None:
        """Apply the record to a recommender."""
        raise NotImplementedError

    @classmethod
    def change_all(cls, recommender: "Recommender", records: Sequence[Any]) -> None:
        """Apply many records of this kind to a recommender, in order."""
        raise NotImplementedError

    def meet_team(self, learner: "Learner") -> None:
        """Prepare the learner's team for the record: start it, where the log is learned by a team."""
        learner.engage()

    def for_team(self, front: "Recommender") -> "list[Record]":
        """Return the record as learners in other processes understand it, or nothing if it is not for them.

        Their columns have other numbers. They call `change` of what they get, so a kind without it returns nothing.
        """
        return [self]

    def claims(self) -> ClaimedValues | None:
        """Return the person to whom the record belongs and the attribute values that it contains, or None."""
        return None


_kinds: list[type[Record]] = []
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Record)

Kind = TypeVar("Kind", bound=type[Record])


def record_kind(kind: Kind) -> Kind:
    """Register a kind of record, so that logs may hold it."""
    global _decoder
    _kinds.append(kind)
    union: Any = _kinds[0]
    for other in _kinds[1:]:
        union |= other
    _decoder = msgspec.json.Decoder(union)
    return kind


def forget_kind(kind: type[Record]) -> None:
    """Unregister a kind, which must be the last that was registered."""
    assert _kinds.pop() is kind
    record_kind(_kinds.pop())


def line(record: Record) -> LogLine:
    """Encode a record as a line for the store."""
    return LogLine(_encoder.encode(record), record.person(), record.identity(), forgets=record.forgets)


def record_of(entry: Entry) -> Any:
    """Decode the record of a log entry, or raise `StoreDamaged`."""
    try:
        return _decoder.decode(entry.body)
    except msgspec.DecodeError as error:
        message = f"line {entry.position} of the log cannot be read ({error}); it was damaged, or written by a newer release"
        raise StoreDamaged(message) from error


# The model


@record_kind
class LogHeader(Record, frozen=True, tag="begin", omit_defaults=True):
    """The first line of a log: the schema, hyperparameters, seed and bounds from which its recommender is built."""

    schema: dict[str, Any]
    hyperparameters: dict[str, Any]
    seed: int
    bounds: dict[str, Any] | None = None
    """The memory bounds; None in logs that were begun before bounds existed."""
    rule: int = 1
    """The version of the learning rule that applies until a `RuleChanged` line."""

    def apply(self, learner: "Learner", position: int, ranks: "list[Rank] | None" = None) -> None:
        raise StoreDamaged(f"line {position} of the log begins anew; a log begins once, at line 1")


@record_kind
class BoundsChanged(Record, frozen=True, tag="bounds"):
    """A change of the memory bounds that apply from this line on."""

    bounds: dict[str, Any]

    def change(self, recommender: "Recommender") -> None:
        recommender.engine.follow_bounds(Bounds.from_document(self.bounds))


@record_kind
class RuleChanged(Record, frozen=True, tag="rule"):
    """A change of the learning rule that applies from this line on. No replay begins before this line."""

    rule: int

    def apply(self, learner: "Learner", position: int, ranks: "list[Rank] | None" = None) -> None:
        check_rule(self.rule)
        learner.rule, learner.rule_since = self.rule, position

    def for_team(self, front: "Recommender") -> list[Record]:
        return []


@record_kind
class Merged(Record, frozen=True, tag="merged"):
    """A point at which parallel learners merge what each learned since the last such line, and their number from here on.

    A log without such lines is learned by one learner.
    """

    learners: int

    def apply(self, learner: "Learner", position: int, ranks: "list[Rank] | None" = None) -> None:
        learner.merge(self.learners)

    def meet_team(self, learner: "Learner") -> None:
        """Do nothing: `apply` makes the team merge."""

    def for_team(self, front: "Recommender") -> list[Record]:
        return []


@record_kind
class SchemaExtended(Record, frozen=True, tag="schema"):
    """An extension of the declared schema that applies from this line on."""

    schema: dict[str, Any]

    def apply(self, learner: "Learner", position: int, ranks: "list[Rank] | None" = None) -> None:
        learner.declared = Schema.from_document(self.schema)
        self.change(learner.recommender)

    def change(self, recommender: "Recommender") -> None:
        recommender.engine.extend(Schema.from_document(self.schema))


@record_kind
class FieldsAdded(Record, frozen=True, tag="fields"):
    """Fields that were declared while the service ran, by side of the schema. The configured schema need not have them."""

    fields: dict[str, dict[str, Any]]

    checked_alone: ClassVar[bool] = True  # a new field must fit all earlier fields, those that events brought included

    def check(self, batch: "Batch") -> None:
        batch.recommender.engine.check_fields(fields_by_side(self.fields))

    def change(self, recommender: "Recommender") -> None:
        recommender.add_fields(fields_by_side(self.fields))


# Items


@record_kind
class ItemPut(Record, frozen=True, tag="item", omit_defaults=True):
    """The addition of an item, or the replacement of its attributes and availability."""

    id: str
    attributes: dict[str, Any]
    available_from: float | None = None
    available_until: float | None = None
    hidden: bool = False

    applied_together: ClassVar[bool] = True

    def availability(self) -> Availability:
        """Return the period in which the item may be recommended, and whether it is hidden."""
        return Availability.of(self.id, self.available_from, self.available_until, self.hidden)

    def check(self, batch: "Batch") -> None:
        first, end = self.available_from, self.available_until
        batch.recommender.engine.check_item(
            self.id, self.attributes, available_from=first, available_until=end, hidden=self.hidden
        )
        batch.items.add(self.id)

    def change(self, recommender: "Recommender") -> None:
        self.change_all(recommender, [self])

    @classmethod
    def change_all(cls, recommender: "Recommender", records: Sequence[Any]) -> None:
        recommender.put_items((record.id, record.attributes, record.availability()) for record in records)


@record_kind
class ItemRemoved(Record, frozen=True, tag="item-removed"):
    """The removal of an item."""

    id: str

    removes: ClassVar[bool] = True

    def check(self, batch: "Batch") -> None:
        if not batch.recommender.has_item(self.id) or not batch.remove(self):
            raise UnknownId(f"item {self.id!r} is not in the catalogue; nothing was removed")

    def change(self, recommender: "Recommender") -> None:
        recommender.remove_item(self.id)


# Users


@record_kind
class UserPut(Record, frozen=True, tag="user"):
    """The addition of a user, or the replacement of the user's attributes."""

    id: str
    attributes: dict[str, Any]

    applied_together: ClassVar[bool] = True

    def person(self) -> str | None:
        return self.id

    def check(self, batch: "Batch") -> None:
        batch.recommender.engine.check_user(self.id, self.attributes)

    def change(self, recommender: "Recommender") -> None:
        self.change_all(recommender, [self])

    @classmethod
    def change_all(cls, recommender: "Recommender", records: Sequence[Any]) -> None:
        recommender.put_users((record.id, record.attributes) for record in records)

    def claims(self) -> ClaimedValues | None:
        return ClaimedValues(self.id, "user", self.attributes)


@record_kind
class UserMerged(Record, frozen=True, tag="user-merged"):
    """The merge of a session into a user. The lines of the session stay in the log until the user is deleted."""

    id: str
    into: str

    checked_alone: ClassVar[bool] = True  # whether there is a session to merge depends on every line before

    def person(self) -> str | None:
        return self.into

    def check(self, batch: "Batch") -> None:
        batch.recommender.engine.check_merge(self.id, self.into)

    def meet_team(self, learner: "Learner") -> None:
        """Merge and dismiss the team, because the session's history moves from one learner to another."""
        learner.gather()

    def change(self, recommender: "Recommender") -> None:
        if recommender.has_user(self.id):  # not if the session was evicted
            recommender.merge_user(self.id, self.into)


@record_kind
class UserForgotten(Record, frozen=True, tag="user-forgotten", omit_defaults=True):
    """The deletion of a user, whose lines are then erased from the log."""

    id: str
    columns: tuple[int, ...] = ()
    """Columns of released values, which only older releases wrote here; they are in `ValuesReleased` now."""
    time: float = 0.0
    """When the deletion was requested, in seconds since 1970; 0 where unknown. Learning does not depend on it."""

    removes: ClassVar[bool] = True
    forgets: ClassVar[bool] = True

    def person(self) -> str | None:
        return self.id

    def check(self, batch: "Batch") -> None:
        known = batch.recommender.has_user(self.id) or batch.recommender.engine.has_session(self.id)
        known = known or self.id in batch.in_log or batch.recommender.memory.has_lost_users
        if not known or not batch.remove(self):
            raise UnknownId(f"user {self.id!r} is not known; there is nothing to forget")

    def change(self, recommender: "Recommender") -> None:
        if recommender.has_user(self.id):  # an evicted user is absent here, but may still have lines in the log
            recommender.forget_user(self.id)
        recommender.engine.forget_session(self.id)
        recommender.engine.release_values(self.columns)

    def for_team(self, front: "Recommender") -> list[Record]:
        if not self.columns:
            return [self]
        return [msgspec.structs.replace(self, columns=()), *ValuesReleased(self.columns).for_team(front)]


@record_kind
class ValuesReleased(Record, frozen=True, tag="values-released"):
    """The removal of attribute and context values that only deleted users had, and of what was learned of them."""

    columns: tuple[int, ...]
    """The columns of the values in the vocabulary, so that the line does not repeat the values themselves."""

    checked_alone: ClassVar[bool] = True  # every earlier line decides which values no other person has

    def change(self, recommender: "Recommender") -> None:
        recommender.engine.release_values(self.columns)

    def for_team(self, front: "Recommender") -> list[Record]:
        return [FeaturesReleased(tuple(front.engine.names_of(self.columns)))]


# Events


@record_kind
class Interaction(Record, frozen=True, tag="event", omit_defaults=True):
    """An interaction of a user with an item."""

    user: str
    item: str
    time: float | None = None
    context: dict[str, Any] = {}
    event_id: str | None = None
    feedback: str | None = None
    """The kind of the event, such as a view or a purchase."""
    recommendation_id: str | None = None
    """The id of the recommendation list from which the item was chosen, if given. Learning does not depend on it."""
    passed_over: tuple[str, ...] = ()
    """Items that were shown above the chosen one and not chosen, where they are learned as negatives."""

    applied_together: ClassVar[bool] = True

    def event(self) -> Event:
        """Return the event to learn from."""
        return Event.logged(self.user, self.item, self.time, self.context, self.feedback, self.passed_over)

    def person(self) -> str | None:
        return self.user

    def identity(self) -> str | None:
        return self.event_id

    def check(self, batch: "Batch") -> None:
        event = Event(self.user, self.item, self.time, self.context, self.feedback)
        if self.context or self.feedback is not None or not batch.recommender.schema.open_items:
            batch.admit_fields(event, certain=self.event_id is None)

    def apply(self, learner: "Learner", position: int, ranks: "list[Rank] | None" = None) -> None:
        learner.learn(position, self, ranks)

    @classmethod
    def apply_all(cls, learner: "Learner", lines: Sequence[tuple[int, Any]]) -> None:
        learner.learn_all(list(lines))

    def claims(self) -> ClaimedValues | None:
        return ClaimedValues(self.user, "context", self.context)


# Records that are only sent to learner processes and never stand in a log


class FeaturesReleased(Record, frozen=True, tag="features-released"):
    """`ValuesReleased` for learner processes, which number columns differently."""

    names: tuple[tuple[str, str], ...]
    """Pairs of field and value."""

    def change(self, recommender: "Recommender") -> None:
        recommender.engine.release_named(self.names)


class Evicted(Record, frozen=True, tag="evicted"):
    """The users, items and values evicted at a merge, for learner processes, each of which has only part of the state."""

    users: tuple[str, ...]
    items: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    """Pairs of field and value."""

    def change(self, recommender: "Recommender") -> None:
        for item in self.items:
            recommender.remove_item(item)
        recommender.engine.release_named(self.names)  # removing the items has already released some of these values
        for user in filter(recommender.has_user, self.users):
            recommender.forget_user(user)


def team_decoder() -> "msgspec.json.Decoder[Any]":
    """Return a decoder of the records sent to learner processes: every kind of a log, `FeaturesReleased` and `Evicted`."""
    union: Any = FeaturesReleased | Evicted
    for kind in _kinds:
        union |= kind
    return msgspec.json.Decoder(union)
