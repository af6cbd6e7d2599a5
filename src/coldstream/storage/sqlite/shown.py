"""Lists that were shown, in a SQLite file beside the log."""

import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from coldstream.errors import StoreUnavailable
from coldstream.storage.disk import make_folder, reported
from coldstream.storage.shown import PositionCount, ShownList, Take, day_of, list_of, row_of, shown_counts, taken_counts

DATABASE = "shown.sqlite"

PAGE = 1000
"""Lists that are read, or asked for, at once."""

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = NORMAL",  # what a loss of power costs are lists of the last moments, and nothing that was learned
    "secure_delete = ON",
)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS shown (number INTEGER PRIMARY KEY, name BLOB UNIQUE, person BLOB, time REAL NOT NULL, "
    "items BLOB NOT NULL, first INTEGER NOT NULL, taken BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS shown_person ON shown (person) WHERE person IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS shown_time ON shown (time)",
    "CREATE TABLE IF NOT EXISTS count (day INTEGER, position INTEGER, shown INTEGER NOT NULL, taken INTEGER NOT NULL, "
    "PRIMARY KEY (day, position)) WITHOUT ROWID",
)
_COUNT = (
    "INSERT INTO count VALUES (?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET shown = shown + excluded.shown, taken = taken + excluded.taken"
)
_COLUMNS = "name, person, time, items, first, taken"


class SqliteShown:
    """The lists of the one process that writes to a folder."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        with reported(self._folder, DATABASE):
            make_folder(self._folder)
            path = self._folder / DATABASE
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would let everybody read it
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                for statement in (*(f"PRAGMA {pragma}" for pragma in _PRAGMAS), *_SCHEMA):
                    self._connection.execute(statement)
            except BaseException:
                self._connection.close()
                raise

    def keep(self, lists: Sequence[ShownList], /) -> None:
        with self._transaction() as connection:
            connection.executemany(f"INSERT OR IGNORE INTO shown ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", map(row_of, lists))  # noqa: S608
            connection.executemany(_COUNT, shown_counts(lists))

    def take(self, takes: Sequence[Take], /) -> None:
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE shown SET taken = CAST(taken || ? AS BLOB) WHERE name = ?",
                [(bytes([take.position]), take.name.encode()) for take in takes if take.position < 256],
            )
            connection.executemany(_COUNT, taken_counts(takes))

    def find(self, names: Collection[str], /) -> dict[str, ShownList]:
        with reported(self._folder, DATABASE):
            query = f"SELECT {_COLUMNS} FROM shown WHERE name = ?"  # noqa: S608
            rows = [row for name in names for row in self._connection.execute(query, (name.encode(),))]
        return {one.name: one for one in map(list_of, rows)}

    def counts(self) -> list[PositionCount]:
        query = "SELECT position, sum(shown), sum(taken) FROM count GROUP BY position ORDER BY position"
        with reported(self._folder, DATABASE):
            return [PositionCount(*row) for row in self._connection.execute(query)]

    def erase(self, users: Collection[str], /) -> None:
        with self._transaction() as connection:
            connection.executemany("DELETE FROM shown WHERE person = ?", [(user.encode(),) for user in users])
        with reported(self._folder, DATABASE):
            # Rows that were moved from page to page may have left copies, and the WAL has what pages were before.
            self._connection.execute("VACUUM")
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:  # a reader keeps the WAL, which has the lists still
            message = f"store {str(self._folder)!r}: another program reads {DATABASE}"
            raise StoreUnavailable(f"{message}, so that lists are not erased from it yet; end that program, and try again")

    def hand_over(self, session: str, user: str, /) -> None:
        with self._transaction() as connection:
            connection.execute("UPDATE shown SET person = ? WHERE person = ?", (user.encode(), session.encode()))

    def expire(self, before: float, /) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM shown WHERE time < ?", (before,))
            connection.execute("DELETE FROM count WHERE day < ?", (day_of(before),))

    def read(self) -> Iterator[ShownList]:
        return _read(self._connection, self._folder)

    def close(self) -> None:
        with reported(self._folder, DATABASE):
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with reported(self._folder, DATABASE), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection


def read(folder: str | Path) -> Iterator[ShownList]:
    """All lists of a folder, whoever writes to it; none where none were ever kept."""
    path = Path(folder) / DATABASE
    if not path.exists():
        return
    how = "mode=ro" if path.with_name(f"{DATABASE}-wal").exists() else "immutable=1"
    with reported(Path(folder), DATABASE), closing(sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True)) as own:
        yield from _read(own, Path(folder))


def _read(connection: sqlite3.Connection, folder: Path) -> Iterator[ShownList]:
    last = 0
    while True:
        with reported(folder, DATABASE):
            query = f"SELECT number, {_COLUMNS} FROM shown WHERE number > ? ORDER BY number LIMIT {PAGE}"  # noqa: S608
            rows = connection.execute(query, (last,)).fetchall()
        if not rows:
            return
        yield from (list_of(row[1:]) for row in rows)
        last = rows[-1][0]
