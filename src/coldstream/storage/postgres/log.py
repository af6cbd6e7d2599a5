"""The log and the snapshots in PostgreSQL: what is asked of a connection.

Names are kept as bytes of UTF-8, because a text in PostgreSQL cannot hold every character. A line that is purged leaves its
number and its checksum.
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
"""Formats of older releases."""

CHUNK = 8 * 2**20
"""Bytes of a snapshot in one row."""

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
    """Whether there is a store in the schema that the connection uses."""
    return bool(_value(connection, "SELECT to_regclass(quote_ident(current_schema()) || '.coldstream_meta') IS NOT NULL"))


def is_current(connection: Connection) -> bool:
    """Whether there is a store, of this release's format."""
    return exists(connection) and _value(connection, "SELECT version FROM coldstream_meta") == VERSION


def create(connection: Connection) -> None:
    """Make the tables, all or none."""
    with connection.transaction():
        connection.execute(_SCHEMA)
        connection.execute(SINCE_CUT)
        connection.execute(postgres_epoch.TABLE)
        begun = Bounds(0, 0, FIRST)
        columns = "version, base, last, checksum, cut, seal, epoch"
        query = f"INSERT INTO coldstream_meta ({columns}) VALUES (%s, %s, %s, %s, %s, %s, 0)"  # noqa: S608
        connection.execute(query, (VERSION, *begun, sealed(begun)))


def check(connection: Connection) -> None:
    """Refuse the tables of another release."""
    version = _value(connection, "SELECT version FROM coldstream_meta")
    if version != VERSION:
        message = f"the store in PostgreSQL has format {version}, this release reads {VERSION}"
        converts = "start the service once, which converts it"
        raise InvalidInput(f"{message}; {converts if 0 < version < VERSION else 'use the release that wrote it'}")


def append(connection: Connection, lines: Sequence[LogLine], after: int, epoch: int, channel: str) -> Numbered:
    """Write lines, in one statement after one question, and tell those who listen.

    The statement does nothing where the log has gone on since, or where another epoch has begun.
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
    """Write what is there already."""
    with connection.transaction():
        hold_epoch(connection, epoch)
        connection.execute("UPDATE coldstream_meta SET last = last")


def hold_epoch(connection: Connection, epoch: int) -> None:
    """Let no other epoch begin, and no line be written, until the transaction ends; refuse where another has begun."""
    _check_epoch(_value(connection, "SELECT epoch FROM coldstream_meta FOR UPDATE"), epoch)


def _check_epoch(current: int, own: int) -> None:
    """Refuse to write in another's epoch."""
    if current != own:
        message = f"store: another process has taken the right to write (its epoch is {current}, this one's {own})"
        raise StoreInUse(f"{message}; nothing was written: send it to that one")


def insert(connection: Connection, rows: Sequence[Row]) -> None:
    """Write rows as they are."""
    own = [row._replace(forgets=None if row.forgets is None else bool(row.forgets)) for row in rows]
    query = (
        "INSERT INTO coldstream_log SELECT * FROM unnest("
        "%b::bigint[], %b::bytea[], %b::bytea[], %b::boolean[], %b::bytea[], %b::bigint[], %b::bigint[])"
    )
    connection.execute(query, tuple(map(list, zip(*own, strict=True))))


def begin_at(connection: Connection, own: Bounds, checksum: int) -> None:
    """Say what holds of a log whose rows are inserted, and what checksum the first of them continues."""
    if own.cut:
        connection.execute("INSERT INTO coldstream_log (position, checksum) VALUES (%s, %s)", (own.cut, checksum))
    query = "UPDATE coldstream_meta SET base = %s, last = %s, checksum = %s, cut = %s, seal = %s"
    connection.execute(query, (*own, sealed(own)))


def page(connection: Connection, first: int, last: int) -> list[Row]:
    """The first rows from one position to another."""
    query = (
        "SELECT position, person, event, forgets, body, salt, checksum FROM coldstream_log "
        "WHERE position BETWEEN %b AND %b ORDER BY position LIMIT %b"
    )
    return [Row(*row) for row in connection.execute(query, (first, last, PAGE), binary=True)]


def has_lines(connection: Connection, user: str, after: int, until: int) -> bool:
    """Whether a line behind a position and up to another is a user's."""
    query = "SELECT 1 FROM coldstream_log WHERE person = %b AND position > %b AND position <= %b LIMIT 1"
    return connection.execute(query, (user.encode(), after, until)).fetchone() is not None


def bounds(connection: Connection) -> Bounds:
    """Where a replay may begin, and where the log ends."""
    ((*found, seal),) = connection.execute("SELECT base, last, checksum, cut, seal FROM coldstream_meta")
    return check_bounds(Bounds(*found), seal)


def check_end(connection: Connection) -> None:
    """Refuse a log whose last line is not the one that it should end with."""
    # Both are asked for at once: the writer may go on between two questions.
    query = "SELECT (SELECT max(position) FROM coldstream_log), base, last, checksum, cut, seal FROM coldstream_meta"
    ((last, *found, seal),) = connection.execute(query)
    expected = check_bounds(Bounds(*found), seal)
    if (last or 0) != expected.last or not has(connection, expected):
        raise StoreDamaged(f"the log in PostgreSQL should end at line {expected.last}, and does not; {REMEDY}")


def has(connection: Connection, end: Bounds) -> bool:
    """Whether the log has the line that it ended with once."""
    query = "SELECT 1 FROM coldstream_log WHERE position = %s AND checksum = %s"
    return end.last == 0 or connection.execute(query, (end.last, end.checksum)).fetchone() is not None


def forgotten(connection: Connection) -> dict[str, int]:
    """The users that lines ask to be purged, in the order of the first line that asks, with the last."""
    query = (
        "SELECT person, max(position) FROM coldstream_log WHERE forgets AND position > (SELECT cut FROM coldstream_meta) "
        "GROUP BY person ORDER BY min(position)"
    )
    return {person.decode(): position for person, position in connection.execute(query, binary=True)}


def purge(connection: Connection, users: Mapping[str, int], base: int, epoch: int) -> None:
    """Erase the lines of users, all or none. What PostgreSQL kept of them for others is there until the next vacuum."""
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
    """Write a snapshot, all or none: the next, or one that has to be the next by its number."""
    try:
        with connection.transaction(), open(file, "rb") as content:
            if number is None:
                number = _value(connection, "SELECT coalesce(max(number), 0) + 1 FROM coldstream_snapshot")
            connection.execute("INSERT INTO coldstream_snapshot VALUES (%s, %s)", (number, position))
            for part, chunk in enumerate(iter(lambda: content.read(CHUNK), b"")):
                connection.execute("INSERT INTO coldstream_snapshot_chunk VALUES (%b, %b, %b)", (number, part, chunk))
            # At the end, so that nobody who writes waits for long: a base that rises does so before this, or sees it.
            check_knows_erased(_value(connection, "SELECT base FROM coldstream_meta FOR SHARE"), position)
    except errors.UniqueViolation:
        message = f"another process saved snapshot {number} at the same time"
        raise StoreMovedOn(f"{message}; this one is not needed, or is tried again") from None
    return Saved(number, position)


def snapshots(connection: Connection) -> list[Saved]:
    """What there is, the newest first."""
    query = "SELECT number, position FROM coldstream_snapshot ORDER BY number DESC"
    return [Saved(*row) for row in connection.execute(query)]


def fetch(connection: Connection, saved: Saved, file: BinaryIO) -> None:
    """Write the content of a snapshot into a file."""
    if saved not in snapshots(connection):
        raise InvalidSnapshot(f"snapshot {saved.number} is not there any more; use another one")
    for chunk in _chunks(connection, saved):
        file.write(chunk)


def discard(connection: Connection, saved: Saved) -> None:
    """Erase a snapshot."""
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
