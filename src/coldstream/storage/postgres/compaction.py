"""Deletion of old log lines in PostgreSQL.

The cut is recorded first, and no reader reads before it from then on. Then the lines are deleted in steps. A vacuum makes
their space available for new lines; the file of the table does not become shorter.
"""

from collections.abc import Mapping, Sequence

from psycopg import Connection

from coldstream.storage.checksums import sealed
from coldstream.storage.postgres import log as postgres_log
from coldstream.storage.store import LogLine

STEP = 10_000
"""Number of lines deleted per transaction."""

_SAMPLE = 1000
_BESIDE = 100
"""Approximate bytes per line for index entries and the row header."""


def cut_off(connection: Connection, position: int, kept: Sequence[LogLine], epoch: int) -> None:
    """Record atomically that lines up to a position are to be deleted, and the lines kept for them."""
    with connection.transaction():
        postgres_log.hold_epoch(connection, epoch)
        before = postgres_log.bounds(connection)
        assert before.cut <= position <= before.last
        after = before._replace(cut=position, base=max(before.base, position))
        query = "UPDATE coldstream_meta SET base = %s, cut = %s, seal = %s"
        connection.execute(query, (after.base, after.cut, sealed(after)))
        insert_kept(connection, kept)
        # The newest mark before the cut stays: it is the time at which the remaining log begins.
        query = (
            "DELETE FROM coldstream_mark WHERE position < (SELECT max(position) FROM coldstream_mark WHERE position <= %s)"
        )
        connection.execute(query, (position,))
        # The line at the cut keeps its position and checksum, because the next line's checksum continues it.
        connection.execute(f"{postgres_log.BLANK} WHERE position = %s", (position,))


def delete_some(connection: Connection) -> bool:
    """Delete up to `STEP` lines before the cut; return False if there were none."""
    cut = postgres_log.bounds(connection).cut
    ((first,),) = connection.execute("SELECT min(position) FROM coldstream_log")
    if first is None or first >= cut:
        return False
    connection.execute("DELETE FROM coldstream_log WHERE position < %s", (min(first + STEP, cut),))
    return True


def size(connection: Connection) -> int:
    """Return the approximate bytes of lines and snapshots, estimated from the number and recent size of lines."""
    log = postgres_log.bounds(connection)
    query = (
        "SELECT coalesce(avg(pg_column_size(log.*)), 0)::float8 FROM "
        "(SELECT * FROM coldstream_log ORDER BY position DESC LIMIT %s) AS log"
    )
    ((each,),) = connection.execute(query, (_SAMPLE,))
    ((snapshots,),) = connection.execute("SELECT coalesce(sum(octet_length(content)), 0) FROM coldstream_snapshot_chunk")
    return int((log.last - log.cut) * (each + _BESIDE) + int(snapshots))


def kept(connection: Connection) -> list[LogLine]:
    """Return the lines kept for deleted ones."""
    rows = connection.execute("SELECT person, body FROM coldstream_kept", binary=True)
    return [LogLine(body, None if person is None else person.decode()) for person, body in rows]


def purge_kept(connection: Connection, users: Mapping[str, int]) -> None:
    """Erase the kept lines of users."""
    query = "DELETE FROM coldstream_kept WHERE person = ANY (%b::bytea[])"
    connection.execute(query, ([user.encode() for user in users],))


def fill(connection: Connection, lines: Sequence[LogLine], own: Sequence[tuple[int, float]]) -> None:
    """Insert kept lines and marks exported from another store."""
    insert_kept(connection, lines)
    query = "INSERT INTO coldstream_mark SELECT * FROM unnest(%b::bigint[], %b::float8[])"
    connection.execute(query, ([position for position, _ in own], [time for _, time in own]))


def insert_kept(connection: Connection, lines: Sequence[LogLine]) -> None:
    """Insert kept lines."""
    people = [None if line.user is None else line.user.encode() for line in lines]
    query = "INSERT INTO coldstream_kept SELECT * FROM unnest(%b::bytea[], %b::bytea[])"
    connection.execute(query, (people, [line.body for line in lines]))


def mark(connection: Connection, time: float) -> None:
    """Record a time for the current end of the log."""
    query = "INSERT INTO coldstream_mark SELECT last, %s FROM coldstream_meta ON CONFLICT DO NOTHING"
    connection.execute(query, (time,))


def marks(connection: Connection) -> list[tuple[int, float]]:
    """Return all marks, ordered by position."""
    query = "SELECT position, time FROM coldstream_mark ORDER BY position"
    return [(int(position), float(time)) for position, time in connection.execute(query)]
