"""The store in PostgreSQL as a follower uses it: all of it is readable, and only snapshots are written."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from psycopg import Connection

from coldstream.errors import InvalidInput, StoreMovedOn
from coldstream.storage.postgres import log as postgres_log
from coldstream.storage.postgres.epoch import let_nothing_hang
from coldstream.storage.postgres.session import Session
from coldstream.storage.postgres.store import PostgresView
from coldstream.storage.store import Entry, LogLine, Saved


class PostgresFollowed:
    """A read-only view of the log, with writable snapshots. Several followers may save snapshots concurrently."""

    def __init__(self, url: str) -> None:
        self._session = Session(url, _begin_to_follow)
        self._view = PostgresView(self._session)
        self._newest = Saved(0, 0)

    def read(self, after: int, until: int | None = None, /) -> Iterator[Entry]:
        return self._view.read(after, until)

    def last(self) -> int:
        return self._view.last()

    def checksum(self, position: int, /) -> int | None:
        return self._view.checksum(position)

    def forgotten(self) -> dict[str, int]:
        return self._view.forgotten()

    def base(self) -> int:
        return self._view.base()

    def cut(self) -> int:
        return self._view.cut()

    def kept(self) -> list[LogLine]:
        return self._view.kept()

    def marks(self) -> list[tuple[int, float]]:
        return self._view.marks()

    def size(self) -> int:
        return self._view.size()

    def snapshots(self) -> list[Saved]:
        found = self._view.snapshots()
        self._newest = found[0] if found else Saved(0, 0)
        return found

    def opened(self, saved: Saved, /) -> AbstractContextManager[Path]:
        return self._view.opened(saved)

    def save(self, position: int, file: Path, /) -> Saved:
        """Move a finished snapshot file into the store, like `Store.save`.

        Raises `StoreMovedOn` also if another process saved a snapshot at a later position, or any snapshot since this
        process last called `snapshots`. So no older snapshot can follow those that replace all others after users were
        erased.
        """
        if position < self._newest.position:
            message = f"snapshot {self._newest.number} knows line {self._newest.position}, and this one line {position}"
            raise StoreMovedOn(f"{message}; it is not needed")
        with self._session.connection() as connection:
            saved = postgres_log.save(connection, position, file, self._newest.number + 1)
        self._newest = saved
        file.unlink()
        return saved

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


def _begin_to_follow(connection: Connection) -> None:
    if not postgres_log.exists(connection):
        raise InvalidInput("store: there is none in this PostgreSQL schema; start the service that is to write first")
    postgres_log.check(connection)
    let_nothing_hang(connection)
