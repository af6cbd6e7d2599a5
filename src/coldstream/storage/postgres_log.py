"""The log and the snapshots in PostgreSQL: what is asked of a connection.

Names are kept as bytes of UTF-8, because a text in PostgreSQL cannot hold every character. The last position has a place of
its own, because the last line may be purged.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, LiteralString

from psycopg import Connection

from coldstream.errors import InvalidInput, InvalidSnapshot
from coldstream.storage.log_pages import PAGE
from coldstream.storage.rows import digests, numbered
from coldstream.storage.store import Entry, LogLine, Saved

VERSION = 1

CHUNK = 8 * 2**20
"""Bytes of a snapshot in one row."""

_SCHEMA = """
CREATE TABLE coldstream_meta (version integer NOT NULL, last bigint NOT NULL, base bigint NOT NULL);
CREATE TABLE coldstream_log (
    position bigint PRIMARY KEY, person bytea, event bytea, forgets boolean NOT NULL, body bytea NOT NULL
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


def exists(connection: Connection) -> bool:
    """Whether there is a store in the schema that the connection uses."""
    return bool(_value(connection, "SELECT to_regclass(quote_ident(current_schema()) || '.coldstream_meta') IS NOT NULL"))


def create(connection: Connection) -> None:
    """Make the tables, all or none."""
    with connection.transaction():
        connection.execute(_SCHEMA)
        connection.execute("INSERT INTO coldstream_meta VALUES (%s, 0, 0)", (VERSION,))


def check(connection: Connection) -> None:
    """Refuse the tables of another release."""
    version = _value(connection, "SELECT version FROM coldstream_meta")
    if version != VERSION:
        message = f"the store in PostgreSQL has format {version}, this release reads {VERSION}"
        raise InvalidInput(f"{message}; use the release that wrote it")


def append(connection: Connection, lines: Sequence[LogLine]) -> list[int | None]:
    """Write lines, in one statement after one question."""
    events = digests(lines)
    query = "SELECT last, ARRAY(SELECT event FROM coldstream_log WHERE event = ANY (%b::bytea[])) FROM coldstream_meta"
    asked = [event for event in events if event is not None]
    ((last, known),) = connection.execute(query, (asked,), binary=True)
    rows, positions = numbered(lines, events, known, last)
    if rows:
        connection.execute(
            """
            WITH written AS (
                INSERT INTO coldstream_log
                SELECT * FROM unnest(%b::bigint[], %b::bytea[], %b::bytea[], %b::boolean[], %b::bytea[])
            )
            UPDATE coldstream_meta SET last = %b
            """,
            (
                [row.position for row in rows],
                [None if row.person is None else row.person.encode() for row in rows],
                [row.event for row in rows],
                [row.forgets for row in rows],
                [row.body for row in rows],
                rows[-1].position,
            ),
        )
    return positions


def page(connection: Connection, after: int, last: int) -> list[Entry]:
    """The first lines between two positions."""
    query = "SELECT position, body FROM coldstream_log WHERE position > %b AND position <= %b ORDER BY position LIMIT %b"
    return [Entry(*row) for row in connection.execute(query, (after, last, PAGE), binary=True)]


def last(connection: Connection) -> int:
    """The last position that was ever given out."""
    return _value(connection, "SELECT last FROM coldstream_meta")


def forgotten(connection: Connection) -> dict[str, int]:
    """The users that lines ask to be purged, in the order of the first line that asks, with the last."""
    query = "SELECT person, max(position) FROM coldstream_log WHERE forgets GROUP BY person ORDER BY min(position)"
    return {person.decode(): position for person, position in connection.execute(query, binary=True)}


def purge(connection: Connection, users: Mapping[str, int], base: int) -> None:
    """Erase the lines of users. What PostgreSQL kept of them for others is cleared, not overwritten."""
    with connection.transaction():
        query = (
            "DELETE FROM coldstream_log USING unnest(%b::bytea[], %b::bigint[]) AS purged (person, until) "
            "WHERE coldstream_log.person = purged.person AND position <= until"
        )
        connection.execute(query, ([user.encode() for user in users], list(users.values())))
        connection.execute("UPDATE coldstream_meta SET base = greatest(base, %s)", (base,))
    connection.execute("VACUUM coldstream_log")


def base(connection: Connection) -> int:
    """Where a replay may begin."""
    return _value(connection, "SELECT base FROM coldstream_meta")


def save(connection: Connection, position: int, file: Path) -> Saved:
    """Write a snapshot, all or none."""
    with connection.transaction(), open(file, "rb") as content:
        number = _value(connection, "SELECT coalesce(max(number), 0) + 1 FROM coldstream_snapshot")
        connection.execute("INSERT INTO coldstream_snapshot VALUES (%s, %s)", (number, position))
        for part, chunk in enumerate(iter(lambda: content.read(CHUNK), b"")):
            connection.execute("INSERT INTO coldstream_snapshot_chunk VALUES (%b, %b, %b)", (number, part, chunk))
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
