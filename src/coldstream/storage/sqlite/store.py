"""The store in a folder: a log in SQLite, with snapshots as files beside it."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from time import sleep

from coldstream.errors import InvalidInput, StoreDamaged, StoreFull, StoreUnavailable
from coldstream.storage import log_pages
from coldstream.storage.checksums import REMEDY, Bounds, Row
from coldstream.storage.disk import LOG, make_folder, reported
from coldstream.storage.rows import Numbered, check_knows_erased
from coldstream.storage.sqlite import compaction as sqlite_compaction
from coldstream.storage.sqlite import log as sqlite_log
from coldstream.storage.sqlite.folder_lock import FolderLock, noted_end
from coldstream.storage.sqlite.snapshot_files import SnapshotFiles
from coldstream.storage.store import Entry, LogLine, Saved

DATABASE = LOG

WAIT = 5.0
"""Seconds to wait for a reader that blocks a call."""

TRIES, PAUSE = 20, 0.05
"""Number of times that a purge checks whether readers are gone, and the pause between two checks in seconds."""

RESTART = "restart the service, which reads what there is"

_PRAGMAS = (
    "auto_vacuum = INCREMENTAL",  # takes effect only before the first page is written, so an existing file keeps its mode
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "temp_store = MEMORY",  # the ids of users to purge are written to no file
    "cache_size = -65536",  # in KiB; event ids come in random order, so their index should stay in memory
    "wal_autocheckpoint = 4000",  # in pages; a page that many commits change is written back only once
    "journal_size_limit = 16777216",  # in bytes, equal to those pages; the WAL outgrows it while a reader blocks checkpoints
)


class SqliteStore:
    """The store of the one process that writes to a folder. The folder is created if it is missing."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._unemptied: dict[str, int] = {}  # users whose lines are purged but may remain in the WAL
        self._view = SqliteView(self._folder, self._reading)
        self._snapshots = SnapshotFiles(self._folder / "snapshots")
        with reported(self._folder), ExitStack() as held:
            make_folder(self._folder / "snapshots")
            self._lock = FolderLock(self._folder)
            held.callback(self._lock.close)
            self._snapshots.clear()
            self._connection = held.enter_context(closing(_connected(self._folder)))
            self._open()
            self._end = self._found_end()
            self._files = {path: path.stat() for path in self._log_files() if path.exists()}
            self._held = held.pop_all()

    def append(self, lines: Sequence[LogLine], after: int, /) -> list[int | None]:
        self._leave_room()
        try:
            new = self._appended(lines, after)
        except StoreFull:
            if not self._shortened():
                raise
            new = self._appended(lines, after)
        self._end = new.bounds
        self._lock.note(new.bounds.last, new.bounds.checksum)
        return new.positions

    def _appended(self, lines: Sequence[LogLine], after: int) -> Numbered:
        with self.transaction():
            if not sqlite_log.has(self._connection, self._end):
                raise StoreDamaged(f"store {str(self._folder)!r}: log.sqlite was replaced by another log; {RESTART}")
            return sqlite_log.append(self._connection, lines, after)

    def touch(self) -> None:
        self._leave_room()
        with self.transaction():
            sqlite_log.put_bounds(self._connection, sqlite_log.bounds(self._connection))

    def read(self, after: int, until: int | None = None, /) -> Iterator[Entry]:
        return self._view.read(after, until)

    def has_lines(self, user: str, after: int, until: int, /) -> bool:
        with self._reading() as connection:
            return sqlite_log.has_lines(connection, user, after, until)

    def last(self) -> int:
        return self._view.last()

    def checksum(self, position: int, /) -> int | None:
        return self._view.checksum(position)

    def forgotten(self) -> dict[str, int]:
        return self._unemptied | self._view.forgotten()

    def purge(self, users: Mapping[str, int], base: int, /) -> None:
        for _ in self.purge_in_steps(users, base):
            pass

    def purge_in_steps(self, users: Mapping[str, int], base: int, /) -> Iterator[None]:
        until = max(users.values(), default=0)
        assert until <= base
        self._unemptied |= users
        with self.transaction():
            sqlite_compaction.purge_kept(self._connection, users)
            first = sqlite_log.raise_base(self._connection, base).cut + 1
        # Ascending order blanks the line that requests the purge last, so a process killed before leaves the request.
        for start in range(first, until + 1, sqlite_compaction.STEP):
            yield
            with self.transaction():
                sqlite_log.purge(self._connection, users, start, min(start + sqlite_compaction.STEP - 1, until))
        for _ in range(TRIES):
            yield
            with reported(self._folder):
                if self._emptied_at_once():
                    self._unemptied = {}
                    return
                sleep(PAUSE)  # pending writes run after this pause; waiting inside SQLite would block them
        message = f"store {str(self._folder)!r}: another program reads log.sqlite, so what was erased is still"
        raise StoreUnavailable(f"{message} in log.sqlite-wal; end that program, and purge again")

    def base(self) -> int:
        return self._view.base()

    def cut_off(self, position: int, kept: Sequence[LogLine], /) -> None:
        with self.transaction():
            sqlite_compaction.cut_off(self._connection, position, kept)

    def clear_in_steps(self) -> Iterator[None]:
        with self._reading() as connection:
            statements = list(sqlite_compaction.deletions(connection))
        for statement, values in statements:
            with self.transaction():
                self._connection.execute(statement, values)
            yield
        while True:
            with self._reading() as connection:
                if not sqlite_compaction.free_pages(connection):
                    break
                self._keep_claim()
                sqlite_compaction.give_back(connection)
            yield
        if statements:
            with self._reading():
                self._emptied_at_once()  # the checkpoint shortens the file, now or once no reader blocks it

    def cut(self) -> int:
        return self._view.cut()

    def kept(self) -> list[LogLine]:
        return self._view.kept()

    def mark(self, time: float, /) -> None:
        with self.transaction():
            sqlite_compaction.mark(self._connection, time)

    def marks(self) -> list[tuple[int, float]]:
        return self._view.marks()

    def size(self) -> int:
        return self._view.size()

    def trim(self) -> None:
        with self._reading():
            self._emptied_at_once()

    def save(self, position: int, file: Path, /) -> Saved:
        self._keep_claim()
        check_knows_erased(self.base(), position)
        return self._snapshots.save(position, file)

    def snapshots(self) -> list[Saved]:
        return self._view.snapshots()

    def opened(self, saved: Saved, /) -> AbstractContextManager[Path]:
        return self._view.opened(saved)

    def discard(self, saved: Saved, /) -> None:
        self._keep_claim()
        self._snapshots.discard(saved)

    def log_name(self) -> str:
        return self._view.log_name()

    def snapshot_name(self, saved: Saved, /) -> str:
        return self._view.snapshot_name(saved)

    def check(self) -> None:
        self._view.check()

    def close(self) -> None:
        with reported(self._folder):
            self._held.close()

    def _open(self) -> None:
        begun = not sqlite_log.is_empty(self._connection)
        if begun:
            sqlite_log.check_can_be_opened(self._connection, self._folder)
        for pragma in _PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        with _transaction(self._connection):
            if begun:
                sqlite_log.migrate(self._connection)
            else:
                sqlite_log.create(self._connection)
        # A process may have been killed after a purge, while the WAL still contained the purged lines.
        self._owed = True  # on a full disk the checkpoint is retried before the next write
        with suppress(StoreFull), reported(self._folder):
            self._owed = not self._emptied()

    def _found_end(self) -> Bounds:
        """Return the bounds of the log; raises `StoreDamaged` if it ends before the line recorded in the lock file."""
        sqlite_log.check_end(self._connection)
        return _check_noted(self._connection, self._folder, self._lock.noted())

    def _log_files(self) -> tuple[Path, ...]:
        return _log_files(self._folder)

    def _keep_claim(self) -> None:
        """Raise unless the files are still those that were opened, and this process still holds the lock of the folder."""
        with reported(self._folder):
            for path, opened in self._files.items():
                if not path.exists() or not os.path.samestat(path.stat(), opened):
                    message = f"store {str(self._folder)!r}: {path.name} was deleted or replaced while it was written to"
                    raise StoreDamaged(f"{message}; {RESTART}")
            self._lock.keep()

    def _emptied(self) -> bool:
        """Write the WAL back and truncate it, so that it holds no old page versions; return False if a reader blocks it."""
        busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def _emptied_at_once(self) -> bool:
        """Like `_emptied`, but without waiting for readers."""
        ((patience,),) = self._connection.execute("PRAGMA busy_timeout").fetchall()
        self._connection.execute("PRAGMA busy_timeout = 0")
        try:
            return self._emptied()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {patience}")

    def _leave_room(self) -> None:
        """Write the WAL back while there is room for it: on a full disk it could be neither written back nor truncated."""
        with reported(self._folder):
            disk = os.statvfs(self._folder)
            if self._owed or disk.f_bavail * disk.f_frsize < 2 * _bytes(self._log_files()[1]):
                self._shortened()

    def _shortened(self) -> bool:
        """Try to truncate the WAL, and return True if it became smaller. On a full disk this may fail."""
        wal = self._log_files()[1]
        before = _bytes(wal)
        with suppress(sqlite3.OperationalError):
            self._owed = not self._emptied_at_once()
        return _bytes(wal) < before

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with reported(self._folder):
            yield self._connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block in a write transaction, after verifying that this process still holds the folder."""
        self._keep_claim()
        with reported(self._folder), _transaction(self._connection):
            yield self._connection


class SqliteView:
    """A read-only view of the store in a folder."""

    def __init__(self, folder: Path, connection: Callable[[], AbstractContextManager[sqlite3.Connection]]) -> None:
        self._folder, self._connection = folder, connection
        self._snapshots = SnapshotFiles(folder / "snapshots")

    def read(self, after: int, until: int | None = None, /) -> Iterator[Entry]:
        return log_pages.lines(self._page, self._bounds, after, until)

    def last(self) -> int:
        return self._bounds().last

    def checksum(self, position: int, /) -> int | None:
        rows = self._page(position, position)
        return rows[0].checksum if rows else None

    def forgotten(self) -> dict[str, int]:
        with self._connection() as connection:
            return sqlite_log.forgotten(connection)

    def base(self) -> int:
        return self._bounds().base

    def cut(self) -> int:
        return self._bounds().cut

    def kept(self) -> list[LogLine]:
        with self._connection() as connection:
            return sqlite_compaction.kept(connection)

    def marks(self) -> list[tuple[int, float]]:
        with self._connection() as connection:
            return sqlite_compaction.marks(connection)

    def size(self) -> int:
        with self._connection() as connection:
            files = sum(_bytes(path) for path in _log_files(self._folder))
            return max(0, files - sqlite_compaction.unused(connection)) + self._snapshots.size()

    def snapshots(self) -> list[Saved]:
        return self._snapshots.all()

    def opened(self, saved: Saved, /) -> AbstractContextManager[Path]:
        return self._snapshots.opened(saved)

    def log_name(self) -> str:
        return str(self._folder / DATABASE)

    def snapshot_name(self, saved: Saved, /) -> str:
        return self._snapshots.name(saved)

    def check(self) -> None:
        noted = noted_end(self._folder)  # read before the log, which the writer may extend in the meantime
        with self._connection() as connection:
            if found := sqlite_log.damage(connection):
                raise StoreDamaged(f"store {str(self._folder)!r}: log.sqlite is damaged ({found}); {REMEDY}")
            _check_noted(connection, self._folder, noted)

    def close(self) -> None:
        """Do nothing: connections belong to the caller, or are closed after each call."""

    def _bounds(self) -> Bounds:
        with self._connection() as connection:
            return sqlite_log.bounds(connection)

    def _page(self, first: int, last: int) -> list[Row]:
        with self._connection() as connection:
            return sqlite_log.page(connection, first, last)


def inspected(folder: str | Path) -> SqliteView:
    """Open a read-only view of a folder, while another process may write to it.

    No connection stays open between calls, so the view never blocks the writer for long.
    """
    place = Path(folder).resolve()
    if not (place / DATABASE).is_file():
        raise InvalidInput(f"store {str(folder)!r}: there is no {DATABASE}; give the folder of a store")
    with looking(place) as connection:
        sqlite_log.check(connection, place)
    return SqliteView(place, partial(looking, place))


def _check_noted(connection: sqlite3.Connection, folder: Path, noted: tuple[int, int]) -> Bounds:
    """Return the bounds of the log; raises `StoreDamaged` if it lacks the last acknowledged line, which `noted` gives."""
    end, (position, checksum) = sqlite_log.bounds(connection), noted
    if position > end.cut and not sqlite_log.has(connection, Bounds(0, position, checksum)):
        lost = f"log.sqlite does not have line {position}, which was acknowledged, as the file lock says"
        why = "log.sqlite-wal was deleted or cut, or log.sqlite is an older copy"
        remedy = f"put the newer files back; or, to go on after line {end.last} without what was lost, delete lock"
        raise StoreDamaged(f"store {str(folder)!r}: {lost}: {why}; {remedy}")
    return end


@contextmanager
def looking(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection that creates no file.

    A missing WAL means that there is no writer, so the file is opened as immutable.
    """
    path = folder / DATABASE
    how = "mode=ro" if path.with_name(f"{DATABASE}-wal").exists() else "immutable=1"
    with reported(folder), closing(_connect(f"{path.as_uri()}?{how}", uri=True)) as connection:
        yield connection


def _log_files(folder: Path) -> tuple[Path, Path]:
    return folder / DATABASE, folder / f"{DATABASE}-wal"


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a block in a transaction, which is rolled back on any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite may have rolled back already
            connection.execute("ROLLBACK")
        raise


def _connected(folder: Path) -> sqlite3.Connection:
    path = folder / DATABASE
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would make it readable for all users
    return _connect(path)


_connect = partial(sqlite3.connect, timeout=WAIT, isolation_level=None, check_same_thread=False)
