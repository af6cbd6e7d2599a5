"""What a line would be refused for, found out before it is written: the log holds only what can be done."""

from collections.abc import Collection, Sequence

from coldstream.errors import ColdstreamError
from coldstream.events.event import Event
from coldstream.features.fields import Field
from coldstream.recommender import Recommender
from coldstream.runtime.records import ItemRemoved, Record, UserForgotten
from coldstream.support.steps import Steps, finished


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
        self._batch = Batch(recommender, in_log)

    def check(self, records: Sequence[Record]) -> None:
        """Raise `Refused` for the first that cannot be taken; what came with the call is forgotten then."""
        finished(self.check_in_steps(records))

    def check_in_steps(self, records: Sequence[Record]) -> Steps[None]:
        """The same, a record at a time. What is known stays as it is meanwhile."""
        batch = self._batch.copy()
        for index, record in enumerate(records):
            try:
                record.check(batch)
            except ColdstreamError as error:
                raise Refused(index, error) from error
            yield
        self._batch = batch

    def refusals_in_steps(self, records: Sequence[Record]) -> Steps[dict[int, ColdstreamError]]:
        """Check every record once, one at a time, and return by index why a record cannot be taken.

        A record is checked in view of those before it that can be taken. What is known stays as it is meanwhile.
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
    """The records of a batch that were checked so far: what they bring, and what they remove."""

    def __init__(self, recommender: Recommender, in_log: Collection[str]) -> None:
        self.recommender = recommender
        self.in_log = in_log
        """People who may be forgotten although nothing is known of them but lines of the log."""
        self.items = set[str]()
        """Items that are put."""
        self._certain: dict[str, Field] = {}
        self._possible: dict[str, Field] = {}  # of events that the log may have already: then neither comes
        self._removed = set[tuple[type, str]]()

    def copy(self) -> "Batch":
        """Return a batch that goes on from here on its own."""
        copied = Batch(self.recommender, self.in_log)
        copied.items, copied._removed = set(self.items), set(self._removed)
        copied._certain, copied._possible = dict(self._certain), dict(self._possible)
        return copied

    def remove(self, record: ItemRemoved | UserForgotten) -> bool:
        """Note that an item or a user is removed; return False if a record before has done so."""
        key = type(record), record.id
        if key in self._removed:
            return False
        self._removed.add(key)
        return True

    def admit_fields(self, event: Event, certain: bool) -> None:
        """Note the context fields that an event brings, which may be learned or not unless it is certain.

        Raises what the event would be refused for, whether the fields before it come or not.
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
