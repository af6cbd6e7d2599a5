"""Claims: which people had which attribute and context values, as far as the lines that show it were deleted.

A person claims a value of a user attribute or of a context if one of the person's lines contains it. An erasure releases the
values that no remaining person claims. When compaction deletes lines, the store keeps their claims on values that are in the
vocabulary, as digests of field and value. Digests are kept and not columns, because a value may get another column and a
column another value. A value that more than `FEW` people claimed belongs to everybody from then on and is never released.

A session that was merged into a user claims under its own id. When the line of the merge is deleted, the store keeps a
digest of the session's id with the user.
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
"""The largest number of people remembered per value. A value with more identifies no person, and is never released."""
MOST_KNOWN = 100_000
"""The largest number of looked-up values that are cached; the cache is cleared beyond it, as a field may be all unique."""


class Claimed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form of the claims of one person, or of everybody, in deleted lines."""

    values: tuple[int, ...] = ()
    """Digests of fields and values."""
    columns: tuple[int, ...] = ()
    """The columns that the values had when the lines were deleted, which older releases kept in place of digests."""
    sessions: tuple[int, ...] = ()
    """Digests of the ids of sessions that were merged into the person and have claims of their own."""


_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Claimed)


def digest(inspection: Inspection, value: FieldValue) -> int:
    """Return a 64-bit digest of a field's name and a value, which does not depend on their numbers in the vocabulary."""
    field, own = inspection.field_name(value[0]).encode(), value[1].encode()
    whole = blake2b(len(field).to_bytes(4, "little") + field + own, digest_size=8, person=b"claims")
    return int.from_bytes(whole.digest(), "little")


def session_digest(session: str) -> int:
    """Return a 64-bit digest of a session's id."""
    return int.from_bytes(blake2b(session.encode(), digest_size=8, person=b"sessions").digest(), "little")


class Said:
    """A reader of the values in log lines, with a cache for values that recur."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], list[FieldValue]] = {}

    def values(self, inspection: Inspection, record: Record) -> tuple[str, list[FieldValue]] | None:
        """Return the person of a line and the values that the line claims, or None if the line has no claims."""
        claims = record.claims()
        if claims is None:
            return None
        values = list[FieldValue]()
        for name, raw in claims.given.items():
            values += self._values(inspection, claims.side, name, raw)
        return claims.person, values

    def _values(self, inspection: Inspection, side: str, name: str, raw: Any) -> list[FieldValue]:
        if type(raw) is not str:  # lists are not hashable, and rarely recur
            return inspection.values_of(side, {name: raw})
        found = self._known.get((side, name, raw))
        if found is None:
            if len(self._known) == MOST_KNOWN:
                self._known.clear()
            found = self._known[side, name, raw] = inspection.values_of(side, {name: raw})
        return found


class Claims:
    """The claims of deleted lines: those kept so far, and those of the lines about to be deleted."""

    def __init__(self, kept: Iterable[LogLine]) -> None:
        self._people: dict[int, set[str]] = {}
        self._everybodys: set[int] = set()
        self._new: dict[str | None, set[int]] = {}
        self._new_sessions: dict[str, set[int]] = {}
        self._named = set[str]()  # people of whom a claim is kept
        for claim in claimed(kept):
            if claim.person is not None:
                self._named.add(claim.person)
            for value in claim.values:
                self._add(claim.person, value)

    def add(self, person: str, values: Iterable[int]) -> None:
        """Add the claims of a person's line, given the digests of its values."""
        for value in values:
            if value in self._everybodys or person in self._people.get(value, ()):
                continue
            self._add(person, value)
            owner = None if value in self._everybodys else person
            self._new.setdefault(owner, set()).add(value)
            if owner is not None:
                self._named.add(owner)

    def fold(self, session: str, user: str) -> None:
        """Add the merge of a session into a user. It is kept only if claims of the session are kept."""
        if session in self._named:
            self._new_sessions.setdefault(user, set()).add(session_digest(session))
            self._named.add(user)

    def new(self) -> list[LogLine]:
        """Return what the store must keep of the lines added since the last call."""
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
    """What one person claimed in deleted lines, or everybody where `person` is None; see `Claimed` for the fields."""

    person: str | None
    values: tuple[int, ...]
    columns: tuple[int, ...]
    sessions: tuple[int, ...] = ()


def claimed(kept: Iterable[LogLine]) -> Iterator[Claim]:
    """Yield the claims that the store kept of deleted lines. Raises `StoreDamaged` for one that cannot be read."""
    for line in kept:
        try:
            own = _decoder.decode(line.body)
        except msgspec.DecodeError as error:
            message = f"what is kept of deleted lines cannot be read ({error}); restore the store from a backup"
            raise StoreDamaged(message) from error
        yield Claim(line.user, own.values, own.columns, own.sessions)
