"""Export of a store in PostgreSQL, and creation of a store in a schema from an export."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from psycopg import Connection, IsolationLevel

from coldstream.errors import InvalidInput
from coldstream.storage import log_pages
from coldstream.storage.checksums import FIRST, Row
from coldstream.storage.disk import reported
from coldstream.storage.export import Contents, Export
from coldstream.storage.postgres import compaction as postgres_compaction
from coldstream.storage.postgres import log as postgres_log
from coldstream.storage.postgres.session import Session, hold
from coldstream.storage.postgres.store import begin_to_read
from coldstream.storage.store import Saved


class PostgresExport:
    """A consistent export: one transaction that sees the store as it was when it began."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        bounds = postgres_log.bounds(connection)
        begins = postgres_log.page(connection, bounds.cut, bounds.cut)[0].checksum if bounds.cut else FIRST
        known = [saved for saved in postgres_log.snapshots(connection) if bounds.base <= saved.position <= bounds.last]
        kept, marks = postgres_compaction.kept(connection), postgres_compaction.marks(connection)
        self.contents = Contents(bounds, begins, kept, marks, known)

    def rows(self) -> Iterator[Row]:
        bounds = self.contents.bounds
        return log_pages.rows(lambda first, last: postgres_log.page(self._connection, first, last), bounds, bounds.cut)

    @contextmanager
    def opened(self, saved: Saved, /) -> Iterator[Path]:
        with tempfile.TemporaryFile() as file:
            with reported(Path(tempfile.gettempdir())):
                postgres_log.fetch(self._connection, saved, file)
                file.flush()
                file.seek(0)
            yield Path(f"/dev/fd/{file.fileno()}")


@contextmanager
def exported(url: str) -> Iterator[Export]:
    """Open a consistent export of the store, while its writer may go on."""
    session = Session(url, begin_to_read)
    try:
        with session.connection() as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            with connection.transaction():
                yield PostgresExport(connection)
    finally:
        session.close()


def filled(url: str, export: Export) -> None:
    """Create a store from an export, atomically, in a schema that has none."""
    session = Session(url, _check_empty)
    try:
        with session.connection() as connection:
            hold(connection)
            _check_empty(connection)
            with connection.transaction():
                _fill(connection, export)
    finally:
        session.close()


def _check_empty(connection: Connection) -> None:
    if postgres_log.exists(connection):
        raise InvalidInput("store: this PostgreSQL schema has one already; restore into another, or drop its tables")


def _fill(connection: Connection, export: Export) -> None:
    contents, rows = export.contents, export.rows()
    postgres_log.create(connection)
    postgres_log.begin_at(connection, contents.bounds, contents.begins)
    postgres_compaction.fill(connection, contents.kept, contents.marks)
    while some := list(islice(rows, log_pages.PAGE)):
        postgres_log.insert(connection, some)
    for saved in reversed(contents.snapshots):
        with export.opened(saved) as path:
            postgres_log.save(connection, saved.position, path)
