"""SQL queries of the log in SQLite.

log   position, person, event (the digest of its id), forgets, body, salt, checksum
meta  one row: base, last, checksum (of the last line), cut, seal (the checksum of these four)
mark  position, time: a time at which the log ended at that position
kept  person, body: lines kept for deleted ones

A purged line keeps its position and checksum, and NULL in all other columns. SQLite overwrites the bytes that such an update
frees (`secure_delete`). Deleting the row instead would make SQLite move other rows between pages, and leave copies of them
that a later purge does not find.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from coldstream.errors import InvalidInput, StoreDamaged
from coldstream.storage.checksums import (
    FIRST,
    REMEDY,
    Bounds,
    Row,
    check_bounds,
    checksum,
    salts,
    sealed,
    sealed_without_cut,
)
from coldstream.storage.log_pages import PAGE
from coldstream.storage.rows import Numbered, check_continues, digests, numbered
from coldstream.storage.store import LogLine

APPLICATION, VERSION = 0x636F6C64, 3

WITHOUT_CHECKSUMS, WITHOUT_CUT = 1, 2
"""Format versions of older releases, which `migrate` converts."""

_SCHEMA = (
    "CREATE TABLE log (position INTEGER PRIMARY KEY, person TEXT, event BLOB, forgets INTEGER, body BLOB, "
    "salt INTEGER, checksum INTEGER)",
    "CREATE UNIQUE INDEX log_event ON log (event) WHERE event IS NOT NULL",
    "CREATE INDEX log_forgets ON log (position) WHERE forgets",
    "CREATE TABLE meta (base INTEGER NOT NULL, last INTEGER NOT NULL, checksum INTEGER NOT NULL, cut INTEGER NOT NULL, "
    "seal INTEGER NOT NULL)",
    f"PRAGMA application_id = {APPLICATION}",
)
_SINCE_CUT = (
    "CREATE TABLE mark (position INTEGER PRIMARY KEY, time REAL NOT NULL)",
    "CREATE TABLE kept (number INTEGER PRIMARY KEY, person TEXT, body BLOB)",
    f"PRAGMA user_version = {VERSION}",
)
BLANK = "UPDATE log SET person = NULL, event = NULL, forgets = NULL, body = NULL, salt = NULL"
_INSERT = "INSERT INTO log VALUES (?, CAST(? AS TEXT), ?, ?, ?, ?, ?)"


def is_empty(connection: sqlite3.Connection) -> bool:
    """Return True if the database has no tables."""
    return _number(connection, "SELECT count(*) FROM sqlite_master") == 0


def create(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty log, within a transaction."""
    for statement in (*_SCHEMA, *_SINCE_CUT):
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES (0, 0, 0, 0, 0)")
    put_bounds(connection, Bounds(0, 0, FIRST))


def check(connection: sqlite3.Connection, folder: Path) -> None:
    """Raise `InvalidInput` if the database is not a log in the format of this release."""
    if _number(connection, "PRAGMA application_id") != APPLICATION:
        raise InvalidInput(f"store {str(folder)!r}: log.sqlite is no log of coldstream; choose another folder")
    version = _number(connection, "PRAGMA user_version")
    if version != VERSION:
        message = f"store {str(folder)!r} has format {version}, this release reads {VERSION}"
        converts = "start the service once, which converts it"
        raise InvalidInput(f"{message}; {converts if 0 < version < VERSION else 'use the release that wrote it'}")


def check_can_be_opened(connection: sqlite3.Connection, folder: Path) -> None:
    """Raise `InvalidInput` if the database is neither a log of this release nor one that `migrate` can convert."""
    if (
        _number(connection, "PRAGMA user_version") not in (WITHOUT_CHECKSUMS, WITHOUT_CUT)
        or _number(connection, "PRAGMA application_id") != APPLICATION
    ):
        check(connection, folder)


def migrate(connection: sqlite3.Connection) -> None:
    """Convert a log of an older release to the current format, within a transaction."""
    version = _number(connection, "PRAGMA user_version")
    if version == WITHOUT_CHECKSUMS:
        _give_checksums(connection)
    elif version == WITHOUT_CUT:
        _give_cut(connection)


def _give_cut(connection: sqlite3.Connection) -> None:
    ((*found, seal),) = connection.execute("SELECT base, last, checksum, seal FROM meta")
    before = check_bounds(Bounds(*found), seal, sealed_without_cut)
    connection.execute("DROP TABLE meta")
    connection.execute(_SCHEMA[-2])
    connection.execute("INSERT INTO meta VALUES (0, 0, 0, 0, 0)")
    for statement in _SINCE_CUT:
        connection.execute(statement)
    put_bounds(connection, before)


def _give_checksums(connection: sqlite3.Connection) -> None:
    """Copy the lines, in order, into a new table with checksums.

    Updating each row in place would make SQLite move rows and leave copies that no purge finds.
    """
    base = _number(connection, "SELECT base FROM meta")
    connection.execute("ALTER TABLE log RENAME TO old")
    for name in ("INDEX log_event", "INDEX log_forgets", "TABLE meta"):
        connection.execute(f"DROP {name}")
    create(connection)
    last, before = 0, FIRST
    old = connection.execute("SELECT position, CAST(person AS BLOB), event, forgets, body FROM old ORDER BY position")
    while rows := old.fetchmany(PAGE):
        summed = list[Row]()
        for (position, person, event, forgets, body), salt in zip(rows, salts(len(rows)), strict=True):
            if position != last + 1:
                raise StoreDamaged(f"line {last + 1} of the log is missing; {REMEDY}")
            last = position
            if body is None:
                summed.append(Row(position, None, None, None, None, None, before))
            else:
                before = checksum(before, position, person, event, forgets, body, salt)
                summed.append(Row(position, person, event, forgets, body, salt, before))
        connection.executemany(_INSERT, summed)
    connection.execute("DROP TABLE old")
    put_bounds(connection, Bounds(base, last, before))


def append(connection: sqlite3.Connection, lines: Sequence[LogLine], after: int) -> Numbered:
    """Append lines after the position `after`, within a transaction."""
    before = bounds(connection)
    check_continues(before, after)
    events = digests(lines)
    new = numbered(lines, events, _known(connection, events), before)
    connection.executemany(_INSERT, new.rows)
    if new.rows:
        put_bounds(connection, new.bounds)
    return new


def insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Insert rows unchanged, within a transaction."""
    connection.executemany(_INSERT, rows)


def begin_at(connection: sqlite3.Connection, own: Bounds, checksum: int) -> None:
    """Record the bounds of a log whose rows were inserted, and the checksum that its first row continues."""
    if own.cut:
        connection.execute("INSERT INTO log (position, checksum) VALUES (?, ?)", (own.cut, checksum))
    put_bounds(connection, own)


def page(connection: sqlite3.Connection, first: int, last: int) -> list[Row]:
    """Return the first rows, at most `PAGE`, from position `first` to position `last`, both included."""
    columns = "position, CAST(person AS BLOB), event, forgets, body, salt, checksum"
    query = f"SELECT {columns} FROM log WHERE position BETWEEN ? AND ? ORDER BY position LIMIT ?"  # noqa: S608
    return [Row(*row) for row in connection.execute(query, (first, last, PAGE))]


def has_lines(connection: sqlite3.Connection, user: str, after: int, until: int) -> bool:
    """Return True if a user has a line after `after`, up to and including `until`.

    All lines in between are scanned, because no index may contain user ids.
    """
    query = "SELECT 1 FROM log WHERE position > ? AND position <= ? AND person = CAST(? AS TEXT) LIMIT 1"
    return connection.execute(query, (after, until, user.encode())).fetchone() is not None


def bounds(connection: sqlite3.Connection) -> Bounds:
    """Return the bounds of the log; raises `StoreDamaged` if they are missing or do not match their checksum."""
    rows = connection.execute("SELECT base, last, checksum, cut, seal FROM meta").fetchall()
    if len(rows) != 1:
        raise StoreDamaged(f"log.sqlite does not say where the log begins and ends; {REMEDY}")
    *found, seal = rows[0]
    return check_bounds(Bounds(*found), seal)


def check_end(connection: sqlite3.Connection) -> None:
    """Raise `StoreDamaged` if the last line of the log is not the one that the bounds record."""
    (last,) = connection.execute("SELECT max(position) FROM log").fetchone()
    expected = bounds(connection)
    if (last or 0) != expected.last or not has(connection, expected):
        raise StoreDamaged(f"the log should end at line {expected.last}, and does not; {REMEDY}")


def has(connection: sqlite3.Connection, end: Bounds) -> bool:
    """Return True if the log contains the line that was its last one according to `end`, or if `end` is of an empty log."""
    query = "SELECT 1 FROM log WHERE position = ? AND checksum = ?"
    return end.last == 0 or connection.execute(query, (end.last, end.checksum)).fetchone() is not None


def forgotten(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the users whose purge is requested, in the order of the first request, each with the position of the last."""
    query = "SELECT person, max(position) FROM log WHERE forgets AND position > ? GROUP BY person ORDER BY min(position)"
    return dict(connection.execute(query, (bounds(connection).cut,)))


def raise_base(connection: sqlite3.Connection, base: int) -> Bounds:
    """Raise the base to a position, within a transaction, and return the new bounds. The base never falls."""
    before = bounds(connection)
    after = before._replace(base=max(before.base, base))
    put_bounds(connection, after)
    return after


def purge(connection: sqlite3.Connection, users: Mapping[str, int], first: int, last: int) -> None:
    """Blank the lines of users from one position to another, within a transaction.

    All of these lines are scanned, because no index may contain user ids.
    """
    connection.execute("CREATE TEMP TABLE purged (person TEXT PRIMARY KEY, until INTEGER) WITHOUT ROWID")
    connection.executemany("INSERT INTO purged VALUES (?, ?)", users.items())
    theirs = "position <= (SELECT until FROM purged WHERE purged.person = log.person)"
    connection.execute(f"{BLANK} WHERE position BETWEEN ? AND ? AND {theirs}", (first, last))
    connection.execute("DROP TABLE purged")


def damage(connection: sqlite3.Connection) -> str | None:
    """Return the first problem that SQLite's integrity check reports, or None."""
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    return None if found == "ok" else str(found)


def put_bounds(connection: sqlite3.Connection, new: Bounds) -> None:
    """Write the bounds of the log with their checksum, within a transaction."""
    query = "UPDATE meta SET base = ?, last = ?, checksum = ?, cut = ?, seal = ?"
    connection.execute(query, (*new, sealed(new)))


def _known(connection: sqlite3.Connection, events: Sequence[bytes | None]) -> list[bytes]:
    query = "SELECT 1 FROM log WHERE event = ?"
    return [event for event in events if event is not None and connection.execute(query, (event,)).fetchone()]


def _number(connection: sqlite3.Connection, query: str) -> int:
    (number,) = connection.execute(query).fetchone()
    assert isinstance(number, int)
    return number
