"""Feature → column. Grows only when asked to."""

import heapq
from typing import NamedTuple


class Admission(NamedTuple):
    """A column that was handed out since the last commit."""

    column: int
    field: int
    value: str
    appended: bool  # False where it filled a gap that a release had left


class Vocabulary:
    """Fields, their values, and the column of each. What was admitted since the last `commit` can be taken back."""

    def __init__(self) -> None:
        self.fields: list[str] = []
        self.fresh: list[Admission] = []
        self._columns: list[dict[str, int]] = []
        self._owners: list[tuple[int, str] | None] = []
        self._gaps: list[int] = []  # a heap: the lowest gap is filled first
        self._settled_fields = 0

    def __len__(self) -> int:
        """How many columns there are, gaps included."""
        return len(self._owners)

    def admit_field(self, name: str) -> int:
        """The number of a field, new or known."""
        if name not in self.fields:
            self.fields.append(name)
            self._columns.append({})
        return self.fields.index(name)

    def admit(self, field: int, value: str) -> int:
        """The column of a feature, new or known."""
        column = self._columns[field].get(value)
        if column is None:
            appended = not self._gaps
            column = len(self._owners) if appended else heapq.heappop(self._gaps)
            if appended:
                self._owners.append((field, value))
            else:
                self._owners[column] = (field, value)
            self._columns[field][value] = column
            self.fresh.append(Admission(column, field, value, appended))
        return column

    def find(self, field: int, value: str) -> int | None:
        """The column of a known feature."""
        return self._columns[field].get(value)

    def owner(self, column: int) -> tuple[str, str]:
        """The field's name and the value that a column stands for."""
        owner = self._owners[column]
        if owner is None:
            raise IndexError(f"column {column} is a gap")
        return self.fields[owner[0]], owner[1]

    def release(self, field: int, value: str) -> int:
        """Give a feature's column back; it is a gap until another feature fills it."""
        column = self._columns[field].pop(value)
        self._owners[column] = None
        heapq.heappush(self._gaps, column)
        return column

    def commit(self) -> None:
        """What was admitted stays."""
        self.fresh.clear()
        self._settled_fields = len(self.fields)

    def rollback(self) -> list[int]:
        """Take back all that was admitted since the last commit; the columns that are free again."""
        freed = []
        for admission in reversed(self.fresh):
            del self._columns[admission.field][admission.value]
            if admission.appended:
                self._owners.pop()
            else:
                self._owners[admission.column] = None
                heapq.heappush(self._gaps, admission.column)
            freed.append(admission.column)
        self.fresh.clear()
        del self.fields[self._settled_fields :]
        del self._columns[self._settled_fields :]
        return freed

    def document(self) -> dict[str, list[object]]:
        """The vocabulary as JSON can hold it: per column its field number and value, or null twice for a gap."""
        return {
            "fields": list(self.fields),
            "column_field": [None if owner is None else owner[0] for owner in self._owners],
            "column_value": [None if owner is None else owner[1] for owner in self._owners],
        }

    @classmethod
    def from_document(cls, document: dict[str, list[object]]) -> "Vocabulary":
        """The inverse of `document`."""
        vocabulary = cls()
        for name in document["fields"]:
            vocabulary.admit_field(str(name))
        for column, owner in enumerate(zip(document["column_field"], document["column_value"], strict=True)):
            match owner:
                case (int(field), str(value)):
                    vocabulary._owners.append((field, value))
                    vocabulary._columns[field][value] = column
                case _:
                    vocabulary._owners.append(None)
                    vocabulary._gaps.append(column)  # ascending, so already a heap
        vocabulary.commit()
        return vocabulary
