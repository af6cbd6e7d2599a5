"""Who had which values: what tells the values that nobody has any more, though lines that had them are deleted.

A value of a user's attribute or of a context is claimed by every person one of whose lines has it. Of lines that are
deleted, the store keeps who claimed what of the values that are known, as digests of field and value: a value may lose its
column and get another, and a column may come to stand for something else. A value that more than a few people claimed is
everybody's from then on.

A session that was folded into a user claims under its own name. Where the line that says so is deleted, the store keeps the
session with the user, as a digest too.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from coldstream.errors import StoreDamaged
from coldstream.lists.inspection import FieldValue, Inspection
from coldstream.runtime.records import Record
from coldstream.storage.store import LogLine

FEW = 8
"""People of whom each is remembered; a value of more than these tells nothing of anybody, and stays."""


MOST_KNOWN = 100_000
"""Values that are looked up once; those of a field in which every line says something new would fill the memory."""


class Claimed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a person's deleted lines, or of everybody's: digests of the values they had."""

    values: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    """What older releases kept instead: the columns that the values had when the lines were deleted."""
    sessions: tuple[int, ...] = ()
    """Digests of the sessions that were folded into the person and have claims of their own."""


_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Claimed)


def digest(inspection: Inspection, value: FieldValue) -> int:
    """64 bits that stand for a field and a value of it, whatever their numbers are."""
    field, own = inspection.field_name(value[0]).encode(), value[1].encode()
    whole = blake2b(len(field).to_bytes(4, "little") + field + own, digest_size=8, person=b"claims")
    return int.from_bytes(whole.digest(), "little")


def session_digest(session: str) -> int:
    """64 bits that stand for the id of a session."""
    return int.from_bytes(blake2b(session.encode(), digest_size=8, person=b"sessions").digest(), "little")


class Said:
    """Finds out which values a line says, and looks up once what is said again and again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], list[FieldValue]] = {}

    def values(self, inspection: Inspection, record: Record) -> tuple[str, list[FieldValue]] | None:
        """Who claims what with a line; None where it is no person's."""
        claims = record.claims()
        if claims is None:
            return None
        values = list[FieldValue]()
        for name, raw in claims.given.items():
            values += self._values(inspection, claims.side, name, raw)
        return claims.person, values

    def _values(self, inspection: Inspection, side: str, name: str, raw: Any) -> list[FieldValue]:
        if type(raw) is not str:  # lists have no hash, and are rarely the same
            return inspection.values_of(side, {name: raw})
        found = self._known.get((side, name, raw))
        if found is None:
            if len(self._known) == MOST_KNOWN:
                self._known.clear()
            found = self._known[side, name, raw] = inspection.values_of(side, {name: raw})
        return found


class Claims:
    """The claims of lines that are deleted."""

    def __init__(self, kept: Iterable[LogLine]) -> None:
        self._people: dict[int, set[str]] = {}
        self._everybodys: set[int] = set()
        self._new: dict[str | None, set[int]] = {}
        self._new_sessions: dict[str, set[int]] = {}
        self._named = set[str]()  # people of whom anything is kept
        for claim in claimed(kept):
            if claim.person is not None:
                self._named.add(claim.person)
            for value in claim.values:
                self._add(claim.person, value)

    def add(self, person: str, values: Iterable[int]) -> None:
        """One more line, with the digests of its values."""
        for value in values:
            if value in self._everybodys or person in self._people.get(value, ()):
                continue
            self._add(person, value)
            owner = None if value in self._everybodys else person
            self._new.setdefault(owner, set()).add(value)
            if owner is not None:
                self._named.add(owner)

    def fold(self, session: str, user: str) -> None:
        """A line that says that a session was folded into a user. It is kept where anything is kept of the session."""
        if session in self._named:
            self._new_sessions.setdefault(user, set()).add(session_digest(session))
            self._named.add(user)

    def new(self) -> list[LogLine]:
        """What the store is to keep of the lines that were added."""
        found, self._new = self._new, {}
        sessions, self._new_sessions = self._new_sessions, {}
        kept = [(person, Claimed(tuple(sorted(values)))) for person, values in found.items()]
        kept += [(person, Claimed(sessions=tuple(sorted(own)))) for person, own in sessions.items()]
        return [LogLine(_encoder.encode(own), person) for person, own in kept]

    def _add(self, person: str | None, value: int) -> None:
        people = self._people.setdefault(value, set())
        if person is not None:
            people.add(person)
        if person is None or len(people) > FEW:
            self._everybodys.add(value)
            del self._people[value]


class Claim(NamedTuple):
    """What a person claimed in lines that are deleted; None is everybody."""

    person: str | None
    values: tuple[int, ...]
    columns: tuple[int, ...]
    sessions: tuple[int, ...] = ()


def claimed(kept: Iterable[LogLine]) -> Iterator[Claim]:
    """Who claimed what in lines that are deleted."""
    for line in kept:
        try:
            own = _decoder.decode(line.body)
        except msgspec.DecodeError as error:
            message = f"what is kept of deleted lines cannot be read ({error}); restore the store from a backup"
            raise StoreDamaged(message) from error
        yield Claim(line.user, own.values, own.columns, own.sessions)
