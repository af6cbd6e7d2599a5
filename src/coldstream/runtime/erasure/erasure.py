"""What goes with people who leave: the values that nobody else had."""

from collections.abc import Iterable

from coldstream.lists.inspection import FieldValue, Inspection, Steps
from coldstream.runtime.erasure.claims import Said, claimed, digest
from coldstream.runtime.erasure.leaving import Leaving
from coldstream.runtime.records import Record
from coldstream.storage.store import LogLine

STEP = 500
"""Values whose digests are compared in one step."""


class UnclaimedValues:
    """Users' and contexts' values that no line has but those of people who leave, as far as lines were read.

    Values that were left behind by people who went before are found as well.
    """

    def __init__(self, values: set[FieldValue], leaving: Leaving) -> None:
        self._unclaimed, self._leaving, self._said = values, leaving, Said()

    def read_kept(self, inspection: Inspection, kept: Iterable[LogLine]) -> Steps[None]:
        """What is kept of deleted lines claims what it says."""
        own = [claim for claim in claimed(kept) if claim.person not in self._leaving.people]
        values = {value for claim in own for value in claim.values}
        # Older releases kept columns, which are taken for what they stand for now.
        columns = {column for claim in own for column in claim.columns}
        if not values and not columns:
            return
        for number, value in enumerate(list(self._unclaimed)):
            if digest(inspection, value) in values or not columns.isdisjoint(inspection.columns([value])):
                self._unclaimed.discard(value)
            if number % STEP == STEP - 1:
                yield

    def read(self, inspection: Inspection, position: int, record: Record) -> None:
        """One more line, which claims what it says."""
        said = self._said.values(inspection, record)
        if said is not None and not self._leaving.has_left(said[0], position):
            self._unclaimed.difference_update(said[1])

    def columns(self, inspection: Inspection) -> tuple[int, ...]:
        """The columns, now, of what is unclaimed by all lines that were read, in ascending order."""
        return tuple(sorted(inspection.columns(self._unclaimed)))
