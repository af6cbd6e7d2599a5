"""What the databases keep of a line."""

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import NamedTuple

from coldstream.storage.store import LogLine


class Row(NamedTuple):
    """A line with its place in the log."""

    position: int
    person: str | None
    event: bytes | None
    forgets: bool
    body: bytes


def digests(lines: Sequence[LogLine]) -> list[bytes | None]:
    """The digest of each event id. It stands for the id: as short for every id, and in no index does an id leave a trace."""
    return [None if line.event_id is None else blake2b(line.event_id.encode(), digest_size=16).digest() for line in lines]


def numbered(
    lines: Sequence[LogLine], events: Sequence[bytes | None], known: Collection[bytes], last: int
) -> tuple[list[Row], list[int | None]]:
    """The rows to write behind the last position, and the position of every line: None for an event that is known.

    >>> rows, positions = numbered([LogLine(b"1"), LogLine(b"2"), LogLine(b"3")], [b"old", b"new", b"new"], [b"old"], 7)
    >>> [row.body for row in rows], positions
    ([b'2'], [None, 8, None])
    """
    rows, positions, seen = list[Row](), list[int | None](), set(known)
    for line, event in zip(lines, events, strict=True):
        if event in seen:
            positions.append(None)
            continue
        if event is not None:
            seen.add(event)
        last += 1
        rows.append(Row(last, line.user, event, line.forgets, line.body))
        positions.append(last)
    return rows, positions
