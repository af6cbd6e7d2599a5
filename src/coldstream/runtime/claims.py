"""Who had which values: what tells the values that nobody has any more, though lines that had them are deleted.

A column of a user's attribute or of a context is claimed by every person one of whose lines has its value. Of lines that are
deleted, the store keeps who claimed what. A column that more than a few people claimed is everybody's from then on.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from coldstream.errors import StoreDamaged
from coldstream.inspection import Inspection
from coldstream.runtime.records import Interaction, Record, UserPut
from coldstream.storage.store import LogLine

FEW = 8
"""People of whom each is remembered; a value of more than these tells nothing of anybody, and stays."""


MOST_KNOWN = 100_000
"""Values that are looked up once; those of a field in which every line says something new would fill the memory."""


class Claimed(msgspec.Struct, frozen=True):
    """What is kept of a person's deleted lines, or of everybody's: columns whose values they had."""

    columns: tuple[int, ...]


_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Claimed)


class Said:
    """Finds out which columns a line says, and looks up once what is said again and again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], list[int]] = {}

    def columns(self, inspection: Inspection, record: Record) -> tuple[str, list[int]] | None:
        """Who claims what with a line; None where it is no person's."""
        match record:
            case Interaction():
                person, side, given = record.user, "context", record.context
            case UserPut():
                person, side, given = record.id, "user", record.attributes
            case _:
                return None
        columns = list[int]()
        for name, raw in given.items():
            columns += self._columns(inspection, side, name, raw)
        return person, columns

    def _columns(self, inspection: Inspection, side: str, name: str, raw: Any) -> list[int]:
        if type(raw) is not str:  # lists have no hash, and are rarely the same
            return inspection.columns_of(side, {name: raw})
        found = self._known.get((side, name, raw))
        if found is None:
            if len(self._known) == MOST_KNOWN:
                self._known.clear()
            found = self._known[side, name, raw] = inspection.columns_of(side, {name: raw})
        return found


class Claims:
    """The claims of lines that are deleted."""

    def __init__(self, kept: Iterable[LogLine]) -> None:
        self._people: dict[int, set[str]] = {}
        self._everybodys: set[int] = set()
        self._new: dict[str | None, set[int]] = {}
        for person, columns in claimed(kept):
            for column in columns:
                self._add(person, column)

    def add(self, person: str, columns: Iterable[int]) -> None:
        """One more line."""
        for column in columns:
            if column in self._everybodys or person in self._people.get(column, ()):
                continue
            self._add(person, column)
            owner = None if column in self._everybodys else person
            self._new.setdefault(owner, set()).add(column)

    def new(self) -> list[LogLine]:
        """What the store is to keep of the lines that were added."""
        found, self._new = self._new, {}
        return [LogLine(_encoder.encode(Claimed(tuple(sorted(columns)))), person) for person, columns in found.items()]

    def _add(self, person: str | None, column: int) -> None:
        people = self._people.setdefault(column, set())
        if person is not None:
            people.add(person)
        if person is None or len(people) > FEW:
            self._everybodys.add(column)
            del self._people[column]


def claimed(kept: Iterable[LogLine]) -> Iterator[tuple[str | None, tuple[int, ...]]]:
    """Who claimed what in lines that are deleted; None is everybody."""
    for line in kept:
        try:
            yield line.user, _decoder.decode(line.body).columns
        except msgspec.DecodeError as error:
            message = f"what is kept of deleted lines cannot be read ({error}); restore the store from a backup"
            raise StoreDamaged(message) from error
