"""SQL queries of the log and the snapshots in PostgreSQL.

Names are stored as UTF-8 bytes, because a text in PostgreSQL cannot hold every character. A purged line keeps its position
and checksum.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, LiteralString

from psycopg import Connection, errors

from coldstream.errors import InvalidInput, InvalidSnapshot, StoreDamaged, StoreInUse, StoreMovedOn
from coldstream.storage.checksums import FIRST, REMEDY, Bounds, Row, check_bounds, sealed
from coldstream.storage.log_pages import PAGE
from coldstream.storage.postgres import epoch as postgres_epoch
from coldstream.storage.rows import Numbered, check_continues, check_knows_erased, digests, numbered
from coldstream.storage.store import LogLine, Saved

VERSION = 4

WITHOUT_CHECKSUMS, WITHOUT_CUT, WITHOUT_EPOCH = 1, 2, 3
"""Format versions of older releases, which `migration.migrate` converts."""

CHUNK = 8 * 2**20
"""Maximal bytes of a snapshot stored in one row."""

_SCHEMA = """
CREATE TABLE coldstream_meta (
    version integer NOT NULL, last bigint NOT NULL, base bigint NOT NULL, checksum bigint NOT NULL, seal bigint NOT NULL,
    cut bigint NOT NULL, epoch bigint NOT NULL
);
CREATE TABLE coldstream_log (
    position bigint PRIMARY KEY, person bytea, event bytea, forgets boolean, body bytea,
    salt bigint, checksum bigint NOT NULL
);
CREATE UNIQUE INDEX coldstream_log_event ON coldstream_log (event) WHERE event IS NOT NULL;
CREATE INDEX coldstream_log_person ON coldstream_log USING hash (person);
CREATE INDEX coldstream_log_forgets ON coldstream_log (position) WHERE forgets;
CREATE TABLE coldstream_snapshot (number bigint PRIMARY KEY, position bigint NOT NULL);
CREATE TABLE coldstream_snapshot_chunk (
    number bigint REFERENCES coldstream_snapshot ON DELETE CASCADE, part integer, content bytea NOT NULL,
    PRIMARY KEY (number, part)
);
ALTER TABLE coldstream_snapshot_chunk ALTER content SET STORAGE EXTERNAL;
"""
SINCE_CUT = """
CREATE TABLE coldstream_mark (position bigint PRIMARY KEY, time double precision NOT NULL);
CREATE TABLE coldstream_kept (person bytea, body bytea NOT NULL);
CREATE INDEX coldstream_kept_person ON coldstream_kept USING hash (person);
"""
BLANK = "UPDATE coldstream_log SET person = NULL, event = NULL, forgets = NULL, body = NULL, salt = NULL"


def exists(connection: Connection) -> bool:
    """Return True if the current schema of the connection contains a store."""
    return bool(_value(connection, "SELECT to_regclass(quote_ident(current_schema()) || '.coldstream_meta') IS NOT NULL"))


def is_current(connection: Connection) -> bool:
    """Return True if the schema contains a store in the format of this release."""
    return exists(connection) and _value(connection, "SELECT version FROM coldstream_meta") == VERSION


def create(connection: Connection) -> None:
    """Create the tables of an empty store, atomically."""
    with connection.transaction():
        connection.execute(_SCHEMA)
        connection.execute(SINCE_CUT)
        connection.execute(postgres_epoch.TABLE)
        begun = Bounds(0, 0, FIRST)
        columns = "version, base, last, checksum, cut, seal, epoch"
        query = f"INSERT INTO coldstream_meta ({columns}) VALUES (%s, %s, %s, %s, %s, %s, 0)"  # noqa: S608
        connection.execute(query, (VERSION, *begun, sealed(begun)))


def check(connection: Connection) -> None:
    """Raise `InvalidInput` if the tables have the format of another release."""
    version = _value(connection, "SELECT version FROM coldstream_meta")
    if version != VERSION:
        message = f"the store in PostgreSQL has format {version}, this release reads {VERSION}"
        converts = "start the service once, which converts it"
        raise InvalidInput(f"{message}; {converts if 0 < version < VERSION else 'use the release that wrote it'}")


def append(connection: Connection, lines: Sequence[LogLine], after: int, epoch: int, channel: str) -> Numbered:
    """Append lines after the position `after`, with one query and one statement, and notify listeners.

    The statement writes nothing if the log was extended since the query, or if another epoch has begun. Raises
    `StoreMovedOn` or `StoreInUse` then.
    """
    events = digests(lines)
    query = (
        "SELECT base, last, checksum, cut, seal, ARRAY(SELECT event FROM coldstream_log WHERE event = ANY (%b::bytea[])), "
        "epoch FROM coldstream_meta"
    )
    asked = [event for event in events if event is not None]
    ((*found, seal, known, current),) = connection.execute(query, (asked,), binary=True)
    _check_epoch(current, epoch)
    before = check_bounds(Bounds(*found), seal)
    check_continues(before, after)
    new = numbered(lines, events, known, before)
    if new.rows:
        written = connection.execute(
            """
            WITH moved AS (
                UPDATE coldstream_meta SET last = %b, checksum = %b, seal = %b
                WHERE (base, last, checksum, cut, epoch) = (%b, %b, %b, %b, %b)
                RETURNING pg_notify(%b::text, %b::text)
            )
            INSERT INTO coldstream_log
            SELECT line.* FROM moved, unnest(
                %b::bigint[], %b::bytea[], %b::bytea[], %b::boolean[], %b::bytea[], %b::bigint[], %b::bigint[]
            ) AS line
            """,
            (
                *(new.bounds.last, new.bounds.checksum, sealed(new.bounds)),
                *(*before, epoch, channel, str(new.bounds.last)),
                *map(list, zip(*new.rows, strict=True)),
            ),
        )
        if written.rowcount != len(new.rows):
            _check_epoch(_value(connection, "SELECT epoch FROM coldstream_meta"), epoch)
            raise StoreMovedOn(f"the log went on behind line {after} meanwhile; read what another process wrote first")
    return new


def touch(connection: Connection, epoch: int) -> None:
    """Rewrite existing metadata, to test writing in an epoch."""
    with connection.transaction():
        hold_epoch(connection, epoch)
        connection.execute("UPDATE coldstream_meta SET last = last")


def hold_epoch(connection: Connection, epoch: int) -> None:
    """Lock the metadata row until the transaction ends, so that no epoch begins and no line is appended.

    Raises `StoreInUse` if another epoch has begun.
    """
    _check_epoch(_value(connection, "SELECT epoch FROM coldstream_meta FOR UPDATE"), epoch)


def _check_epoch(current: int, own: int) -> None:
    """Raise `StoreInUse` if another process has begun an epoch."""
    if current != own:
        message = f"store: another process has taken the right to write (its epoch is {current}, this one's {own})"
        raise StoreInUse(f"{message}; nothing was written: send it to that one")


def insert(connection: Connection, rows: Sequence[Row]) -> None:
    """Insert rows unchanged."""
    own = [row._replace(forgets=None if row.forgets is None else bool(row.forgets)) for row in rows]
    query = (
        "INSERT INTO coldstream_log SELECT * FROM unnest("
        "%b::bigint[], %b::bytea[], %b::bytea[], %b::boolean[], %b::bytea[], %b::bigint[], %b::bigint[])"
    )
    connection.execute(query, tuple(map(list, zip(*own, strict=True))))


def begin_at(connection: Connection, own: Bounds, checksum: int) -> None:
    """Record the bounds of a log whose rows are inserted, and the checksum that its first row continues."""
    if own.cut:
        connection.execute("INSERT INTO coldstream_log (position, checksum) VALUES (%s, %s)", (own.cut, checksum))
    query = "UPDATE coldstream_meta SET base = %s, last = %s, checksum = %s, cut = %s, seal = %s"
    connection.execute(query, (*own, sealed(own)))


def page(connection: Connection, first: int, last: int) -> list[Row]:
    """Return the first rows, at most `PAGE`, from position `first` to position `last`, both included."""
    query = (
        "SELECT position, person, event, forgets, body, salt, checksum FROM coldstream_log "
        "WHERE position BETWEEN %b AND %b ORDER BY position LIMIT %b"
    )
    return [Row(*row) for row in connection.execute(query, (first, last, PAGE), binary=True)]


def has_lines(connection: Connection, user: str, after: int, until: int) -> bool:
    """Return True if a user has a line after `after`, up to and including `until`."""
    query = "SELECT 1 FROM coldstream_log WHERE person = %b AND position > %b AND position <= %b LIMIT 1"
    return connection.execute(query, (user.encode(), after, until)).fetchone() is not None


def bounds(connection: Connection) -> Bounds:
    """Return the bounds of the log; raises `StoreDamaged` if they do not match their checksum."""
    ((*found, seal),) = connection.execute("SELECT base, last, checksum, cut, seal FROM coldstream_meta")
    return check_bounds(Bounds(*found), seal)


def check_end(connection: Connection) -> None:
    """Raise `StoreDamaged` if the last line of the log is not the one that the bounds record."""
    # One query reads both, because the writer may append lines between two queries.
    query = "SELECT (SELECT max(position) FROM coldstream_log), base, last, checksum, cut, seal FROM coldstream_meta"
    ((last, *found, seal),) = connection.execute(query)
    expected = check_bounds(Bounds(*found), seal)
    if (last or 0) != expected.last or not has(connection, expected):
        raise StoreDamaged(f"the log in PostgreSQL should end at line {expected.last}, and does not; {REMEDY}")


def has(connection: Connection, end: Bounds) -> bool:
    """Return True if the log contains the line that was its last one according to `end`, or if `end` is of an empty log."""
    query = "SELECT 1 FROM coldstream_log WHERE position = %s AND checksum = %s"
    return end.last == 0 or connection.execute(query, (end.last, end.checksum)).fetchone() is not None


def forgotten(connection: Connection) -> dict[str, int]:
    """Return the users whose purge is requested, in the order of the first request, each with the position of the last."""
    query = (
        "SELECT person, max(position) FROM coldstream_log WHERE forgets AND position > (SELECT cut FROM coldstream_meta) "
        "GROUP BY person ORDER BY min(position)"
    )
    return {person.decode(): position for person, position in connection.execute(query, binary=True)}


def purge(connection: Connection, users: Mapping[str, int], base: int, epoch: int) -> None:
    """Blank the lines of users, atomically. PostgreSQL keeps the old row versions until the next vacuum."""
    assert max(users.values(), default=0) <= base
    with connection.transaction():
        query = (
            f"{BLANK} FROM unnest(%b::bytea[], %b::bigint[]) AS purged (person, until) "
            "WHERE coldstream_log.person = purged.person AND position <= until"
        )
        connection.execute(query, ([user.encode() for user in users], list(users.values())))
        hold_epoch(connection, epoch)
        before = bounds(connection)
        after = before._replace(base=max(before.base, base))
        connection.execute("UPDATE coldstream_meta SET base = %s, seal = %s", (after.base, sealed(after)))


def save(connection: Connection, position: int, file: Path, number: int | None = None) -> Saved:
    """Insert a snapshot, atomically, with the next number or with the given one.

    Raises `StoreMovedOn` if the number is taken, or if the position precedes the base.
    """
    try:
        with connection.transaction(), open(file, "rb") as content:
            if number is None:
                number = _value(connection, "SELECT coalesce(max(number), 0) + 1 FROM coldstream_snapshot")
            connection.execute("INSERT INTO coldstream_snapshot VALUES (%s, %s)", (number, position))
            for part, chunk in enumerate(iter(lambda: content.read(CHUNK), b"")):
                connection.execute("INSERT INTO coldstream_snapshot_chunk VALUES (%b, %b, %b)", (number, part, chunk))
            # The row lock comes last, so that writers wait only briefly: a rising base either precedes it, or sees the
            # snapshot.
            check_knows_erased(_value(connection, "SELECT base FROM coldstream_meta FOR SHARE"), position)
    except errors.UniqueViolation:
        message = f"another process saved snapshot {number} at the same time"
        raise StoreMovedOn(f"{message}; this one is not needed, or is tried again") from None
    return Saved(number, position)


def snapshots(connection: Connection) -> list[Saved]:
    """Return all snapshots, the newest first."""
    query = "SELECT number, position FROM coldstream_snapshot ORDER BY number DESC"
    return [Saved(*row) for row in connection.execute(query)]


def fetch(connection: Connection, saved: Saved, file: BinaryIO) -> None:
    """Write the content of a snapshot to a file; raises `InvalidSnapshot` if the snapshot no longer exists."""
    if saved not in snapshots(connection):
        raise InvalidSnapshot(f"snapshot {saved.number} is not there any more; use another one")
    for chunk in _chunks(connection, saved):
        file.write(chunk)


def discard(connection: Connection, saved: Saved) -> None:
    """Delete a snapshot."""
    connection.execute("DELETE FROM coldstream_snapshot WHERE number = %s", (saved.number,))


def _chunks(connection: Connection, saved: Saved) -> Iterator[bytes]:
    parts = connection.execute("SELECT part FROM coldstream_snapshot_chunk WHERE number = %s ORDER BY part", (saved.number,))
    for (part,) in parts.fetchall():
        query = "SELECT content FROM coldstream_snapshot_chunk WHERE number = %s AND part = %s"
        for (content,) in connection.execute(query, (saved.number, part), binary=True):
            yield content


def _value(connection: Connection, query: LiteralString) -> int:
    ((value,),) = connection.execute(query)
    assert isinstance(value, int)
    return value
