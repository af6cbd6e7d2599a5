"""Deleting the beginning of a log in SQLite: what is asked of a connection.

First the cut is noted, and from then on nobody reads before it. Then lines are deleted, a step at a time, and the file is
made shorter. SQLite moves neighbours of a line that is deleted from page to page, and leaves copies of them. So the last
lines before the cut are blanked in place first, and the very last stay so: whatever is moved there has nothing in it.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence

from coldstream.storage.sqlite import log as sqlite_log
from coldstream.storage.store import LogLine

MARGIN = 2000
"""Blank lines that are left before the cut, and as many that are blanked before they are deleted: more than a few pages."""

STEP = 1000
"""Lines that are deleted, or looked at, in one transaction."""

PAGES = 100
"""Pages that are given back to the disk in one transaction."""


def cut_off(connection: sqlite3.Connection, position: int, kept: Sequence[LogLine]) -> None:
    """Note that lines up to a position are to be deleted, and what is kept of them, within a transaction."""
    before = sqlite_log.bounds(connection)
    assert before.cut <= position <= before.last
    sqlite_log.put_bounds(connection, before._replace(cut=position, base=max(before.base, position)))
    insert_kept(connection, kept)
    # The newest of the marks stays: time goes on from it.
    connection.execute("DELETE FROM mark WHERE position < (SELECT max(position) FROM mark WHERE position <= ?)", (position,))


def deletions(connection: sqlite3.Connection) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The statements that delete what lies before the cut, each for a transaction of its own; none if all is gone."""
    cut = sqlite_log.bounds(connection).cut
    (first,) = connection.execute("SELECT min(position) FROM log").fetchone()
    if first is None or first > cut:
        return
    (unblanked,) = connection.execute(
        "SELECT min(position) FROM log WHERE position BETWEEN ? AND ? AND body IS NOT NULL", (cut - 2 * MARGIN, cut)
    ).fetchone()
    if unblanked is not None:
        yield f"{sqlite_log.BLANK} WHERE position BETWEEN ? AND ?", (cut - 2 * MARGIN, cut)
    for until in range(first + STEP, cut - MARGIN + STEP, STEP):
        yield "DELETE FROM log WHERE position < ?", (min(until, cut - MARGIN),)


def free_pages(connection: sqlite3.Connection) -> int:
    """Pages of the file that hold nothing and can be given back; none where an older release made the file."""
    ((vacuums,),) = connection.execute("PRAGMA auto_vacuum").fetchall()
    ((free,),) = connection.execute("PRAGMA freelist_count").fetchall()
    return int(free) if vacuums else 0


def give_back(connection: sqlite3.Connection) -> None:
    """Make the file shorter by some of the pages that hold nothing."""
    connection.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()


def unused(connection: sqlite3.Connection) -> int:
    """Bytes of the file that hold nothing, and are there for new lines."""
    free, each = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size"))
    return int(free * each)


def kept(connection: sqlite3.Connection) -> list[LogLine]:
    """What is kept of lines that were deleted."""
    query = "SELECT CAST(person AS BLOB), body FROM kept WHERE body IS NOT NULL ORDER BY number"
    return [LogLine(body, None if person is None else person.decode()) for person, body in connection.execute(query)]


def purge_kept(connection: sqlite3.Connection, users: Mapping[str, int]) -> None:
    """Erase what is kept of users' lines, within a transaction."""
    own = [(number,) for number, person in connection.execute("SELECT number, person FROM kept") if person in users]
    connection.executemany("UPDATE kept SET person = NULL, body = NULL WHERE number = ?", own)


def fill(connection: sqlite3.Connection, lines: Sequence[LogLine], own: Sequence[tuple[int, float]]) -> None:
    """Write what another store kept, and its marks, within a transaction."""
    insert_kept(connection, lines)
    connection.executemany("INSERT INTO mark VALUES (?, ?)", own)


def insert_kept(connection: sqlite3.Connection, lines: Sequence[LogLine]) -> None:
    """Add to what is kept, within a transaction."""
    connection.executemany(
        "INSERT INTO kept (person, body) VALUES (CAST(? AS TEXT), ?)",
        ((None if line.user is None else line.user.encode(), line.body) for line in lines),
    )


def mark(connection: sqlite3.Connection, time: float) -> None:
    """Note when the log ended where it does, within a transaction."""
    connection.execute("INSERT OR IGNORE INTO mark VALUES (?, ?)", (sqlite_log.bounds(connection).last, time))


def marks(connection: sqlite3.Connection) -> list[tuple[int, float]]:
    """All marks, by position."""
    return [(int(position), float(time)) for position, time in connection.execute("SELECT * FROM mark ORDER BY position")]
