"""The kinds of record that a log holds. Each kind says here all that there is to say of it.

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
    """Values of a person: those of user attributes, or of a context."""

    person: str
    side: str
    given: Mapping[str, Any]


class Record(msgspec.Struct, frozen=True, tag_field="kind"):
    """A line of the log: one change of what is known."""

    applied_together: ClassVar[bool] = False
    """Whether many records of the kind are applied in one call."""
    checked_alone: ClassVar[bool] = False
    """Whether all records before it have to be applied before it can be checked."""
    removes: ClassVar[bool] = False
    """Whether it removes an item or a user: it is checked together with records of its own kind only."""
    forgets: ClassVar[bool] = False
    """Whether it asks the store to erase its person."""

    def person(self) -> str | None:
        """Return the id of the person whose line it is."""
        return None

    def identity(self) -> str | None:
        """Return the id by which a client names the record: the log has each at most once."""
        return None

    def check(self, batch: "Batch") -> None:
        """Raise a `ColdstreamError` if the record cannot be applied after the records of a batch before it."""

    def apply(self, learner: "Learner", position: int, ranks: "list[Rank] | None" = None) -> None:
        """Change what a learner knows as the record says; `position` is that of its line, `ranks` those of its item."""
        self.change(learner.recommender)

    @classmethod
    def apply_all(cls, learner: "Learner", lines: Sequence[tuple[int, Any]]) -> None:
        """Apply many records of the kind, each with its position; only for kinds that are `applied_together`."""
        cls.change_all(learner.recommender, [record for _, record in lines])

    def change(self, recommender: "Recommender") -> None:
        """Change a recommender as the record says."""
        raise NotImplementedError

    @classmethod
    def change_all(cls, recommender: "Recommender", records: Sequence[Any]) -> None:
        """Change a recommender as many records of the kind say, one after the other."""
        raise NotImplementedError

    def meet_team(self, learner: "Learner") -> None:
        """Prepare the team of learners, if there is one, for the record."""
        learner.engage()

    def for_team(self, front: "Recommender") -> "list[Record]":
        """Return the record as learners in other processes understand it, or nothing if it is not for them.

        Their columns have other numbers. They call `change` of what they get, so a kind without it returns nothing.
        """
        return [self]

    def claims(self) -> ClaimedValues | None:
        """Return the person and the person's values that the record has."""
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
    """Take back the registration of the kind that was registered last."""
    assert _kinds.pop() is kind
    record_kind(_kinds.pop())


def line(record: Record) -> LogLine:
    """Return a record as the store takes it."""
    return LogLine(_encoder.encode(record), record.person(), record.identity(), forgets=record.forgets)


def record_of(entry: Entry) -> Any:
    """Return the record that a line of the log holds."""
    try:
        return _decoder.decode(entry.body)
    except msgspec.DecodeError as error:
        message = f"line {entry.position} of the log cannot be read ({error}); it was damaged, or written by a newer release"
        raise StoreDamaged(message) from error


# The model


@record_kind
class LogHeader(Record, frozen=True, tag="begin", omit_defaults=True):
    """The first line of a log: what its recommender is made from."""

    schema: dict[str, Any]
    hyperparameters: dict[str, Any]
    seed: int
    bounds: dict[str, Any] | None = None
    """None in logs that were begun before there were bounds."""
    rule: int = 1
    """The learning rule until a line changes it."""

    def apply(self, learner: "Learner", position: int, ranks: "list[Rank] | None" = None) -> None:
        raise StoreDamaged(f"line {position} of the log begins anew; a log begins once, at line 1")


@record_kind
class BoundsChanged(Record, frozen=True, tag="bounds"):
    """Other bounds hold from here on."""

    bounds: dict[str, Any]

    def change(self, recommender: "Recommender") -> None:
        recommender.engine.follow_bounds(Bounds.from_document(self.bounds))


@record_kind
class RuleChanged(Record, frozen=True, tag="rule"):
    """The log is learned by another rule from here on, and no replay begins before this line."""

    rule: int

    def apply(self, learner: "Learner", position: int, ranks: "list[Rank] | None" = None) -> None:
        check_rule(self.rule)
        learner.rule, learner.rule_since = self.rule, position

    def for_team(self, front: "Recommender") -> list[Record]:
        return []


@record_kind
class Merged(Record, frozen=True, tag="merged"):
    """Learners merge here what each learned since the last such line; from here on there are so many of them.

    A log without such lines is learned by one learner.
    """

    learners: int

    def apply(self, learner: "Learner", position: int, ranks: "list[Rank] | None" = None) -> None:
        learner.merge(self.learners)

    def meet_team(self, learner: "Learner") -> None:
        """Leave the team as it is: `apply` tells it to merge."""

    def for_team(self, front: "Recommender") -> list[Record]:
        return []


@record_kind
class SchemaExtended(Record, frozen=True, tag="schema"):
    """The declared schema has more fields from here on."""

    schema: dict[str, Any]

    def apply(self, learner: "Learner", position: int, ranks: "list[Rank] | None" = None) -> None:
        learner.declared = Schema.from_document(self.schema)
        self.change(learner.recommender)

    def change(self, recommender: "Recommender") -> None:
        recommender.engine.extend(Schema.from_document(self.schema))


@record_kind
class FieldsAdded(Record, frozen=True, tag="fields"):
    """Fields were declared while the service ran, by side; the schema of the settings need not have them."""

    fields: dict[str, dict[str, Any]]

    checked_alone: ClassVar[bool] = True  # what a field may be depends on all fields before, those of events included

    def check(self, batch: "Batch") -> None:
        batch.recommender.engine.check_fields(fields_by_side(self.fields))

    def change(self, recommender: "Recommender") -> None:
        recommender.add_fields(fields_by_side(self.fields))


# Items


@record_kind
class ItemPut(Record, frozen=True, tag="item", omit_defaults=True):
    """An item was added, or its attributes and availability were replaced."""

    id: str
    attributes: dict[str, Any]
    available_from: float | None = None
    available_until: float | None = None
    hidden: bool = False

    applied_together: ClassVar[bool] = True

    def availability(self) -> Availability:
        """Return when the item may be recommended."""
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
    """An item was removed."""

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
    """A user was added, or the user's attributes were replaced."""

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
    """A session's past was moved to a user. The lines of the session stay until the user is forgotten."""

    id: str
    into: str

    checked_alone: ClassVar[bool] = True  # whether there is a session to merge depends on every line before

    def person(self) -> str | None:
        return self.into

    def check(self, batch: "Batch") -> None:
        batch.recommender.engine.check_merge(self.id, self.into)

    def meet_team(self, learner: "Learner") -> None:
        """Gather what learners know: a past moves from one of them to another."""
        learner.gather()

    def change(self, recommender: "Recommender") -> None:
        if recommender.has_user(self.id):  # not if the session was evicted
            recommender.merge_user(self.id, self.into)


@record_kind
class UserForgotten(Record, frozen=True, tag="user-forgotten", omit_defaults=True):
    """A user was forgotten, and is to be erased from the log."""

    id: str
    columns: tuple[int, ...] = ()
    """Columns that `ValuesReleased` names now: older releases wrote them into this line."""
    time: float = 0.0
    """When it was asked for, in seconds since 1970; nothing that is learned depends on it."""

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
        if recommender.has_user(self.id):  # not if the user was evicted; the log may have lines all the same
            recommender.forget_user(self.id)
        recommender.engine.forget_session(self.id)
        recommender.engine.release_values(self.columns)

    def for_team(self, front: "Recommender") -> list[Record]:
        if not self.columns:
            return [self]
        return [msgspec.structs.replace(self, columns=()), *ValuesReleased(self.columns).for_team(front)]


@record_kind
class ValuesReleased(Record, frozen=True, tag="values-released"):
    """Values were forgotten that belonged only to people who were forgotten."""

    columns: tuple[int, ...]
    """Numbers, so that the line repeats none of the values."""

    checked_alone: ClassVar[bool] = True  # which values belong to no other person depends on every line before

    def change(self, recommender: "Recommender") -> None:
        recommender.engine.release_values(self.columns)

    def for_team(self, front: "Recommender") -> list[Record]:
        return [FeaturesReleased(tuple(front.engine.names_of(self.columns)))]


# Events


@record_kind
class Interaction(Record, frozen=True, tag="event", omit_defaults=True):
    """A user chose an item."""

    user: str
    item: str
    time: float | None = None
    context: dict[str, Any] = {}
    event_id: str | None = None
    feedback: str | None = None
    """The kind of the event, such as a view or a purchase."""
    recommendation_id: str | None = None
    """The list that the item was taken from, where the client says so; nothing that is learned depends on it."""
    passed_over: tuple[str, ...] = ()
    """Items shown above the chosen one and not taken, where they are learned from."""

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


# What learners in other processes are told, and no log holds


class FeaturesReleased(Record, frozen=True, tag="features-released"):
    """`ValuesReleased` for learners, whose columns have other numbers: fields and values."""

    names: tuple[tuple[str, str], ...]

    def change(self, recommender: "Recommender") -> None:
        recommender.engine.release_named(self.names)


class Evicted(Record, frozen=True, tag="evicted"):
    """What was evicted at a merge, for learners, who do not know all that there is."""

    users: tuple[str, ...]
    items: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    """Fields and values."""

    def change(self, recommender: "Recommender") -> None:
        for item in self.items:
            recommender.remove_item(item)
        recommender.engine.release_named(self.names)  # some of them were those items' alone
        for user in filter(recommender.has_user, self.users):
            recommender.forget_user(user)


def team_decoder() -> "msgspec.json.Decoder[Any]":
    """Return a decoder of what learners in other processes are told: every kind of a log, and two besides."""
    union: Any = FeaturesReleased | Evicted
    for kind in _kinds:
        union |= kind
    return msgspec.json.Decoder(union)
