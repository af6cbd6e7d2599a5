"""Conversion of new log lines into rows of the databases."""

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import NamedTuple

from coldstream.errors import StoreDamaged, StoreMovedOn
from coldstream.storage.checksums import Bounds, Row, checksum, salts
from coldstream.storage.store import LogLine


class Numbered(NamedTuple):
    """Rows to insert, with the positions and the bounds that result from them."""

    rows: list[Row]
    positions: list[int | None]
    """The position of each line; None for a line whose event id the log already has."""
    bounds: Bounds
    """The bounds of the log after the rows are inserted."""


def digests(lines: Sequence[LogLine]) -> list[bytes | None]:
    """Return the digest of each line's event id, or None where a line has none.

    The digest is stored instead of the id. It has the same length for every id, and keeps the ids themselves out of the
    index.
    """
    return [None if line.event_id is None else blake2b(line.event_id.encode(), digest_size=16).digest() for line in lines]


def check_continues(bounds: Bounds, after: int) -> None:
    """Raise unless the log ends at the position `after`, where the caller expects it to end.

    Raises `StoreMovedOn` if the log is longer, and `StoreDamaged` if it is shorter.
    """
    if bounds.last > after:
        message = f"the log goes on to line {bounds.last}, and line {after} is the last that is known"
        raise StoreMovedOn(f"{message}; another process wrote to it, so read what it wrote first")
    if bounds.last < after:
        message = f"the log ends at line {bounds.last}, and line {after} was acknowledged"
        raise StoreDamaged(f"{message}; lines were lost, or this is an older copy: restore the newer one")


def check_knows_erased(base: int, position: int) -> None:
    """Raise `StoreMovedOn` for a snapshot at a position before the base: it may still hold erased users."""
    if position < base:
        message = f"a snapshot of line {position} may know people who were erased up to line {base}"
        raise StoreMovedOn(f"{message}; another process erased or deleted lines, so read what it wrote first")


def numbered(lines: Sequence[LogLine], events: Sequence[bytes | None], known: Collection[bytes], bounds: Bounds) -> Numbered:
    """Return the rows to append after the last position, without events whose id is known or repeated.

    >>> lines = [LogLine(b"1"), LogLine(b"2"), LogLine(b"3")]
    >>> new = numbered(lines, [b"old", b"new", b"new"], [b"old"], Bounds(0, 7, 0))
    >>> [row.body for row in new.rows], new.positions, new.bounds.last
    ([b'2'], [None, 8, None], 8)
    """
    rows, positions, seen = list[Row](), list[int | None](), set(known)
    last, before = bounds.last, bounds.checksum
    for line, event, salt in zip(lines, events, salts(len(lines)), strict=True):
        if event in seen:
            positions.append(None)
            continue
        if event is not None:
            seen.add(event)
        last += 1
        person = None if line.user is None else line.user.encode()
        before = checksum(before, last, person, event, line.forgets, line.body, salt)
        rows.append(Row(last, person, event, line.forgets, line.body, salt, before))
        positions.append(last)
    return Numbered(rows, positions, bounds._replace(last=last, checksum=before))
