"""Signals between processes on one PostgreSQL schema, over a connection that listens for notifications."""

import socket

from psycopg import Connection
from psycopg.sql import SQL, Identifier

from coldstream.storage.postgres import epoch as postgres_epoch
from coldstream.storage.postgres import log as postgres_log
from coldstream.storage.postgres.followed import PostgresFollowed
from coldstream.storage.postgres.session import Session
from coldstream.storage.postgres.store import PostgresStore
from coldstream.storage.sharing import News, Shared

PATIENCE = 0.3
"""Seconds to wait for the right to write in a process that could follow instead."""


class PostgresSharing:
    """A session separate from the store's, with short queries only. The locks that it holds end with its connection."""

    def __init__(self, url: str) -> None:
        self._duty = False
        self._session = Session(url, self._begin)

    def wait(self, seconds: float, /) -> int | None:
        with self._session.connection() as connection:
            heard = [note.payload for note in connection.notifies(timeout=seconds, stop_after=1)]
            heard += [note.payload for note in connection.notifies(timeout=0)]
        return max(int(payload or 0) for payload in heard) if heard else None

    def look(self) -> News:
        with self._session.connection() as connection:
            return postgres_epoch.look(connection)

    def beat(self, epoch: int, /) -> bool:
        with self._session.connection() as connection:
            return postgres_epoch.beat(connection, epoch)

    def announce(self, epoch: int, address: str | None, /) -> None:
        with self._session.connection() as connection:
            postgres_epoch.announce(connection, epoch, address)

    def unseat(self, epoch: int, /) -> bool:
        with self._session.connection() as connection:
            return postgres_epoch.unseat(connection, epoch)

    def take_duty(self) -> bool:
        with self._session.connection() as connection:
            self._duty = self._duty or postgres_epoch.try_lock(connection, postgres_epoch.DUTY)
        return self._duty

    def give_up_duty(self) -> None:
        with self._session.connection() as connection:
            if self._duty:
                self._duty = False
                postgres_epoch.unlock(connection, postgres_epoch.DUTY)

    def local_address(self) -> str:
        with self._session.connection() as connection:
            own = socket.socket(fileno=connection.fileno())
            try:
                name = own.getsockname()
            finally:
                own.detach()  # the connection still owns the descriptor
        return str(name[0]) if isinstance(name, tuple) else "127.0.0.1"

    def close(self) -> None:
        self._session.close()

    def _begin(self, connection: Connection) -> None:
        self._duty = False
        postgres_log.check(connection)
        postgres_epoch.let_nothing_hang(connection)
        connection.execute("SET synchronous_commit = off")  # heartbeats need not survive a crash of the server
        connection.execute(SQL("LISTEN {}").format(Identifier(postgres_epoch.channel(connection))))


def shared(url: str) -> Shared:
    """Return the constructors for a store that several processes share."""
    return Shared(
        lambda: PostgresStore(url, PATIENCE),
        lambda: PostgresFollowed(url),
        lambda: PostgresSharing(url),
        lambda: is_there(url),
    )


def is_there(url: str) -> bool:
    """Return True if a schema has a log with lines in the current format. A writer converts older formats first."""
    found = False

    def ask(connection: Connection) -> None:
        nonlocal found
        found = postgres_log.is_current(connection) and postgres_log.bounds(connection).last > 0

    session = Session(url, ask)
    try:
        with session.connection():
            return found
    finally:
        session.close()
