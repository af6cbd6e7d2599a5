"""The checksum of every line, made from the one before: a line that was changed, lost or moved does not fit any more.

CRC-32 finds every change of up to four bytes in a row, and all but one in four thousand million others. It is no secret and
keeps nobody out who means to forge a log.

A line that is purged leaves its checksum, which those behind it were made from. So that nobody can find out with it what the
line said, four random bytes go into the checksum and are purged with the line: for every content there is a salt that leads
to the same checksum.
"""

import os
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple
from zlib import crc32

from coldstream.errors import StoreDamaged

FIRST = 0
"""What the first line's checksum is made from."""

REMEDY = "restore the store from a backup"

_HEAD = struct.Struct("<qqqqBI")
_BOUNDS, _BOUNDS_WITHOUT_CUT = struct.Struct("<qqIq"), struct.Struct("<qqI")


class Row(NamedTuple):
    """A line with its place in the log, as the databases keep it. Of a purged one, position and checksum are left."""

    position: int
    person: bytes | None
    event: bytes | None
    forgets: bool | None
    body: bytes | None
    salt: int | None
    checksum: int


class Bounds(NamedTuple):
    """What the databases keep of a log as a whole."""

    base: int
    """Where a replay may begin."""
    last: int
    """The last position that was ever given out."""
    checksum: int
    """The last line's."""
    cut: int = 0
    """The last line of those that are deleted, or about to be. Its number and its checksum stay."""


def salts(count: int) -> Iterator[int]:
    """As many salts as there are lines."""
    return (salt for (salt,) in struct.iter_unpack("<I", os.urandom(4 * count)))


def checksum(
    before: int, position: int, person: bytes | None, event: bytes | None, forgets: bool, body: bytes, salt: int
) -> int:
    """The checksum of a line behind one with the checksum `before`."""
    lengths = (-1 if part is None else len(part) for part in (person, event, body))
    found = crc32(_HEAD.pack(position, *lengths, forgets, salt), before)
    return crc32(body, crc32(event or b"", crc32(person or b"", found)))


def sealed(bounds: Bounds) -> int:
    """The checksum of the bounds themselves."""
    return crc32(_BOUNDS.pack(*bounds))


def sealed_without_cut(bounds: Bounds) -> int:
    """The checksum that format 2 has of its bounds, which know no cut."""
    return crc32(_BOUNDS_WITHOUT_CUT.pack(*bounds[:3]))


def check_bounds(bounds: Bounds, seal: int, summed: Callable[[Bounds], int] = sealed) -> Bounds:
    """The bounds, where they are what was written."""
    try:
        whole = summed(bounds) == seal
    except (struct.error, TypeError):  # a damaged number may be none, or too long
        whole = False
    if not whole:
        raise StoreDamaged(f"where the log begins and ends was changed behind its back; {REMEDY}")
    return bounds


def check_row(row: Row, after: int, before: int) -> None:
    """Refuse a line that is not the one behind the position `after`, whose checksum is `before`."""
    if row.position != after + 1:
        raise StoreDamaged(f"line {after + 1} of the log is missing; {REMEDY}")
    _, person, event, forgets, body, salt, found = row
    if not _is_purged(row):
        try:
            whole = checksum(before, row.position, person, event, forgets, body, salt) == found  # type: ignore[arg-type]
        except (struct.error, TypeError):  # SQLite gives whatever kind a damaged byte makes it take
            whole = False
        if not whole:
            message = f"line {row.position} of the log is not what was written, or the one before it is not"
            raise StoreDamaged(f"{message}; {REMEDY}")


def _is_purged(row: Row) -> bool:
    return row[1:-1] == (None,) * (len(row) - 2)
