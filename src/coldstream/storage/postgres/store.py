"""The store in a PostgreSQL database, in the schema in which new tables are created."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from psycopg import Connection

from coldstream.errors import InvalidInput, StoreDamaged, StoreInUse
from coldstream.storage import log_pages
from coldstream.storage.checksums import FIRST, Bounds, Row
from coldstream.storage.disk import reported
from coldstream.storage.postgres import compaction as postgres_compaction
from coldstream.storage.postgres import epoch as postgres_epoch
from coldstream.storage.postgres import log as postgres_log
from coldstream.storage.postgres import migration as postgres_migration
from coldstream.storage.postgres.session import Session, hold, vacuum_in_steps
from coldstream.storage.store import Entry, LogLine, Saved


class PostgresStore:
    """The store of the one process that writes to a schema. The tables are created if they are missing.

    Each new connection waits up to `patience` seconds for the right to write, and begins an epoch.
    """

    def __init__(self, url: str, patience: float | None = None) -> None:
        self.epoch = 0
        """The epoch that this process began last. The process may have lost the right to write since."""
        self._patience, self._channel = patience, ""
        self._end = Bounds(0, 0, FIRST)
        self._url = url
        self._session = Session(url, self._begin_to_write)
        self._view = PostgresView(self._session)

    def append(self, lines: Sequence[LogLine], after: int, /) -> list[int | None]:
        with self._writing() as connection:
            new = postgres_log.append(connection, lines, after, self.epoch, self._channel)
        self._end = new.bounds
        return new.positions

    def touch(self) -> None:
        with self._writing() as connection:
            postgres_log.touch(connection, self.epoch)

    def read(self, after: int, until: int | None = None, /) -> Iterator[Entry]:
        return self._view.read(after, until)

    def has_lines(self, user: str, after: int, until: int, /) -> bool:
        with self._session.connection() as connection:
            return postgres_log.has_lines(connection, user, after, until)

    def last(self) -> int:
        return self._view.last()

    def checksum(self, position: int, /) -> int | None:
        return self._view.checksum(position)

    def forgotten(self) -> dict[str, int]:
        return self._view.forgotten()

    def purge(self, users: Mapping[str, int], base: int, /) -> None:
        for _ in self.purge_in_steps(users, base):
            pass

    def purge_in_steps(self, users: Mapping[str, int], base: int, /) -> Iterator[None]:
        with self._writing() as connection:
            postgres_compaction.purge_kept(connection, users)
            postgres_log.purge(connection, users, base, self.epoch)
        yield from vacuum_in_steps(self._url, "coldstream_log", "coldstream_kept")

    def base(self) -> int:
        return self._view.base()

    def cut_off(self, position: int, kept: Sequence[LogLine], /) -> None:
        with self._writing() as connection:
            postgres_compaction.cut_off(connection, position, kept, self.epoch)

    def clear_in_steps(self) -> Iterator[None]:
        deleted = False
        while self._delete_some():
            deleted = True
            yield
        if deleted:
            yield from vacuum_in_steps(self._url, "coldstream_log")

    def _delete_some(self) -> bool:
        with self._session.connection() as connection:
            return postgres_compaction.delete_some(connection)

    def cut(self) -> int:
        return self._view.cut()

    def kept(self) -> list[LogLine]:
        return self._view.kept()

    def mark(self, time: float, /) -> None:
        with self._session.connection() as connection:
            postgres_compaction.mark(connection, time)

    def marks(self) -> list[tuple[int, float]]:
        return self._view.marks()

    def size(self) -> int:
        return self._view.size()

    def trim(self) -> None:
        """Do nothing: the server reuses free space by itself."""

    def save(self, position: int, file: Path, /) -> Saved:
        with self._session.connection() as connection:
            saved = postgres_log.save(connection, position, file)
        file.unlink()
        return saved

    def snapshots(self) -> list[Saved]:
        return self._view.snapshots()

    def opened(self, saved: Saved, /) -> AbstractContextManager[Path]:
        return self._view.opened(saved)

    def discard(self, saved: Saved, /) -> None:
        with self._session.connection() as connection:
            postgres_log.discard(connection, saved)

    def log_name(self) -> str:
        return self._view.log_name()

    def snapshot_name(self, saved: Saved, /) -> str:
        return self._view.snapshot_name(saved)

    def check(self) -> None:
        self._view.check()

    def close(self) -> None:
        self._view.close()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._session.connection() as connection:
            try:
                yield connection
            except StoreInUse:
                self._session.close()  # the next call has to acquire the right again
                raise

    def _begin_to_write(self, connection: Connection) -> None:
        connection.execute("SET synchronous_commit = on")
        hold(connection, self._patience)
        if not postgres_log.exists(connection):
            postgres_log.create(connection)
        postgres_migration.migrate(connection)
        postgres_log.check(connection)
        postgres_epoch.let_nothing_hang(connection)
        postgres_log.check_end(connection)
        if not postgres_log.has(connection, self._end):
            message = f"the log in PostgreSQL does not have line {self._end.last} any more, which was acknowledged"
            raise StoreDamaged(f"{message}: this is another log, or an older copy; restore the newer one and restart")
        self._end = postgres_log.bounds(connection)
        self.epoch, self._channel = postgres_epoch.claim(connection), postgres_epoch.channel(connection)


class PostgresView:
    """A read-only view of the store over a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        with session.connection():  # connects now, so that an unusable address is refused early
            pass

    def read(self, after: int, until: int | None = None, /) -> Iterator[Entry]:
        return log_pages.lines(self._page, self._bounds, after, until)

    def last(self) -> int:
        return self._bounds().last

    def checksum(self, position: int, /) -> int | None:
        rows = self._page(position, position)
        return rows[0].checksum if rows else None

    def forgotten(self) -> dict[str, int]:
        with self._session.connection() as connection:
            return postgres_log.forgotten(connection)

    def base(self) -> int:
        return self._bounds().base

    def cut(self) -> int:
        return self._bounds().cut

    def kept(self) -> list[LogLine]:
        with self._session.connection() as connection:
            return postgres_compaction.kept(connection)

    def marks(self) -> list[tuple[int, float]]:
        with self._session.connection() as connection:
            return postgres_compaction.marks(connection)

    def size(self) -> int:
        with self._session.connection() as connection:
            return postgres_compaction.size(connection)

    def snapshots(self) -> list[Saved]:
        with self._session.connection() as connection:
            return postgres_log.snapshots(connection)

    @contextmanager
    def opened(self, saved: Saved, /) -> Iterator[Path]:
        # The file has no name, so nothing is left if the process is killed: a snapshot contains data of all users.
        with tempfile.TemporaryFile() as file:
            with reported(Path(tempfile.gettempdir())), self._session.connection() as connection:
                postgres_log.fetch(connection, saved, file)
                file.seek(0)
            yield Path(f"/dev/fd/{file.fileno()}")

    def log_name(self) -> str:
        return "the table coldstream_log in PostgreSQL"

    def snapshot_name(self, saved: Saved, /) -> str:
        return f"number {saved.number} in the table coldstream_snapshot"

    def check(self) -> None:
        with self._session.connection() as connection:
            postgres_log.check_end(connection)

    def close(self) -> None:
        self._session.close()

    def _bounds(self) -> Bounds:
        with self._session.connection() as connection:
            return postgres_log.bounds(connection)

    def _page(self, first: int, last: int) -> list[Row]:
        with self._session.connection() as connection:
            return postgres_log.page(connection, first, last)


def inspected(url: str) -> PostgresView:
    """Open a read-only view of the store, while another process may write to it."""
    return PostgresView(Session(url, begin_to_read))


def begin_to_read(connection: Connection) -> None:
    """Make a connection read-only; raises `InvalidInput` if its schema contains no store, or one of another format."""
    connection.execute("SET default_transaction_read_only = on")
    if not postgres_log.exists(connection):
        raise InvalidInput("store: there is none in this PostgreSQL schema; give the database of a store")
    postgres_log.check(connection)
