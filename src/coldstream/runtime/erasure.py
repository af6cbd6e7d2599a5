"""What goes with people who leave: the values that nobody else had."""

from collections.abc import Iterable, Mapping

from coldstream.inspection import Inspection
from coldstream.runtime.claims import Said, claimed
from coldstream.runtime.records import Record
from coldstream.storage.store import LogLine


class UnclaimedValues:
    """The columns of users' and contexts' values that no line has but those of people who leave, as far as lines were read.

    Each who leaves does so up to a position: whoever came back after it is somebody else. Values that were left behind by
    people who went before are found as well.
    """

    def __init__(self, columns: set[int], kept: Iterable[LogLine], leaving: Mapping[str, int]) -> None:
        self._unclaimed, self._leaving, self._said = columns, leaving, Said()
        for person, own in claimed(kept):
            if person not in leaving:
                self._unclaimed.difference_update(own)

    def read(self, inspection: Inspection, position: int, record: Record) -> None:
        """One more line, which claims what it says."""
        said = self._said.columns(inspection, record)
        if said is not None and position > self._leaving.get(said[0], 0):
            self._unclaimed.difference_update(said[1])

    def columns(self) -> tuple[int, ...]:
        """What is unclaimed by all lines that were read, in ascending order."""
        return tuple(sorted(self._unclaimed))
