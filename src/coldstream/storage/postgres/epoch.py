"""Whose turn it is to write, in PostgreSQL: what is asked of a connection.

The right to write is a lock that goes with its session, and an epoch that rises whenever somebody takes the right. Every
append compares the epoch in its own transaction. So a process that was stopped, or whose network was cut, and that comes
back when another has taken its place, writes nothing, whatever it believes of its lock.
"""

from typing import LiteralString

from psycopg import Connection, errors

from coldstream.storage.sharing import News

TABLE = """
CREATE TABLE IF NOT EXISTS coldstream_writer (epoch bigint NOT NULL, address text, beat bigint NOT NULL);
"""
WRITER, DUTY = 0x636F6C64, 0x636F6C65
"""The classes of two locks: of whoever writes, and of the follower that takes the snapshots. The object is the schema."""

CHANNEL = "coldstream"

LONGEST_LOCK, LONGEST_IDLE = 500, 2000
"""Milliseconds: to wait for a row that a writer without life may hold, and that a transaction may wait for its client."""

_SCHEMA: LiteralString = "hashtext(coalesce(current_schema(), ''))"
# An object of a lock is an unsigned number, and a hash has a sign.
_HOLDER: LiteralString = (
    "FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted "  # noqa: S608
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    f"AND classid::bigint = %s AND objid::bigint = ({_SCHEMA}::bigint & 4294967295)"
)


def channel(connection: Connection) -> str:
    """What new lines of the schema are told on."""
    ((name,),) = connection.execute(f"SELECT '{CHANNEL}_' || ({_SCHEMA}::bigint & 4294967295)")
    return str(name)


def try_lock(connection: Connection, which: int) -> bool:
    """Get a lock of the schema, if nobody has it. It goes with the connection."""
    ((held,),) = connection.execute(f"SELECT pg_try_advisory_lock(%s, {_SCHEMA})", (which,))
    return bool(held)


def unlock(connection: Connection, which: int) -> None:
    """Give a lock back."""
    connection.execute(f"SELECT pg_advisory_unlock(%s, {_SCHEMA})", (which,))


def claim(connection: Connection) -> int:
    """Begin an epoch of one's own. Whoever wrote before can append nothing any more."""
    with connection.transaction():
        ((epoch,),) = connection.execute("UPDATE coldstream_meta SET epoch = epoch + 1 RETURNING epoch")
        connection.execute("DELETE FROM coldstream_writer")
        connection.execute("INSERT INTO coldstream_writer VALUES (%s, NULL, 0)", (epoch,))
    return int(epoch)


def announce(connection: Connection, epoch: int, address: str | None) -> None:
    """Say where the writer of an epoch is reached; None where it takes nothing any more. Whoever listens hears of it."""
    query = "UPDATE coldstream_writer SET address = %s WHERE epoch = %s RETURNING pg_notify(%s, '')"
    connection.execute(query, (address, epoch, channel(connection)))


def beat(connection: Connection, epoch: int) -> bool:
    """Show that the writer of an epoch is alive; whether it is still its turn."""
    return connection.execute("UPDATE coldstream_writer SET beat = beat + 1 WHERE epoch = %s", (epoch,)).rowcount == 1


def unseat(connection: Connection, epoch: int) -> bool:
    """End the epoch of a writer that shows no life, and its session; whether it was that one's turn until now."""
    try:
        ended = _end(connection, epoch)
    except errors.LockNotAvailable:  # it was stopped in the midst of a transaction, which will not come to its end
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
    """End the session of whoever holds the right to write; whether that may be done."""
    try:
        connection.execute(f"SELECT pg_terminate_backend(pid, {LONGEST_LOCK}) {_HOLDER}", (WRITER,))
    except errors.InsufficientPrivilege:  # another role's: its lock stays, and its epoch is over all the same
        return False
    return True


def let_nothing_hang(connection: Connection) -> None:
    """Have the server end a transaction that its client does not go on with: others wait for what it has locked."""
    connection.execute(f"SET idle_in_transaction_session_timeout = {LONGEST_IDLE}")


def look(connection: Connection) -> News:
    """How the log and its writer stand."""
    query = (
        "SELECT meta.epoch, meta.last, meta.base, writer.address, coalesce(writer.beat, 0), "  # noqa: S608
        f"EXISTS (SELECT {_HOLDER}), EXISTS (SELECT {_HOLDER}) "
        "FROM coldstream_meta AS meta LEFT JOIN coldstream_writer AS writer ON writer.epoch = meta.epoch"
    )
    ((epoch, last, base, address, beat, held, followed),) = connection.execute(query, (WRITER, DUTY))
    return News(epoch, last, base, address, beat, held, followed)
