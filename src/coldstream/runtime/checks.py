"""What a line would be refused for, found out before it is written: the log holds only what can be done."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from coldstream.errors import ColdstreamError, UnknownId
from coldstream.events.event import Event
from coldstream.features.fields import Field
from coldstream.features.schema import fields_by_side
from coldstream.inspection import Steps, finished
from coldstream.recommender import Recommender
from coldstream.runtime.records import (
    FieldsAdded,
    Interaction,
    ItemPut,
    ItemRemoved,
    Record,
    UserForgotten,
    UserMerged,
    UserPut,
    ValuesReleased,
)


class Refused(ColdstreamError):
    """One of several records cannot be taken, and so none of them is."""

    def __init__(self, index: int, error: ColdstreamError) -> None:
        super().__init__(str(error))
        self.index, self.error = index, error


class Checks:
    """The checks of records that are going to be applied one after the other, each in view of those before it.

    Whoever is `in_log` may be forgotten although nothing is known of them.
    """

    def __init__(self, recommender: Recommender, in_log: Collection[str] = ()) -> None:
        self._recommender, self._in_log = recommender, in_log
        self._coming = _Coming({}, {}, set())
        self._gone: set[tuple[type, str]] = set()

    def check(self, records: Sequence[Record]) -> None:
        """Raise `Refused` for the first that cannot be taken; what came with the call is forgotten then."""
        finished(self.check_in_steps(records))

    def check_in_steps(self, records: Sequence[Record]) -> Steps[None]:
        """The same, a record at a time. What is known stays as it is meanwhile."""
        coming, gone = self._coming.copy(), set(self._gone)
        for index, record in enumerate(records):
            try:
                self._check(record, coming, gone)
            except ColdstreamError as error:
                raise Refused(index, error) from error
            yield
        self._coming, self._gone = coming, gone

    def refusals_in_steps(self, records: Sequence[Record]) -> Steps[dict[int, ColdstreamError]]:
        """Check every record once, one at a time, and return by index why a record cannot be taken.

        A record is checked in view of those before it that can be taken. What is known stays as it is meanwhile.
        """
        refusals: dict[int, ColdstreamError] = {}
        for index, record in enumerate(records):
            try:
                self._check(record, self._coming, self._gone)
            except ColdstreamError as error:
                refusals[index] = error.with_traceback(None)
            yield
        return refusals

    def _check(self, record: Record, coming: "_Coming", gone: set[tuple[type, str]]) -> None:
        """Raise what a record is refused for, or note in `coming` and `gone` what it leads to: never half of it."""
        recommender = self._recommender
        match record:
            case Interaction():
                event = Event(record.user, record.item, record.time, record.context, record.feedback)
                if record.context or record.feedback is not None or not recommender.schema.open_items:
                    coming.follow(recommender, event, certain=record.event_id is None)
            case ItemPut():
                first, end = record.available_from, record.available_until
                recommender.check_item(
                    record.id, record.attributes, available_from=first, available_until=end, hidden=record.hidden
                )
                coming.items.add(record.id)
            case UserPut():
                recommender.check_user(record.id, record.attributes)
            case ItemRemoved():
                if (ItemRemoved, record.id) in gone or not recommender.has_item(record.id):
                    raise UnknownId(f"item {record.id!r} is not in the catalogue; nothing was removed")
                gone.add((ItemRemoved, record.id))
            case UserForgotten():
                somebody = recommender.has_user(record.id) or recommender.has_session(record.id)
                somebody = somebody or record.id in self._in_log or recommender.memory.has_lost_users
                if (UserForgotten, record.id) in gone or not somebody:
                    raise UnknownId(f"user {record.id!r} is not known; there is nothing to forget")
                gone.add((UserForgotten, record.id))
            case UserMerged():
                recommender.check_merge(record.id, record.into)
            case FieldsAdded():
                recommender.check_fields(fields_by_side(record.fields))


class _Coming(NamedTuple):
    """The context fields that events bring, and the items, which are not written yet."""

    certain: dict[str, Field]
    possible: dict[str, Field]
    """Of events that have an id: the log may have it already, and then neither the event nor its field comes."""
    items: set[str]
    """Items that are put."""

    def copy(self) -> "_Coming":
        return _Coming(dict(self.certain), dict(self.possible), set(self.items))

    def follow(self, recommender: Recommender, event: Event, certain: bool) -> None:
        """Take an event that can be learned whether the possible fields come or not; raise what it would be refused for."""
        new = recommender.check_event(event, self.certain, self.items)
        if self.possible:
            recommender.check_event(event, self.possible | self.certain, self.items)
        (self.certain if certain else self.possible).update(new)


def together(first: Record, other: Record) -> bool:
    """Whether two records may be checked before either is applied.

    Whether an item or a user is there to go depends on what comes before, so those who go do so only with their like. What a
    field may be depends on all fields before it, those that events bring included, so it is added alone. Which values nobody
    has depends on every line before, and whom a session is folded into too.
    """
    alone = FieldsAdded | ValuesReleased | UserMerged
    return _leaves(first) == _leaves(other) and not isinstance(first, alone) and not isinstance(other, alone)


def _leaves(record: Record) -> type | None:
    return type(record) if isinstance(record, ItemRemoved | UserForgotten) else None
