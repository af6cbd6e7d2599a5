"""A PostgreSQL connection that reconnects by itself."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import LiteralString

import psycopg
from psycopg import Connection, errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from coldstream.errors import InvalidInput, StoreInUse, StoreUnavailable
from coldstream.storage.postgres.epoch import WRITER, try_lock

PATIENCE = 10.0
"""Seconds to wait for the right to write: the server may still be executing the last query of a killed process."""

_DEFAULTS: dict[str, str | int] = {
    "application_name": "coldstream",
    "connect_timeout": 5,
    # With these values, a server that disappears silently is detected after about ten seconds.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_UNAVAILABLE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.InternalError,
    errors.InsufficientPrivilege,
    errors.InvalidSchemaName,
    errors.UndefinedTable,
)


class Session:
    """A connection that is opened on first use, and dropped when it fails.

    `begin` is called first with every new connection.
    """

    def __init__(self, url: str, begin: Callable[[Connection], None]) -> None:
        self._parameters = _parameters(url)
        self._begin = begin
        self._connection: Connection | None = None

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yield the connection.

        If the server fails within the block, `StoreUnavailable` is raised and the next block reconnects.
        """
        try:
            if self._connection is None:
                self._connection = self._connected()
            yield self._connection
        except _UNAVAILABLE as error:
            self.close()
            message = f"store: PostgreSQL at {self._where()} does not do its work ({_said(error)})"
            message = f"{message}; what was acknowledged is safe: start it or correct that, and try again"
            raise StoreUnavailable(message) from error

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _connected(self) -> Connection:
        connection = psycopg.connect(autocommit=True, **self._parameters)  # type: ignore[arg-type]
        try:
            self._begin(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _where(self) -> str:
        host, port, database = (self._parameters.get(name, "") for name in ("host", "port", "dbname"))
        return f"{host or 'the default host'}{port and f':{port}'}/{database}"


def vacuum_in_steps(url: str, *tables: LiteralString) -> Iterator[None]:
    """Vacuum tables over a separate connection in a thread, yielding until it is done, so that the caller may go on."""
    outcome = list[BaseException]()

    def vacuum() -> None:
        session = Session(url, lambda _: None)
        try:
            with session.connection() as connection:
                for table in tables:
                    connection.execute(SQL("VACUUM {}").format(Identifier(table)))
        except StoreUnavailable as error:
            outcome.append(error)
        finally:
            session.close()

    thread = Thread(target=vacuum, daemon=True)
    thread.start()
    while thread.is_alive():
        yield
        thread.join(0.01)
    if outcome:
        raise outcome[0]


def hold(connection: Connection, patience: float | None = None) -> None:
    """Acquire the right to write to the connection's schema, waiting up to `patience` seconds (`PATIENCE` if None).

    Raises `StoreInUse` after that. The right ends with the connection.
    """
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    while not try_lock(connection, WRITER):
        if time.monotonic() > end:
            raise StoreInUse("store: another process writes to this PostgreSQL schema; stop it, or choose another database")
        time.sleep(0.05)


def _parameters(url: str) -> dict[str, str | int]:
    """Return the connection parameters of an address.

    An error message of libpq is withheld, because it may quote parts of a password as a host name.
    """
    try:
        given = {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.ProgrammingError:
        given = None
    if given is None or _is_torn(given):
        form = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        message = f"store: the address after postgresql:// cannot be read; write {form}"
        raise InvalidInput(f"{message}, and in a password %40 for @, %3A for :, %2F for /, %25 for %")
    return {**_DEFAULTS, **given}


def _is_torn(given: dict[str, str | int]) -> bool:
    """Return True if an address was split inside its password, at a character that should have been escaped."""
    host, port, database = (str(given.get(name, "")) for name in ("host", "port", "dbname"))
    return "@" in host or "@" in database or not f"0{port}".replace(",", "").isdigit()


def _said(error: psycopg.Error) -> str:
    """Return the first line of an error message. Details are left out, because they may contain values."""
    said = error.diag.message_primary or str(error) or type(error).__name__
    return said.splitlines()[0]
