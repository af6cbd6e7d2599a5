"""The checksum chain of the log: each line's checksum covers the line before, so a changed, lost or moved line is detected.

CRC-32 detects every change of up to four consecutive bytes, and misses one in about four billion of all others. It uses no
secret, so it does not protect against deliberate forgery.

A purged line leaves its checksum, because the checksums of later lines are computed from it. Four random bytes (the salt)
enter the checksum and are purged with the line. So the checksum that is left does not reveal the content: for every possible
content there is a salt that gives the same checksum.
"""

import os
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple
from zlib import crc32

from coldstream.errors import StoreDamaged

FIRST = 0
"""The initial value of the chain, from which the checksum of the first line is computed."""

REMEDY = "restore the store from a backup"

_HEAD = struct.Struct("<qqqqBI")
_BOUNDS, _BOUNDS_WITHOUT_CUT = struct.Struct("<qqIq"), struct.Struct("<qqI")


class Row(NamedTuple):
    """A log line with its position, as the databases store it. A purged row keeps only its position and checksum."""

    position: int
    person: bytes | None
    event: bytes | None
    forgets: bool | None
    body: bytes | None
    salt: int | None
    checksum: int


class Bounds(NamedTuple):
    """The metadata that the databases keep of the log as a whole."""

    base: int
    """The earliest position from which a replay may start."""
    last: int
    """The highest position ever assigned."""
    checksum: int
    """The checksum of the last line."""
    cut: int = 0
    """The last line of those deleted, or about to be deleted, for their age. Its position and checksum stay."""


def salts(count: int) -> Iterator[int]:
    """Yield `count` random salts, one per line."""
    return (salt for (salt,) in struct.iter_unpack("<I", os.urandom(4 * count)))


def checksum(
    before: int, position: int, person: bytes | None, event: bytes | None, forgets: bool, body: bytes, salt: int
) -> int:
    """Return the checksum of a line that follows a line with the checksum `before`."""
    lengths = (-1 if part is None else len(part) for part in (person, event, body))
    found = crc32(_HEAD.pack(position, *lengths, forgets, salt), before)
    return crc32(body, crc32(event or b"", crc32(person or b"", found)))


def sealed(bounds: Bounds) -> int:
    """Return the checksum of the bounds themselves."""
    return crc32(_BOUNDS.pack(*bounds))


def sealed_without_cut(bounds: Bounds) -> int:
    """Return the checksum of bounds in format 2, which have no cut."""
    return crc32(_BOUNDS_WITHOUT_CUT.pack(*bounds[:3]))


def check_bounds(bounds: Bounds, seal: int, summed: Callable[[Bounds], int] = sealed) -> Bounds:
    """Return the bounds, or raise `StoreDamaged` if they do not match their checksum `seal`."""
    try:
        whole = summed(bounds) == seal
    except (struct.error, TypeError):  # a damaged number may be None, or out of range
        whole = False
    if not whole:
        raise StoreDamaged(f"where the log begins and ends was changed behind its back; {REMEDY}")
    return bounds


def check_row(row: Row, after: int, before: int) -> None:
    """Raise `StoreDamaged` unless a row directly follows the position `after`, whose checksum is `before`, and is intact."""
    if row.position != after + 1:
        raise StoreDamaged(f"line {after + 1} of the log is missing; {REMEDY}")
    _, person, event, forgets, body, salt, found = row
    if not _is_purged(row):
        try:
            whole = checksum(before, row.position, person, event, forgets, body, salt) == found  # type: ignore[arg-type]
        except (struct.error, TypeError):  # SQLite returns a value of another type where its type byte is damaged
            whole = False
        if not whole:
            message = f"line {row.position} of the log is not what was written, or the one before it is not"
            raise StoreDamaged(f"{message}; {REMEDY}")


def _is_purged(row: Row) -> bool:
    return row[1:-1] == (None,) * (len(row) - 2)
