"""Shown lists in a SQLite file beside the log.

When tables grow and shrink, SQLite moves rows between pages and leaves copies in free parts of pages. So no list contains a
user id, only a number that stands for it. The ids are in the table `person`. Its rows are only appended, and are blanked in
place, so SQLite never moves a row before it is blank. A user is erased by deleting that user's lists, found by an index, and
by blanking the ids, without rewriting the file.
"""

import logging
import math
import os
import sqlite3
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from coldstream.errors import InvalidInput, StoreUnavailable
from coldstream.storage.disk import make_folder, reported
from coldstream.storage.shown import PositionCount, ShownList, Take, day_of, list_of, row_of, shown_counts, taken_counts

log = logging.getLogger(__name__)

DATABASE = "shown.sqlite"

VERSION = 2
"""Version of the tables. In version 1 the lists contained user ids."""

PAGE = 1000
"""Number of lists read per query."""

STEP = 500
"""Number of lists deleted or reassigned per transaction."""

IDS_STEP = 50_000
"""Number of rows of `person` scanned per step."""

MARGIN = 2000
"""Number of blank `person` rows kept before the first id; more than SQLite moves when it deletes the rows before them."""

MOST_NUMBERS = 10_000
"""Number of users whose number is cached in memory. Other users get a new number with the next list shown to them."""

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = NORMAL",  # a power loss costs only the latest lists, and nothing that the model learned
    "secure_delete = ON",
    "temp_store = MEMORY",  # writes no temporary files, whose folder may be small
    "journal_size_limit = 16777216",
)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS person (number INTEGER PRIMARY KEY, name BLOB)",
    "CREATE TABLE IF NOT EXISTS list (number INTEGER PRIMARY KEY, name BLOB UNIQUE, person INTEGER, time REAL NOT NULL, "
    "items BLOB NOT NULL, first INTEGER NOT NULL, taken BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS list_person ON list (person) WHERE person IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS list_time ON list (time)",
    "CREATE TABLE IF NOT EXISTS count (day INTEGER, position INTEGER, shown INTEGER NOT NULL, taken INTEGER NOT NULL, "
    "PRIMARY KEY (day, position)) WITHOUT ROWID",
    f"PRAGMA user_version = {VERSION}",  # the last statement, so a process killed earlier starts over
)
_COUNT = (
    "INSERT INTO count VALUES (?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET shown = shown + excluded.shown, taken = taken + excluded.taken"
)
_LISTS = (
    "SELECT list.number, list.name, person.name, time, items, first, taken "
    "FROM list LEFT JOIN person ON person.number = list.person"
)


class SqliteShown:
    """The shown lists of the process that writes to a folder.

    No call waits for another program that holds the file: such a call raises `StoreUnavailable`, and a later call opens the
    file.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._opened: sqlite3.Connection | None = None
        self._numbers: dict[bytes, int] = {}
        try:
            with self._reading():
                pass
        except StoreUnavailable as error:
            log.warning("lists that were shown cannot be kept yet", extra={"reason": str(error)})

    def keep(self, lists: Sequence[ShownList], /) -> None:
        with self._transaction() as connection:
            for one in lists:
                name, person, *rest = row_of(one)
                if connection.execute("SELECT 1 FROM list WHERE name = ?", (name,)).fetchone() is None:
                    number = None if person is None else self._number(connection, person)
                    connection.execute(
                        "INSERT INTO list (name, person, time, items, first, taken) VALUES (?, ?, ?, ?, ?, ?)",
                        (name, number, *rest),
                    )
            connection.executemany(_COUNT, shown_counts(lists))

    def take(self, takes: Sequence[Take], /) -> None:
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE list SET taken = CAST(taken || ? AS BLOB) WHERE name = ?",
                [(bytes([take.position]), take.name.encode()) for take in takes if take.position < 256],
            )
            connection.executemany(_COUNT, taken_counts(takes))

    def find(self, names: Collection[str], /) -> dict[str, ShownList]:
        query = f"{_LISTS} WHERE list.name = ?"
        with self._reading() as connection:
            rows = [row for name in names for row in connection.execute(query, (name.encode(),))]
        return {one.name: one for one in (list_of(row[1:]) for row in rows)}

    def counts(self) -> list[PositionCount]:
        query = "SELECT position, sum(shown), sum(taken) FROM count GROUP BY position ORDER BY position"
        with self._reading() as connection:
            return [PositionCount(*row) for row in connection.execute(query)]

    def has(self, user: str, /) -> bool:
        with self._reading() as connection:
            query = "SELECT 1 FROM person WHERE name = ? LIMIT 1"
            return connection.execute(query, (user.encode(),)).fetchone() is not None

    def erase_in_steps(self, users: Collection[str], /) -> Iterator[None]:
        names = [user.encode() for user in users]
        for number in (yield from self._numbers_of(names)):
            while self._deleted("person = ?", number, STEP):
                yield
            with self._transaction() as connection:
                _blank(connection, [number])
        self._forget_numbers(names)
        with self._reading() as connection:
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:  # a reader blocks the checkpoint, and the WAL still contains the ids
            message = f"store {str(self._folder)!r}: another program reads {DATABASE}"
            raise StoreUnavailable(f"{message}, so that lists are not erased from it yet; end that program, and try again")

    def hand_over_in_steps(self, session: str, user: str, /) -> Iterator[None]:
        name = session.encode()
        for number in (yield from self._numbers_of([name])):
            while self._handed_over(number, user.encode()):
                yield
            with self._transaction() as connection:
                _blank(connection, [number])
        self._forget_numbers([name])

    def trim_in_steps(self, before: float, most: int, /) -> Iterator[None]:
        while self._deleted("time < ?", before, STEP):
            yield
        with self._transaction() as connection:
            connection.execute("DELETE FROM count WHERE day < ?", (day_of(before),))
        while (count := self._beyond(most)) and self._deleted("number > ? ORDER BY number", 0, count):
            yield
        with self._reading() as connection:
            first, last = connection.execute("SELECT min(number), max(number) FROM person").fetchone()
            (used,) = connection.execute("SELECT min(number) FROM person WHERE name IS NOT NULL").fetchone()
        until = (last or 0 if used is None else used) - MARGIN
        for number in range(first or 0, until, IDS_STEP):
            yield
            with self._transaction() as connection:
                connection.execute("DELETE FROM person WHERE number < ?", (min(number + IDS_STEP, until),))

    def size(self) -> int:
        wal = self._folder / f"{DATABASE}-wal"
        with self._reading():
            return self._used() + (wal.stat().st_size if wal.exists() else 0)

    def read(self) -> Iterator[ShownList]:
        with self._reading() as connection:
            pass
        return _read(connection, self._folder)

    def close(self) -> None:
        connection, self._opened = self._opened, None
        if connection is not None:
            with reported(self._folder, DATABASE):
                connection.close()

    # Numbers that stand for user ids

    def _number(self, connection: sqlite3.Connection, name: bytes) -> int:
        """Return the number for new lists of a user. The user's older lists may have other numbers."""
        number = self._numbers.get(name)
        if number is None:
            if len(self._numbers) >= MOST_NUMBERS:
                self._numbers.clear()
            number = connection.execute("INSERT INTO person (name) VALUES (?)", (name,)).lastrowid
            assert number is not None
            self._numbers[name] = number
        return number

    def _numbers_of(self, names: Sequence[bytes]) -> Generator[None, None, list[int]]:
        """Return all numbers that stand for some users, by a scan in steps: an index of ids would leave copies of them."""
        found, after = list[int](), 0
        while True:
            with self._reading() as connection:
                (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM person").fetchone()
                for first in range(0, len(names), 500):
                    own = names[first : first + 500]
                    query = (
                        f"SELECT number FROM person WHERE number BETWEEN ? AND ? AND name IN ({', '.join('?' * len(own))})"  # noqa: S608
                    )
                    found += [number for (number,) in connection.execute(query, (after + 1, after + IDS_STEP, *own))]
            after += IDS_STEP
            if after >= last:
                return found
            yield

    def _forget_numbers(self, names: Collection[bytes]) -> None:
        for name in names:
            self._numbers.pop(name, None)

    # Lists

    def _beyond(self, most: int) -> int:
        """Return the number of oldest lists to delete in one step; 0 if all lists take at most `most` bytes."""
        used = self._used()
        if used <= most:
            return 0
        with self._reading() as connection:
            (count,) = connection.execute("SELECT max(number) - min(number) + 1 FROM list").fetchone()
        return min(STEP, math.ceil((used - most) * (count or 0) / used))

    def _deleted(self, condition: str, value: float, count: int) -> bool:
        """Delete the first lists that meet a condition, and blank ids left without lists; return True if there were any."""
        with self._transaction() as connection:
            query = f"SELECT number, person FROM list WHERE {condition} LIMIT {count}"  # noqa: S608
            rows = connection.execute(query, (value,)).fetchall()
            connection.executemany("DELETE FROM list WHERE number = ?", [(number,) for number, _ in rows])
            people = {person for _, person in rows if person is not None}
            gone = [one for one in people if not _is_in_use(connection, one)]
            _blank(connection, gone)
        dropped = set(gone)
        if dropped:
            self._numbers = {name: number for name, number in self._numbers.items() if number not in dropped}
        return bool(rows)

    def _handed_over(self, number: int, user: bytes) -> bool:
        with self._transaction() as connection:
            query = "SELECT number FROM list WHERE person = ? LIMIT ?"
            rows = connection.execute(query, (number, STEP)).fetchall()
            if rows:
                own = self._number(connection, user)
                connection.executemany("UPDATE list SET person = ? WHERE number = ?", [(own, one) for (one,) in rows])
        return bool(rows)

    def _used(self) -> int:
        """Return the number of bytes in pages of the file that are in use."""
        with self._reading() as connection:
            each, pages, free = (
                connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
            )
        return int(each * (pages - free))

    # The file

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with reported(self._folder, DATABASE):
            if self._opened is None:
                self._opened = _opened(self._folder)
            yield self._opened

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            try:
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    yield connection
            except BaseException:
                self._numbers.clear()  # the rows of some numbers may have been rolled back
                raise


def _is_in_use(connection: sqlite3.Connection, number: int) -> bool:
    return connection.execute("SELECT 1 FROM list WHERE person = ? LIMIT 1", (number,)).fetchone() is not None


def _blank(connection: sqlite3.Connection, numbers: Collection[int]) -> None:
    """Overwrite the ids of numbers with NULL in place. Their rows stay, so that SQLite moves no other row."""
    connection.executemany("UPDATE person SET name = NULL WHERE number = ?", [(one,) for one in numbers])


def _opened(folder: Path) -> sqlite3.Connection:
    """Open the file, creating it if it is missing. Lists of an older release are dropped, but their counts are kept."""
    make_folder(folder)
    path = folder / DATABASE
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would make it readable for all users
    connection = _connected(path)
    try:
        counts = _counts_of_older_release(connection)
        if counts is not None:
            connection.close()
            for suffix in ("", "-wal", "-shm"):
                path.with_name(DATABASE + suffix).unlink(missing_ok=True)
            log.warning("lists that an older release kept were dropped", extra={"file": DATABASE})
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            connection = _connected(path)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        if connection.execute("PRAGMA user_version").fetchone() != (VERSION,):
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.executemany(_COUNT, counts or [])
    except BaseException:
        connection.close()
        raise
    return connection


def _connected(path: Path) -> sqlite3.Connection:
    """Connect without waiting for another program that holds the file."""
    return sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)


def _counts_of_older_release(connection: sqlite3.Connection) -> list[tuple[int, int, int, int]] | None:
    """Return the counts in a file of an older release, whose lists contain user ids; None for any other file."""
    if not _is_of_older_release(connection):
        return None
    return connection.execute("SELECT day, position, shown, taken FROM count").fetchall()


def _is_of_older_release(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'shown'").fetchone() is not None


def read(folder: str | Path) -> Iterator[ShownList]:
    """Yield all shown lists of a folder, while another process may write to it; none if no list was ever stored."""
    path = Path(folder) / DATABASE
    if not path.exists():
        return
    how = "mode=ro" if path.with_name(f"{DATABASE}-wal").exists() else "immutable=1"
    with reported(Path(folder), DATABASE), closing(sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True)) as own:
        if _is_of_older_release(own):
            message = f"store {str(folder)!r}: {DATABASE} was made by an older release, whose lists this one cannot read"
            raise InvalidInput(f"{message}; export them with that release, before this one serves the folder")
        yield from _read(own, Path(folder))


def _read(connection: sqlite3.Connection, folder: Path) -> Iterator[ShownList]:
    last = 0
    while True:
        with reported(folder, DATABASE):
            query = f"{_LISTS} WHERE list.number > ? ORDER BY list.number LIMIT {PAGE}"
            rows = connection.execute(query, (last,)).fetchall()
        if not rows:
            return
        yield from (list_of(row[1:]) for row in rows)
        last = rows[-1][0]
