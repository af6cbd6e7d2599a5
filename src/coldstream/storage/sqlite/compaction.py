"""Deletion of old log lines in SQLite.

The cut is recorded first, and no reader reads before it from then on. Then the lines are deleted in steps, and the file is
shortened. When SQLite deletes a row it moves neighbouring rows between pages, and leaves copies of them. So the last lines
before the cut are blanked in place first, and the very last ones stay blank: the rows that SQLite moves there are empty.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence

from coldstream.storage.sqlite import log as sqlite_log
from coldstream.storage.store import LogLine

MARGIN = 2000
"""Number of blank lines left before the cut, and of lines blanked before deletion; more lines than fit in a few pages."""

STEP = 1000
"""Number of lines deleted or scanned per transaction."""

PAGES = 100
"""Number of database pages returned to the disk per transaction."""


def cut_off(connection: sqlite3.Connection, position: int, kept: Sequence[LogLine]) -> None:
    """Record, within a transaction, that lines up to a position are to be deleted, and the lines kept for them."""
    before = sqlite_log.bounds(connection)
    assert before.cut <= position <= before.last
    sqlite_log.put_bounds(connection, before._replace(cut=position, base=max(before.base, position)))
    insert_kept(connection, kept)
    # The newest mark before the cut stays: it is the time at which the remaining log begins.
    connection.execute("DELETE FROM mark WHERE position < (SELECT max(position) FROM mark WHERE position <= ?)", (position,))


def deletions(connection: sqlite3.Connection) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the statements that delete the lines before the cut, one per transaction; none if nothing is left."""
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
    """Return the number of free pages that can be returned to the disk; 0 for a file made by an older release."""
    ((vacuums,),) = connection.execute("PRAGMA auto_vacuum").fetchall()
    ((free,),) = connection.execute("PRAGMA freelist_count").fetchall()
    return int(free) if vacuums else 0


def give_back(connection: sqlite3.Connection) -> None:
    """Return up to `PAGES` free pages to the disk, which shortens the file."""
    connection.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()


def unused(connection: sqlite3.Connection) -> int:
    """Return the number of bytes in free pages of the file, which new lines will reuse."""
    free, each = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size"))
    return int(free * each)


def kept(connection: sqlite3.Connection) -> list[LogLine]:
    """Return the lines kept for deleted ones."""
    query = "SELECT CAST(person AS BLOB), body FROM kept WHERE body IS NOT NULL ORDER BY number"
    return [LogLine(body, None if person is None else person.decode()) for person, body in connection.execute(query)]


def purge_kept(connection: sqlite3.Connection, users: Mapping[str, int]) -> None:
    """Erase the kept lines of users, within a transaction."""
    own = [(number,) for number, person in connection.execute("SELECT number, person FROM kept") if person in users]
    connection.executemany("UPDATE kept SET person = NULL, body = NULL WHERE number = ?", own)


def fill(connection: sqlite3.Connection, lines: Sequence[LogLine], own: Sequence[tuple[int, float]]) -> None:
    """Insert kept lines and marks exported from another store, within a transaction."""
    insert_kept(connection, lines)
    connection.executemany("INSERT INTO mark VALUES (?, ?)", own)


def insert_kept(connection: sqlite3.Connection, lines: Sequence[LogLine]) -> None:
    """Insert kept lines, within a transaction."""
    connection.executemany(
        "INSERT INTO kept (person, body) VALUES (CAST(? AS TEXT), ?)",
        ((None if line.user is None else line.user.encode(), line.body) for line in lines),
    )


def mark(connection: sqlite3.Connection, time: float) -> None:
    """Record a time for the current end of the log, within a transaction."""
    connection.execute("INSERT OR IGNORE INTO mark VALUES (?, ?)", (sqlite_log.bounds(connection).last, time))


def marks(connection: sqlite3.Connection) -> list[tuple[int, float]]:
    """Return all marks, ordered by position."""
    return [(int(position), float(time)) for position, time in connection.execute("SELECT * FROM mark ORDER BY position")]
