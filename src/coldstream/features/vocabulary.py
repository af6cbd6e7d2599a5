"""The vocabulary: a map from features to columns that grows only when asked to."""

import heapq
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np

from coldstream.bounds.costs import text_cost, texts_cost
from coldstream.features.sorted_columns import SortedColumns
from coldstream.support.arrays import Integers, checked_columns

GAP, ITEM_GAP = -1, -2
"""Field number of a column without a feature; and of one kept for features of items, while such gaps are kept apart."""


FEW = 16
"""If fewer than one gap per 16 existing ones is added, each is pushed to the heap; else all are sorted. No result depends
on it: the lowest gap is next either way."""


class Admission(NamedTuple):
    """A column that was assigned since the last commit."""

    column: int
    field: int
    value: str
    appended: bool
    """Whether the column was appended; false if it fills a gap."""


class Released(NamedTuple):
    """A column that was released since the last commit."""

    column: int
    field: int
    value: str


# Builds Released(column, field, value) without a Python call for each, because thousands are released at once.
_released = partial(tuple.__new__, Released)


class Vocabulary:
    """Fields, their values, and the column of each. `rollback` undoes admissions and releases since the last `commit`."""

    def __init__(self) -> None:
        self.fields: list[str] = []
        self.release_count = 0
        """Number of columns released so far. While it is unchanged, a column found before still stands for the same
        feature."""
        self.text = 0
        """Memory of the texts of all values that have a column, in bytes."""
        self._uncommitted: list[Admission | Released] = []
        self._started = 0
        self._columns: list[dict[str, int]] = []
        self._listed: list[SortedColumns] = []  # by field
        self._numbers: dict[str, int] = {}
        self._field_of = array("i")  # −1 for a gap
        self._value_of: list[str | None] = []
        self._gaps: list[int] = []  # a heap: the lowest gap is filled first
        self._item_gaps: list[int] | None = None  # a heap of the gaps that features of items left; None if not kept apart
        self._committed_fields = 0

    def __len__(self) -> int:
        """Return the number of columns, gaps included."""
        return len(self._value_of)

    def features(self) -> int:
        """Return the number of features that have a column."""
        return sum(map(len, self._columns))

    def admit_field(self, name: str) -> int:
        """Return the number of a field, adding the field if it is new."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.fields)
            self.fields.append(name)
            self._columns.append({})
            self._listed.append(SortedColumns(np.zeros(0, np.int32)))
        return number

    def field(self, name: str) -> int | None:
        """Return the number of a field, or None if it is unknown."""
        return self._numbers.get(name)

    def admit(self, field: int, value: str) -> int:
        """Return the column of a feature, assigning one if it is new: the lowest gap, else a column at the end."""
        column = self._columns[field].get(value)
        if column is not None:
            return column
        gaps = self._gaps_for(field)
        appended = not gaps
        if appended:
            column = len(self._value_of)
            self._field_of.append(field)
            self._value_of.append(value)
        else:
            column = heapq.heappop(gaps)
            self._field_of[column], self._value_of[column] = field, value
        self._listed[field].add(column)
        self._columns[field][value] = column
        self.text += text_cost(value)
        self._uncommitted.append(Admission(column, field, value, appended))
        return column

    def find(self, field: int, value: str) -> int | None:
        """Return the column of a feature, or None if it is unknown."""
        return self._columns[field].get(value)

    def find_all(self, features: Sequence[tuple[int, str, float]]) -> list[int | None]:
        """Return the columns of features, None for unknown ones; weights are ignored."""
        columns = self._columns
        return [columns[field].get(value) for field, value, _ in features]

    def find_named(self, features: Sequence[tuple[str, str, float]]) -> list[int | None]:
        """Return the columns of features whose fields are given by name, None for unknown ones."""
        numbers, columns = self._numbers, self._columns
        return [columns[numbers[name]].get(value) if name in numbers else None for name, value, _ in features]

    def owner(self, column: int) -> tuple[str, str]:
        """Return the name of the field and the value of a column. Raise `IndexError` for a gap."""
        owner = self.owner_or_none(column)
        if owner is None:
            raise IndexError(f"column {column} is a gap")
        return owner

    def owner_or_none(self, column: int) -> tuple[str, str] | None:
        """Return the name of the field and the value of a column, or None for a gap."""
        value = self._value_of[column]
        return None if value is None else (self.fields[self._field_of[column]], value)

    # Access by field or by range, so that no reader has to iterate over all features

    def count(self, field: int) -> int:
        """Return how many values of a field have a column."""
        return len(self._columns[field])

    def listed(self, field: int) -> Integers:
        """Return all columns of a field in ascending order. The array must not be changed."""
        return self._listed[field].all()

    def columns(self, field: int, first: int = 0) -> Iterator[int]:
        """Return the columns of a field from `first` on, in ascending order, as they are now."""
        return self._listed[field].since(first)

    def value(self, column: int) -> str | None:
        """Return the value of a column, or None for a gap."""
        return self._value_of[column]

    def fields_of_all(self) -> Integers:
        """Return the field number of every column, −1 for a gap, as a copy."""
        return np.array(self._field_of, np.int32)

    def fields_of(self, first: int, last: int) -> Sequence[int]:
        """Return the field numbers of the columns from `first` up to `last`, −1 for a gap."""
        return self._field_of[first:last]

    def values_of(self, first: int, last: int) -> Sequence[str | None]:
        """Return the values of the columns from `first` up to `last`, None for a gap."""
        return self._value_of[first:last]

    def keep_items_apart(self) -> None:
        """Make features of items fill only the gaps that features of items leave, from now on.

        Two vocabularies with the same features of items, and different other ones, then have those of items in the same
        order.
        """
        if self._item_gaps is None:
            self._item_gaps = []

    def fill_any_gap(self) -> None:
        """Make every new feature take the lowest gap from now on, which is the default."""
        self._gaps, self._item_gaps = sorted([*self._gaps, *(self._item_gaps or ())]), None

    def _gaps_for(self, field: int) -> list[int]:
        """Return the heap of gaps that features of a field leave and fill."""
        if self._item_gaps is None or not self.fields[field].startswith("item."):
            return self._gaps
        return self._item_gaps

    def release(self, field: int, value: str) -> int:
        """Release the column of a feature, which becomes a gap until another feature fills it. Return the column."""
        column = self._vacate(field, value)
        heapq.heappush(self._gaps_for(field), column)
        return column

    def release_all(self, field: int, columns: Sequence[int]) -> None:
        """Release several columns of a field at once. `rollback` undoes it until the next commit."""
        gaps, known, value_of, field_of = self._gaps_for(field), self._columns[field], self._value_of, self._field_of
        values = list[str]()
        for column in columns:
            value = value_of[column]
            assert value is not None, f"column {column} stands for something"
            values.append(value)
            del known[value]
            field_of[column], value_of[column] = GAP, None
        self.release_count += len(columns)
        self.text -= texts_cost(values)
        if len(columns) < len(gaps) // FEW:
            for column in columns:
                heapq.heappush(gaps, column)
        else:
            gaps += columns
            gaps.sort()  # a sorted list is a heap
        self._uncommitted += map(_released, zip(columns, repeat(field), values))
        self._listed[field].remove_all(columns)

    def _vacate(self, field: int, value: str) -> int:
        column = self._columns[field].pop(value)
        self._listed[field].remove(column)
        self.release_count += 1
        self.text -= text_cost(value)
        self._field_of[column], self._value_of[column] = GAP, None
        return column

    def _return(self, column: int, field: int, value: str) -> None:
        """Undo the release of a column."""
        gaps = self._gaps_for(field)
        gaps.remove(column)
        heapq.heapify(gaps)
        self._field_of[column], self._value_of[column] = field, value
        self._listed[field].add(column)
        self._columns[field][value] = column
        self.text += text_cost(value)

    # Transactions

    def unstarted(self) -> list[Admission]:
        """Return the admissions since the last call, so that data kept per column can be initialized."""
        new = [one for one in self._uncommitted[self._started :] if isinstance(one, Admission)]
        self._started = len(self._uncommitted)
        return new

    @property
    def uncommitted(self) -> bool:
        """Whether anything was admitted or released since the last commit."""
        return bool(self._uncommitted) or self._committed_fields < len(self.fields)

    def commit(self) -> None:
        """Commit pending admissions and releases."""
        self._uncommitted.clear()
        self._started = 0
        self._committed_fields = len(self.fields)

    def rollback(self) -> list[int]:
        """Undo all admissions and releases since the last commit. Return the columns that are free again."""
        freed = []
        for one in reversed(self._uncommitted):
            if isinstance(one, Released):
                self._return(*one)
                continue
            freed.append(self._vacate(one.field, one.value))
            if one.appended:
                self._field_of.pop()
                self._value_of.pop()
            else:
                heapq.heappush(self._gaps_for(one.field), one.column)
        self._uncommitted.clear()
        self._started = 0
        for name in self.fields[self._committed_fields :]:
            del self._numbers[name]
        del self.fields[self._committed_fields :]
        del self._columns[self._committed_fields :], self._listed[self._committed_fields :]
        return freed

    def document(self) -> dict[str, Any]:
        """Return the vocabulary as JSON can hold it: per column its field number and value, or −1 and null for a gap.

        A gap that only features of items fill has −2.
        """
        field_of = self._field_of.tolist()
        for column in self._item_gaps or ():
            field_of[column] = ITEM_GAP
        return {
            "fields": list(self.fields),
            "column_field": field_of,
            "column_value": list(self._value_of),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Vocabulary":
        """Build a vocabulary from a `document`. Raise `ValueError` if it is inconsistent."""
        vocabulary = cls()
        for name in document["fields"]:
            vocabulary.admit_field(str(name))
        fields, values = np.array(document["column_field"], np.int32), list(document["column_value"])
        if len(fields) != len(values) or any(values[gap] is not None for gap in np.flatnonzero(fields < 0).tolist()):
            raise ValueError("a column has a field and no value, or a value and no field")
        checked_columns("column_field", fields, ITEM_GAP, len(vocabulary.fields))
        by_field = np.argsort(fields, kind="stable").astype(np.int32)
        ends = np.searchsorted(fields, np.arange(len(vocabulary.fields) + 1), sorter=by_field)
        for number, (first, last) in enumerate(pairwise(ends.tolist())):
            own = by_field[first:last].copy()
            columns = own.tolist()
            named = [values[column] for column in columns]
            vocabulary._columns[number] = dict(zip(named, columns, strict=True))
            if len(vocabulary._columns[number]) < len(columns):
                raise ValueError("a value has two columns")
            vocabulary._listed[number] = SortedColumns(own)
            vocabulary.text += texts_cost(named)
        vocabulary._gaps = np.flatnonzero(fields == GAP).tolist()  # ascending, so already a heap
        vocabulary._item_gaps = np.flatnonzero(fields == ITEM_GAP).tolist() or None
        vocabulary._field_of.extend(np.maximum(fields, GAP).tolist())
        vocabulary._value_of = values
        vocabulary.commit()
        return vocabulary
