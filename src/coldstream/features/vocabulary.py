"""Feature → column. Grows only when asked to."""

import heapq
from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple


class Admission(NamedTuple):
    """A column that was handed out since the last commit."""

    column: int
    field: int
    value: str
    appended: int
    """How many columns were added at the end for it."""
    place: int | None
    """The neighbourhood it was admitted to."""
    gaps: tuple[int, ...] = ()
    """The gaps that were made part of a run for it."""


_LONGEST_RUN = 64


class Vocabulary:
    """Fields, their values, and the column of each. What was admitted since the last `commit` can be taken back.

    Features that are read together can be admitted near each other: every neighbourhood keeps runs of columns for itself.
    """

    def __init__(self) -> None:
        self.fields: list[str] = []
        self.fresh: list[Admission] = []
        self.departures = 0
        """How often a feature has lost its column: as long as it is the same, columns once found stand for the same."""
        self._columns: list[dict[str, int]] = []
        self._numbers: dict[str, int] = {}
        self._field_of = array("i")  # −1 for a gap
        self._value_of: list[str | None] = []
        self._gaps: list[int] = []  # a heap: the lowest gap is filled first
        self._runs: dict[int, list[int]] = {}  # per neighbourhood a heap of its free columns
        self._neighbours: dict[int, int] = {}  # per neighbourhood how many columns it ever got
        self._settled_fields = 0

    def __len__(self) -> int:
        """How many columns there are, gaps included."""
        return len(self._value_of)

    def features(self) -> int:
        """How many features have a column."""
        return sum(map(len, self._columns))

    def admit_field(self, name: str) -> int:
        """The number of a field, new or known."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.fields)
            self.fields.append(name)
            self._columns.append({})
        return number

    def field(self, name: str) -> int | None:
        """The number of a known field."""
        return self._numbers.get(name)

    def admit(self, field: int, value: str) -> int:
        """The column of a feature, new or known."""
        column = self._columns[field].get(value)
        if column is None:
            appended = not self._gaps
            if appended:
                self._append(1)
            column = len(self) - 1 if appended else heapq.heappop(self._gaps)
            self._settle(Admission(column, field, value, int(appended), None))
        return column

    def admit_near(self, field: int, value: str, place: int) -> int:
        """The column of a feature, new or known; a new one next to others of the same neighbourhood."""
        column = self._columns[field].get(value)
        if column is None:
            run, appended = self._runs.setdefault(place, []), 0
            gaps: tuple[int, ...] = ()
            if not run:  # as many again as there are, so that at most half is ever idle
                wanted = min(max(1, self._neighbours.get(place, 0)), _LONGEST_RUN)
                gaps = tuple(heapq.heappop(self._gaps) for _ in range(min(wanted, len(self._gaps))))
                appended = wanted - len(gaps)
                run.extend([*gaps, *range(len(self), len(self) + appended)])
                self._append(appended)
                self._neighbours[place] = self._neighbours.get(place, 0) + wanted
            column = heapq.heappop(run)
            self._settle(Admission(column, field, value, appended, place, gaps))
        return column

    def _append(self, columns: int) -> None:
        self._field_of.extend([-1] * columns)
        self._value_of.extend([None] * columns)

    def _settle(self, admission: Admission) -> None:
        self._field_of[admission.column], self._value_of[admission.column] = admission.field, admission.value
        self._columns[admission.field][admission.value] = admission.column
        self.fresh.append(admission)

    def find(self, field: int, value: str) -> int | None:
        """The column of a known feature."""
        return self._columns[field].get(value)

    def owner(self, column: int) -> tuple[str, str]:
        """The field's name and the value that a column stands for."""
        owner = self.owner_or_none(column)
        if owner is None:
            raise IndexError(f"column {column} is a gap")
        return owner

    def owner_or_none(self, column: int) -> tuple[str, str] | None:
        """The same; None for a gap."""
        value = self._value_of[column]
        return None if value is None else (self.fields[self._field_of[column]], value)

    def release(self, field: int, value: str) -> int:
        """Give a feature's column back; it is a gap until another feature fills it."""
        column = self._vacate(field, value)
        heapq.heappush(self._gaps, column)
        return column

    def release_near(self, field: int, value: str, place: int) -> int:
        """Give a feature's column back to a neighbourhood, or to everybody where that has plenty."""
        column, run = self._vacate(field, value), self._runs.setdefault(place, [])
        if len(run) < _LONGEST_RUN:
            heapq.heappush(run, column)
        else:
            heapq.heappush(self._gaps, column)
            self._neighbours[place] = self._neighbours.get(place, 1) - 1
        return column

    def _vacate(self, field: int, value: str) -> int:
        column = self._columns[field].pop(value)
        self.departures += 1
        self._field_of[column], self._value_of[column] = -1, None
        return column

    def commit(self) -> None:
        """What was admitted stays."""
        self.fresh.clear()
        self._settled_fields = len(self.fields)

    def rollback(self) -> list[int]:
        """Take back all that was admitted since the last commit; the columns that are free again."""
        freed = []
        for column, field, value, appended, place, gaps in reversed(self.fresh):
            freed.append(self._vacate(field, value))
            home = self._gaps if place is None else self._runs[place]
            heapq.heappush(home, column)
            if appended:
                del self._field_of[-appended:], self._value_of[-appended:]
            if appended or gaps:
                home[:] = [free for free in home if free < len(self) and free not in gaps]
                heapq.heapify(home)
            for gap in gaps:
                heapq.heappush(self._gaps, gap)
            if place is not None and (appended or gaps):
                self._neighbours[place] -= appended + len(gaps)
        self.fresh.clear()
        for name in self.fields[self._settled_fields :]:
            del self._numbers[name]
        del self.fields[self._settled_fields :]
        del self._columns[self._settled_fields :]
        return freed

    def document(self) -> dict[str, Any]:
        """The vocabulary as JSON can hold it: per column its field number and value, or −1 and null for a gap."""
        return {
            "fields": list(self.fields),
            "column_field": self._field_of.tolist(),
            "column_value": list(self._value_of),
            "runs": sorted((place, sorted(run)) for place, run in self._runs.items() if run),
            "neighbours": sorted((place, count) for place, count in self._neighbours.items() if count),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Vocabulary":
        """The inverse of `document`."""
        vocabulary = cls()
        for name in document["fields"]:
            vocabulary.admit_field(str(name))
        vocabulary._runs = {place: list(run) for place, run in document["runs"]}
        vocabulary._neighbours = dict(document["neighbours"])
        reserved = {column for run in vocabulary._runs.values() for column in run}
        vocabulary._field_of.extend(document["column_field"])
        vocabulary._value_of.extend(document["column_value"])
        for column, (field, value) in enumerate(zip(vocabulary._field_of, vocabulary._value_of, strict=True)):
            if value is not None:
                vocabulary._columns[field][value] = column
            elif column not in reserved:
                vocabulary._gaps.append(column)  # ascending, so already a heap
        vocabulary.commit()
        return vocabulary
