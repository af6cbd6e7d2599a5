"""The log in SQLite: what is asked of a connection.

log   position, person, event (the digest of its id), forgets, body
meta  one row: base

A line that is purged leaves its number, and NULL for everything else. SQLite clears what such an update frees. Deleting the
line would make it move others from page to page, and of these it leaves copies that a later purge does not find.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from coldstream.errors import InvalidInput
from coldstream.storage.log_pages import PAGE
from coldstream.storage.rows import digests, numbered
from coldstream.storage.store import Entry, LogLine

APPLICATION, VERSION = 0x636F6C64, 1

_SCHEMA = (
    "CREATE TABLE log (position INTEGER PRIMARY KEY, person TEXT, event BLOB, forgets INTEGER, body BLOB)",
    "CREATE UNIQUE INDEX log_event ON log (event) WHERE event IS NOT NULL",
    "CREATE INDEX log_forgets ON log (position) WHERE forgets",
    "CREATE TABLE meta (base INTEGER NOT NULL)",
    "INSERT INTO meta VALUES (0)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether nothing was ever made in the database."""
    return _number(connection, "SELECT count(*) FROM sqlite_master") == 0


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, within a transaction."""
    for statement in _SCHEMA:
        connection.execute(statement)


def check(connection: sqlite3.Connection, folder: Path) -> None:
    """Refuse a database that is not a log of this release."""
    if _number(connection, "PRAGMA application_id") != APPLICATION:
        raise InvalidInput(f"store {str(folder)!r}: log.sqlite is no log of coldstream; choose another folder")
    version = _number(connection, "PRAGMA user_version")
    if version != VERSION:
        message = f"store {str(folder)!r} has format {version}, this release reads {VERSION}"
        raise InvalidInput(f"{message}; use the release that wrote it")


def append(connection: sqlite3.Connection, lines: Sequence[LogLine]) -> list[int | None]:
    """Write lines, within a transaction."""
    events = digests(lines)
    rows, positions = numbered(lines, events, _known(connection, events), last(connection))
    connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
    return positions


def page(connection: sqlite3.Connection, after: int, last: int) -> list[Entry]:
    """The first lines between two positions."""
    query = "SELECT position, body FROM log WHERE position > ? AND position <= ? AND body NOT NULL ORDER BY position LIMIT ?"
    return [Entry(position, body) for position, body in connection.execute(query, (after, last, PAGE))]


def last(connection: sqlite3.Connection) -> int:
    """The last position; a purged line still has its number."""
    return _number(connection, "SELECT coalesce(max(position), 0) FROM log")


def forgotten(connection: sqlite3.Connection) -> dict[str, int]:
    """The users that lines ask to be purged, in the order of the first line that asks, with the last."""
    return dict(
        connection.execute("SELECT person, max(position) FROM log WHERE forgets GROUP BY person ORDER BY min(position)")
    )


def purge(connection: sqlite3.Connection, users: Mapping[str, int], base: int) -> None:
    """Erase the lines of users, within a transaction. They are looked for in all lines, so that no index has names."""
    connection.execute("CREATE TEMP TABLE purged (person TEXT PRIMARY KEY, until INTEGER) WITHOUT ROWID")
    connection.executemany("INSERT INTO purged VALUES (?, ?)", users.items())
    connection.execute(
        "UPDATE log SET person = NULL, event = NULL, forgets = NULL, body = NULL "
        "WHERE position <= (SELECT until FROM purged WHERE purged.person = log.person)"
    )
    connection.execute("DROP TABLE purged")
    connection.execute("UPDATE meta SET base = max(base, ?)", (base,))


def base(connection: sqlite3.Connection) -> int:
    """Where a replay may begin."""
    return _number(connection, "SELECT base FROM meta")


def _known(connection: sqlite3.Connection, events: Sequence[bytes | None]) -> list[bytes]:
    query = "SELECT 1 FROM log WHERE event = ?"
    return [event for event in events if event is not None and connection.execute(query, (event,)).fetchone()]


def _number(connection: sqlite3.Connection, query: str) -> int:
    (number,) = connection.execute(query).fetchone()
    assert isinstance(number, int)
    return number
