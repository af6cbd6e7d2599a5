"""The right to write in PostgreSQL: SQL queries for the writer's lock, epoch and heartbeat.

The right to write is an advisory lock held by a session, and an epoch that rises whenever a process takes the right. Every
append compares the epoch in its own transaction. So a process that was paused or cut off from the network, and returns after
another process took its place, can write nothing, even if it believes that it still holds the lock.
"""

from typing import LiteralString

from psycopg import Connection, errors

from coldstream.storage.sharing import News

TABLE = """
CREATE TABLE IF NOT EXISTS coldstream_writer (epoch bigint NOT NULL, address text, beat bigint NOT NULL);
"""
WRITER, DUTY = 0x636F6C64, 0x636F6C65
"""The class ids of two advisory locks: of the writer, and of the follower that takes snapshots.

The object id is the schema.
"""

CHANNEL = "coldstream"

LONGEST_LOCK, LONGEST_IDLE = 500, 2000
"""Milliseconds to wait for a row lock that an unresponsive writer may hold, and for which a transaction may stay idle."""

_SCHEMA: LiteralString = "hashtext(coalesce(current_schema(), ''))"
# The object id of a lock is unsigned, but a hash is signed.
_HOLDER: LiteralString = (
    "FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted "  # noqa: S608
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    f"AND classid::bigint = %s AND objid::bigint = ({_SCHEMA}::bigint & 4294967295)"
)


def channel(connection: Connection) -> str:
    """Return the name of the channel on which new lines of the schema are notified."""
    ((name,),) = connection.execute(f"SELECT '{CHANNEL}_' || ({_SCHEMA}::bigint & 4294967295)")
    return str(name)


def try_lock(connection: Connection, which: int) -> bool:
    """Try to acquire an advisory lock of the schema, without waiting. The lock ends with the connection."""
    ((held,),) = connection.execute(f"SELECT pg_try_advisory_lock(%s, {_SCHEMA})", (which,))
    return bool(held)


def unlock(connection: Connection, which: int) -> None:
    """Release an advisory lock of the schema."""
    connection.execute(f"SELECT pg_advisory_unlock(%s, {_SCHEMA})", (which,))


def claim(connection: Connection) -> int:
    """Begin a new epoch and return it. Writers of earlier epochs can append nothing from then on."""
    with connection.transaction():
        ((epoch,),) = connection.execute("UPDATE coldstream_meta SET epoch = epoch + 1 RETURNING epoch")
        connection.execute("DELETE FROM coldstream_writer")
        connection.execute("INSERT INTO coldstream_writer VALUES (%s, NULL, 0)", (epoch,))
    return int(epoch)


def announce(connection: Connection, epoch: int, address: str | None) -> None:
    """Publish the address of the writer of an epoch, and notify listeners; None if the writer no longer accepts writes."""
    query = "UPDATE coldstream_writer SET address = %s WHERE epoch = %s RETURNING pg_notify(%s, '')"
    connection.execute(query, (address, epoch, channel(connection)))


def beat(connection: Connection, epoch: int) -> bool:
    """Send a heartbeat of the writer of an epoch; return False if that epoch has ended."""
    return connection.execute("UPDATE coldstream_writer SET beat = beat + 1 WHERE epoch = %s", (epoch,)).rowcount == 1


def unseat(connection: Connection, epoch: int) -> bool:
    """End the epoch and the session of an unresponsive writer.

    Return False if another epoch has begun already, or if this role may not end the writer's session.
    """
    try:
        ended = _end(connection, epoch)
    except errors.LockNotAvailable:  # the writer was stopped inside a transaction, which will never end by itself
        _end_session(connection)
        ended = _end(connection, epoch)
    return ended and _end_session(connection)


def _end(connection: Connection, epoch: int) -> bool:
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = {LONGEST_LOCK}")
        ended = connection.execute("UPDATE coldstream_meta SET epoch = epoch + 1 WHERE epoch = %s", (epoch,)).rowcount == 1
        if ended:
            connection.execute("DELETE FROM coldstream_writer")
        return ended


def _end_session(connection: Connection) -> bool:
    """End the session that holds the right to write; return False if this role may not end it."""
    try:
        connection.execute(f"SELECT pg_terminate_backend(pid, {LONGEST_LOCK}) {_HOLDER}", (WRITER,))
    except errors.InsufficientPrivilege:  # another role owns the session: its lock stays, although its epoch has ended
        return False
    return True


def let_nothing_hang(connection: Connection) -> None:
    """Have the server end transactions that their client leaves idle, because others wait for their locks."""
    connection.execute(f"SET idle_in_transaction_session_timeout = {LONGEST_IDLE}")


def look(connection: Connection) -> News:
    """Return the writer's epoch, address and heartbeat, and the bounds of the log."""
    query = (
        "SELECT meta.epoch, meta.last, meta.base, writer.address, coalesce(writer.beat, 0), "  # noqa: S608
        f"EXISTS (SELECT {_HOLDER}), EXISTS (SELECT {_HOLDER}) "
        "FROM coldstream_meta AS meta LEFT JOIN coldstream_writer AS writer ON writer.epoch = meta.epoch"
    )
    ((epoch, last, base, address, beat, held, followed),) = connection.execute(query, (WRITER, DUTY))
    return News(epoch, last, base, address, beat, held, followed)
