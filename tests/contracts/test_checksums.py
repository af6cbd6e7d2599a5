"""In every store, a line of the log that was changed, lost or moved is noticed."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from stores_under_test import POSTGRES, SQLITE, appended, numbers

from coldstream.errors import InvalidInput, StoreDamaged
from coldstream.storage import stores
from coldstream.storage.store import Entry, LogLine, Store

pytest_plugins = ["postgres_server", "stores_under_test"]


class Raw:
    """The database behind a store, for whoever changes it behind its back."""

    def __init__(self, url: str) -> None:
        self.is_sqlite = url.startswith(SQLITE)
        self.connection: Any = (
            sqlite3.connect(Path(url.removeprefix("sqlite:")) / "log.sqlite", isolation_level=None)
            if self.is_sqlite
            else psycopg.connect(url, autocommit=True)
        )

    def do(self, statement: str, *values: object) -> list[Any]:
        """Run a statement with ? for values and {} before the names of tables."""
        prefix, mark = ("", "?") if self.is_sqlite else ("coldstream_", "%s")
        done = self.connection.execute(statement.format(prefix).replace("?", mark), values)
        return done.fetchall() if done.description else []

    def close(self) -> None:
        self.connection.close()


@pytest.fixture
def raw(url: str, store: Store) -> Iterator[Raw]:
    appended(store, [LogLine(b"line %d" % n, f"user{n % 7}", f"event{n}", forgets=n % 5 == 0) for n in range(1, 41)])
    appended(store, [LogLine(b'{"kind": "item"}'), LogLine(b"")])
    store.purge({"user3": 20}, 20)
    with closing(Raw(url)) as raw:
        yield raw


def changed(value: Any, rng: random.Random) -> Any:
    """A value with one byte changed."""
    if value is None:
        return rng.choice([0, b"x"])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value ^ rng.randrange(1, 256) << 8 * rng.randrange(4)
    content = bytearray(value.encode() if isinstance(value, str) else value)
    if not content:
        return b"x"
    content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
    return bytes(content)


def test_any_byte_of_a_line_that_changes_is_noticed(store: Store, raw: Raw) -> None:
    columns = ["person", "event", "forgets", "body", "salt", "checksum"]
    before, rng, tried = list(store.read(0)), random.Random(7), 0
    for _ in range(400):
        position, column = rng.randrange(1, store.last() + 1), rng.choice(columns)
        ((value,),) = raw.do(f"SELECT {column} FROM {{}}log WHERE position = ?", position)
        other = changed(value, rng)
        if not raw.is_sqlite and value is None:
            continue  # PostgreSQL takes no value of another kind
        raw.do(f"UPDATE {{}}log SET {column} = ? WHERE position = ?", other, position)
        with pytest.raises(StoreDamaged, match="restore"):
            list(store.read(0))
        raw.do(f"UPDATE {{}}log SET {column} = ? WHERE position = ?", value, position)
        tried += 1
    assert tried > 250
    assert list(store.read(0)) == before


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {}log WHERE position = 1",
        "DELETE FROM {}log WHERE position = 3",  # which was purged
        "DELETE FROM {}log WHERE position = 30",
        "DELETE FROM {}log WHERE position > 39",
        "DELETE FROM {}log WHERE position BETWEEN 12 AND 31",
        "DELETE FROM {}log",
        "UPDATE {}log SET position = 100 WHERE position = 42",
        "UPDATE {}log SET position = -1 * position WHERE position = 1",
        "UPDATE {}log SET body = (SELECT body FROM {}log WHERE position = 8) WHERE position = 9",
        "UPDATE {}log SET person = NULL, event = NULL, body = NULL WHERE position = 30",
        "UPDATE {}meta SET last = last - 1",
        "UPDATE {}meta SET base = base - 1",
        "UPDATE {}meta SET checksum = checksum + 1",
        "UPDATE {}meta SET last = (SELECT position FROM {}log WHERE position = 40)",
    ],
)
def test_lines_that_are_missing_or_elsewhere_are_noticed(store: Store, raw: Raw, url: str, statement: str) -> None:
    raw.do(statement.replace("{}", "{0}"))
    with pytest.raises(StoreDamaged, match="restore"):
        list(store.read(0))
    store.close()
    with closing(stores.inspected(url)) as view, pytest.raises(StoreDamaged, match="restore"):
        list(view.read(0))


@pytest.mark.parametrize("statement", ["DELETE FROM {}log WHERE position > 39", "UPDATE {}meta SET last = last - 1"])
def test_a_log_that_lost_its_end_is_not_written_to(store: Store, raw: Raw, url: str, statement: str) -> None:
    raw.do(statement)
    store.close()
    with pytest.raises(StoreDamaged, match="restore"):
        stores.opened(url)


def test_whoever_begins_in_the_middle_checks_the_lines_from_there(store: Store, raw: Raw) -> None:
    raw.do("UPDATE {}log SET body = ? WHERE position = ?", b"other", 30)
    assert [entry.position for entry in store.read(30)] == list(range(31, 43))
    for after in (0, 17, 29):
        with pytest.raises(StoreDamaged, match="line 30 of the log"):
            list(store.read(after))


def test_what_is_purged_leaves_its_number_and_a_checksum_that_nobody_can_compare(store: Store, raw: Raw) -> None:
    purged = raw.do("SELECT person, event, forgets, body, salt FROM {}log WHERE position IN (3, 10, 17)")
    assert purged == [(None,) * 5] * 3
    # What goes with the line is another number for each, so that nothing can be guessed and compared.
    appended(store, [LogLine(b"same", "ann"), LogLine(b"same", "ann")])
    ((one,), (two,)) = raw.do("SELECT salt FROM {}log WHERE position > 42")
    assert one != two


OLD = {
    SQLITE: """
        CREATE TABLE log (position INTEGER PRIMARY KEY, person TEXT, event BLOB, forgets INTEGER, body BLOB);
        CREATE UNIQUE INDEX log_event ON log (event) WHERE event IS NOT NULL;
        CREATE INDEX log_forgets ON log (position) WHERE forgets;
        CREATE TABLE meta (base INTEGER NOT NULL);
        INSERT INTO meta VALUES (3);
        PRAGMA application_id = 1668246628;
        PRAGMA user_version = 1;
        INSERT INTO log VALUES (1, NULL, NULL, 0, x'31'), (2, NULL, NULL, NULL, NULL), (3, NULL, NULL, NULL, NULL),
            (4, 'ann', x'dddd', 0, x'3432'), (5, 'ann', NULL, 1, x''), (6, 'bob', NULL, 0, x'36')
    """,
    POSTGRES: """
        CREATE TABLE coldstream_meta (version integer NOT NULL, last bigint NOT NULL, base bigint NOT NULL);
        CREATE TABLE coldstream_log (
            position bigint PRIMARY KEY, person bytea, event bytea, forgets boolean NOT NULL, body bytea NOT NULL
        );
        CREATE UNIQUE INDEX coldstream_log_event ON coldstream_log (event) WHERE event IS NOT NULL;
        CREATE INDEX coldstream_log_person ON coldstream_log USING hash (person);
        CREATE INDEX coldstream_log_forgets ON coldstream_log (position) WHERE forgets;
        CREATE TABLE coldstream_snapshot (number bigint PRIMARY KEY, position bigint NOT NULL);
        CREATE TABLE coldstream_snapshot_chunk (
            number bigint REFERENCES coldstream_snapshot ON DELETE CASCADE, part integer, content bytea NOT NULL,
            PRIMARY KEY (number, part)
        );
        INSERT INTO coldstream_meta VALUES (1, 6, 3);
        INSERT INTO coldstream_log VALUES (1, NULL, NULL, false, '1'), (4, 'ann', '\\xdddd', false, '42'),
            (5, 'ann', NULL, true, ''), (6, 'bob', NULL, false, '6')
    """,
}


@pytest.fixture
def old(url: str) -> str:
    """A store of the format that had no checksums."""
    if url.startswith(SQLITE):
        folder = Path(url.removeprefix("sqlite:"))
        folder.mkdir()
        with closing(sqlite3.connect(folder / "log.sqlite")) as connection:
            connection.executescript(OLD[SQLITE])
    else:
        with psycopg.connect(url) as connection:
            connection.execute(OLD[POSTGRES])
    return url


def test_a_log_without_checksums_gets_them(old: str) -> None:
    with pytest.raises(InvalidInput, match=r"has format 1, this release reads [34]; start the service once"):
        stores.inspected(old)
    for _ in range(2):
        with closing(stores.opened(old)) as store:
            assert list(store.read(0)) == [Entry(1, b"1"), Entry(4, b"42"), Entry(5, b""), Entry(6, b"6")]
            assert (store.last(), store.base(), store.forgotten()) == (6, 3, {"ann": 5})
    with closing(stores.opened(old)) as store, closing(Raw(old)) as raw:
        raw.do("UPDATE {}log SET body = ? WHERE position = 4", b"43")
        with pytest.raises(StoreDamaged, match="line 4"):
            list(store.read(0))
        raw.do("UPDATE {}log SET body = ? WHERE position = 4", b"42")
        assert store.append(numbers(7), 6) == [7]
        store.purge({"ann": 5}, 7)
        assert list(store.read(0)) == [Entry(1, b"1"), Entry(6, b"6"), Entry(7, b"7")]


def test_a_log_without_checksums_that_has_lost_lines_is_left_alone(old: str) -> None:
    with closing(Raw(old)) as raw:
        raw.do("DELETE FROM {}log WHERE position = 4")
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="missing"):
            stores.opened(old)
