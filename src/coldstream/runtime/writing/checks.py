"""Validation of records before they are written, so that the log holds only records that can be applied."""

from collections.abc import Collection, Sequence

from coldstream.errors import ColdstreamError
from coldstream.events.event import Event
from coldstream.features.fields import Field
from coldstream.recommender import Recommender
from coldstream.runtime.records import ItemRemoved, Record, UserForgotten
from coldstream.support.steps import Steps, finished


class Refused(ColdstreamError):
    """Raised where one of several records is invalid, so that none of them is written.

    `index` is the index of that record, and `error` the reason.
    """

    def __init__(self, index: int, error: ColdstreamError) -> None:
        super().__init__(str(error))
        self.index, self.error = index, error


class Checks:
    """The checks of records that will be applied in order. Each is checked as if those before it had been applied.

    Users in `in_log` may be deleted although they are not in memory.
    """

    def __init__(self, recommender: Recommender, in_log: Collection[str] = ()) -> None:
        self._batch = Batch(recommender, in_log)

    def check(self, records: Sequence[Record]) -> None:
        """Check the records of a call. Raise `Refused` for the first invalid one, and then disregard the whole call."""
        finished(self.check_in_steps(records))

    def check_in_steps(self, records: Sequence[Record]) -> Steps[None]:
        """Check the records of a call like `check`, one record per step. The recommender must not change meanwhile."""
        batch = self._batch.copy()
        for index, record in enumerate(records):
            try:
                record.check(batch)
            except ColdstreamError as error:
                raise Refused(index, error) from error
            yield
        self._batch = batch

    def refusals_in_steps(self, records: Sequence[Record]) -> Steps[dict[int, ColdstreamError]]:
        """Check each record once, one per step, and return the errors of the invalid ones by index.

        A record is checked as if the valid ones before it had been applied. The recommender must not change meanwhile.
        """
        refusals: dict[int, ColdstreamError] = {}
        for index, record in enumerate(records):
            try:
                record.check(self._batch)
            except ColdstreamError as error:
                refusals[index] = error.with_traceback(None)
            yield
        return refusals


class Batch:
    """The effects of the records checked so far: the items and fields that they add, and the items and users they remove."""

    def __init__(self, recommender: Recommender, in_log: Collection[str]) -> None:
        self.recommender = recommender
        self.in_log = in_log
        """Users who may be deleted although they are not in memory, because the log or other data has them."""
        self.items = set[str]()
        """Items that records of the batch put into the catalogue."""
        self._certain: dict[str, Field] = {}
        self._possible: dict[str, Field] = {}  # of events with an id, which the log may already have: then nothing is added
        self._removed = set[tuple[type, str]]()

    def copy(self) -> "Batch":
        """Return an independent copy of the batch."""
        copied = Batch(self.recommender, self.in_log)
        copied.items, copied._removed = set(self.items), set(self._removed)
        copied._certain, copied._possible = dict(self._certain), dict(self._possible)
        return copied

    def remove(self, record: ItemRemoved | UserForgotten) -> bool:
        """Note that an item or a user is removed, and return False if an earlier record has already removed it."""
        key = type(record), record.id
        if key in self._removed:
            return False
        self._removed.add(key)
        return True

    def admit_fields(self, event: Event, certain: bool) -> None:
        """Note the context fields that an event adds. They are only possible unless the event is `certain` to be learned.

        Raises the error for which the event would be refused, with or without the possible fields of earlier events.
        """
        new = self.recommender.engine.check_event(event, self._certain, self.items)
        if self._possible:
            self.recommender.engine.check_event(event, self._possible | self._certain, self.items)
        (self._certain if certain else self._possible).update(new)


def together(first: Record, other: Record) -> bool:
    """Return whether two records may be checked before either is applied."""
    if first.checked_alone or other.checked_alone:
        return False
    return type(first) is type(other) if first.removes or other.removes else True
