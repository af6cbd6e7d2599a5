"""Export of a store in a folder, and creation of a folder from an export."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

from coldstream.errors import InvalidInput, InvalidSnapshot, StoreUnavailable
from coldstream.storage import log_pages
from coldstream.storage.checksums import FIRST, Row
from coldstream.storage.disk import make_folder, reported
from coldstream.storage.export import Contents, Export
from coldstream.storage.sqlite import compaction as sqlite_compaction
from coldstream.storage.sqlite import log as sqlite_log
from coldstream.storage.sqlite.snapshot_files import SnapshotFiles
from coldstream.storage.sqlite.store import SqliteStore, inspected, looking
from coldstream.storage.store import Saved
from coldstream.support.files import sync

TRIES = 10


class SqliteExport:
    """A consistent export: one read transaction on the log, and open descriptors of the snapshot files."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, held: ExitStack) -> None:
        self._connection = connection
        bounds = sqlite_log.bounds(connection)  # SQLite's read transaction begins with this query
        begins = sqlite_log.page(connection, bounds.cut, bounds.cut)[0].checksum if bounds.cut else FIRST
        self._files = _held(SnapshotFiles(folder / "snapshots"), bounds.base, bounds.last, held)
        self.contents = Contents(
            bounds, begins, sqlite_compaction.kept(connection), sqlite_compaction.marks(connection), list(self._files)
        )

    def rows(self) -> Iterator[Row]:
        bounds = self.contents.bounds
        return log_pages.rows(lambda first, last: sqlite_log.page(self._connection, first, last), bounds, bounds.cut)

    @contextmanager
    def opened(self, saved: Saved, /) -> Iterator[Path]:
        yield Path(f"/dev/fd/{self._files[saved]}")


def _held(files: SnapshotFiles, base: int, last: int, held: ExitStack) -> dict[Saved, int]:
    """Open the snapshots that belong to the log, by descriptor: a file deleted later stays readable."""
    found = {}
    for saved in files.all():
        try:
            with files.opened(saved) as path:
                descriptor = os.open(path, os.O_RDONLY)
        except (InvalidSnapshot, FileNotFoundError):  # a newer snapshot replaced it in the meantime
            continue
        held.callback(os.close, descriptor)
        if base <= saved.position <= last:
            found[saved] = descriptor
    return found


@contextmanager
def exported(folder: str | Path) -> Iterator[Export]:
    """Open a consistent export of the store in a folder, while its writer may go on."""
    inspected(folder).close()  # raises if the folder is not a store
    place = Path(folder).resolve()
    for _ in range(TRIES):
        with ExitStack() as held:
            connection = held.enter_context(looking(place))
            connection.execute("BEGIN")
            export = SqliteExport(place, connection, held)
            # All snapshots may be newer than the transaction, or may have been replaced since it began: then try again.
            if export.contents.snapshots or export.contents.bounds.base == 0:
                with reported(place):
                    yield export
                return
    raise StoreUnavailable(f"store {str(folder)!r}: snapshots are replaced all the time; try again in a moment")


def filled(folder: str | Path, export: Export) -> None:
    """Create a store from an export, atomically, in a folder that does not exist or is empty."""
    place = Path(folder).resolve()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InvalidInput(f"store {str(folder)!r} is not empty; restore into a folder that is empty, or not there")
    with reported(place):
        make_folder(place.parent)
        making = Path(tempfile.mkdtemp(prefix=f".{place.name}.restoring-", dir=place.parent))
    try:
        _fill(making, export)
        with reported(place):
            if place.exists():
                place.rmdir()
            making.rename(place)
            sync(place.parent)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _fill(folder: Path, export: Export) -> None:
    store, contents = SqliteStore(folder), export.contents
    try:
        rows = export.rows()
        while some := list(islice(rows, log_pages.PAGE)):
            with store.transaction() as connection:
                sqlite_log.insert(connection, some)
        with store.transaction() as connection:
            sqlite_log.begin_at(connection, contents.bounds, contents.begins)
            sqlite_compaction.fill(connection, contents.kept, contents.marks)
        for saved in reversed(contents.snapshots):
            with reported(folder), export.opened(saved) as path:
                copy = folder / ".restoring"
                shutil.copyfile(path, copy)
                store.save(saved.position, copy)
    finally:
        store.close()
