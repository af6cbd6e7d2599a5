"""What every store has to do, on the real database."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from coldstream.errors import InvalidInput, InvalidSnapshot, StoreDamaged, StoreInUse, StoreMovedOn, StoreUnavailable
from coldstream.storage import postgres_session, stores
from coldstream.storage.store import Entry, LogLine, Saved, Store

if TYPE_CHECKING:
    from postgres_server import PostgresServer

pytest_plugins = ["postgres_server"]

SQLITE, POSTGRES = "sqlite", "postgresql"


@pytest.fixture(params=[SQLITE, POSTGRES])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Addresses at which there is nothing yet."""
    if request.param == SQLITE:
        return lambda: f"sqlite:{tempfile.mkdtemp(dir=tmp_path)}/data"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_schema


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(stores.opened(url)) as store:
        yield store


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes a finished snapshot file."""

    def write(content: bytes) -> Path:
        path = tmp_path / "finished"
        path.write_bytes(content)
        return path

    return write


def appended(store: Store, lines: list[LogLine]) -> list[int | None]:
    """Append to a log whatever it has."""
    return store.append(lines, store.last())


def bodies(store: Store, after: int = 0) -> list[bytes]:
    return [entry.body for entry in store.read(after)]


def numbers(*bodies: int) -> list[LogLine]:
    return [LogLine(b"%d" % body) for body in bodies]


def content(store: Store, saved: Saved) -> bytes:
    with store.opened(saved) as path:
        return path.read_bytes()


# The log


def test_an_empty_log_has_nothing(store: Store) -> None:
    assert (store.last(), store.base(), list(store.read(0)), store.forgotten()) == (0, 0, [], {})
    assert appended(store, []) == []
    assert store.last() == 0


def test_lines_get_rising_positions_and_are_read_in_order(store: Store) -> None:
    assert appended(store, numbers(10, 11)) == [1, 2]
    assert appended(store, numbers(12)) == [3]
    assert list(store.read(0)) == [Entry(1, b"10"), Entry(2, b"11"), Entry(3, b"12")]
    assert list(store.read(2)) == [Entry(3, b"12")]
    assert list(store.read(3)) == []
    assert store.last() == 3


def test_bodies_come_back_byte_by_byte(store: Store) -> None:
    odd = [b"", b"\0", bytes(range(256)), "\0ä😀".encode(), random.Random(3).randbytes(3_000_000)]
    appended(store, [LogLine(body) for body in odd])
    assert bodies(store) == odd


def test_a_long_log_is_read_over_many_pages(store: Store) -> None:
    lines = numbers(*range(5001))
    assert appended(store, lines) == list(range(1, 5002))
    assert bodies(store) == [line.body for line in lines]
    assert bodies(store, 1999) == [line.body for line in lines[1999:]]


def test_reading_goes_up_to_what_was_there_when_it_began(store: Store) -> None:
    appended(store, numbers(1, 2))
    reading = store.read(0)
    appended(store, numbers(3))
    assert [entry.body for entry in reading] == [b"1", b"2"]


def test_an_event_id_is_taken_once(store: Store) -> None:
    first = [LogLine(b"1", event_id="a"), LogLine(b"2", event_id="b"), LogLine(b"3", event_id="a")]
    assert appended(store, first) == [1, 2, None]
    assert appended(store, [LogLine(b"4", event_id="b"), LogLine(b"5"), LogLine(b"6", event_id="c")]) == [None, 3, 4]
    assert bodies(store) == [b"1", b"2", b"5", b"6"]


def test_a_call_with_nothing_new_writes_nothing(store: Store) -> None:
    appended(store, [LogLine(b"1", event_id="a")])
    assert appended(store, [LogLine(b"2", event_id="a")]) == [None]
    assert store.last() == 1


@pytest.mark.parametrize("long", ["x" * 1000, "𝔘" * 20_000])
def test_ids_are_told_apart_whatever_they_are_made_of(store: Store, long: str) -> None:
    names = ["", " ", "\0", "\0\0", "a", "a\0", "a\0b", "A", "á", "a\u0301", "\\x61", "😀", "\ue000", long, long + "\0"]
    assert appended(store, [LogLine(b"", user=name, event_id=name) for name in names]) == list(range(1, len(names) + 1))
    assert appended(store, [LogLine(b"", event_id=name) for name in names]) == [None] * len(names)
    appended(store, [LogLine(b"", user=name, forgets=True) for name in names])
    assert list(store.forgotten()) == names
    for left, name in enumerate(names, 1):
        store.purge({name: store.last()}, store.last())
        assert len(list(store.read(0))) == 2 * (len(names) - left)


def test_lines_are_appended_all_or_none(store: Store) -> None:
    appended(store, numbers(1))
    with pytest.raises(UnicodeEncodeError):
        appended(store, [LogLine(b"2", event_id="a"), LogLine(b"3", user="\ud800"), LogLine(b"4")])
    assert (bodies(store), store.last()) == ([b"1"], 1)
    assert appended(store, [LogLine(b"2", event_id="a")]) == [2]


def test_everything_is_there_after_reopening(url: str, file: Callable[[bytes], Path]) -> None:
    with closing(stores.opened(url)) as store:
        appended(store, [LogLine(b"1", "ann", "a"), LogLine(b"2", "bob", forgets=True), LogLine(b"3", "cy")])
        store.purge({"ann": 1}, 1)
        saved = store.save(2, file(b"content"))
    with closing(stores.opened(url)) as store:
        assert list(store.read(0)) == [Entry(2, b"2"), Entry(3, b"3")]
        assert (store.last(), store.base(), store.forgotten(), store.snapshots()) == (3, 1, {"bob": 2}, [saved])
        assert content(store, saved) == b"content"
        assert appended(store, [LogLine(b"4", event_id="a")]) == [4]


# What is appended continues what is known


def test_lines_continue_the_log_where_it_ends_and_nowhere_else(store: Store) -> None:
    store.append([LogLine(b"1", event_id="a"), LogLine(b"2")], 0)
    for lines in (numbers(3), [LogLine(b"3", event_id="a")], []):
        for after in (0, 1):
            with pytest.raises(StoreMovedOn, match=f"goes on to line 2, and line {after} is the last that is known"):
                store.append(lines, after)
        with pytest.raises(StoreDamaged, match="ends at line 2, and line 3 was acknowledged"):
            store.append(lines, 3)
    assert (bodies(store), store.last()) == ([b"1", b"2"], 2)
    assert store.append(numbers(3), 2) == [3]


@pytest.fixture
def take_away(request: pytest.FixtureRequest, url: str) -> Callable[[], None]:
    """Takes the right to write from whoever has it, who does not hear of it."""
    if url.startswith(SQLITE):
        return (Path(url.removeprefix("sqlite:")) / "lock").unlink
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.end_sessions


def test_who_lost_the_right_to_write_cannot_write_behind_what_it_does_not_know(
    url: str, take_away: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "PATIENCE", 0.2)
    with closing(stores.opened(url)) as store:
        store.append(numbers(1), 0)
        take_away()
        with closing(stores.opened(url)) as other:
            other.append(numbers(2, 3), 1)
            for _ in range(3):
                with pytest.raises((StoreInUse, StoreUnavailable)):
                    store.append(numbers(9), 1)
            other.append(numbers(4), 3)
        for _ in range(2):
            with pytest.raises(StoreMovedOn):
                store.append(numbers(9), 1)
        assert bodies(store, 1) == [b"2", b"3", b"4"]
        assert store.append(numbers(5), 4) == [5]
        with pytest.raises(StoreInUse):  # it is its own again
            stores.opened(url)


def test_a_snapshot_from_before_an_erasure_is_not_taken_over(store: Store, file: Callable[[bytes], Path]) -> None:
    appended(store, [LogLine(b"1", "ann"), LogLine(b"2"), LogLine(b"3")])
    store.purge({"ann": 1}, 3)
    with pytest.raises(StoreMovedOn, match="erased up to line 3"):
        store.save(2, file(b"knows ann"))
    assert store.snapshots() == []
    store.save(3, file(b"does not"))


# Checksums


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
    with pytest.raises(InvalidInput, match="has format 1, this release reads 2; start the service once"):
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


# Purging


def test_a_purge_erases_lines_of_its_users_up_to_a_position(store: Store) -> None:
    appended(store, [LogLine(b"1", "ann"), LogLine(b"2", "bob"), LogLine(b"3", "cy"), LogLine(b"4"), LogLine(b"5", "ann")])
    store.purge({"ann": 4, "cy": 3, "nobody": 4, "bob": 1}, 4)
    assert list(store.read(0)) == [Entry(2, b"2"), Entry(4, b"4"), Entry(5, b"5")]
    assert store.base() == 4


def test_a_base_never_goes_back(store: Store) -> None:
    appended(store, numbers(1, 2, 3))
    store.purge({"ann": 1}, 3)
    store.purge({"bob": 2}, 2)
    assert store.base() == 3


def test_users_are_forgotten_until_they_are_purged(store: Store) -> None:
    appended(
        store,
        [LogLine(b"", "bob", forgets=True), LogLine(b"", "ann"), LogLine(b"", "ann", forgets=True), LogLine(b"", "bob")],
    )
    appended(store, [LogLine(b"", "bob", forgets=True)])
    assert list(store.forgotten().items()) == [("bob", 5), ("ann", 3)]
    store.purge({"ann": 2, "bob": 2}, 5)
    assert list(store.forgotten().items()) == [("ann", 3), ("bob", 5)]
    store.purge({"bob": 5}, 5)
    assert store.forgotten() == {"ann": 3}


def test_a_purged_event_id_is_gone_with_its_line(store: Store) -> None:
    appended(store, [LogLine(b"1", "ann", "a")])
    store.purge({"ann": 1}, 1)
    assert appended(store, [LogLine(b"2", "bob", "a")]) == [2]


def test_positions_are_never_given_out_twice(url: str) -> None:
    with closing(stores.opened(url)) as store:
        appended(store, [LogLine(b"1", "ann"), LogLine(b"2", "ann")])
        store.purge({"ann": 2}, 2)
        assert (store.last(), list(store.read(0))) == (2, [])
    with closing(stores.opened(url)) as store:
        assert appended(store, numbers(3)) == [3]


# Snapshots


def test_snapshots_are_taken_over_and_the_newest_is_first(store: Store, file: Callable[[bytes], Path]) -> None:
    one, two, three = (store.save(position, file(b"%d" % position)) for position in (7, 7, 9))
    assert store.snapshots() == [three, two, one]
    assert [saved.position for saved in store.snapshots()] == [9, 7, 7]
    assert one.number < two.number < three.number
    assert [content(store, saved) for saved in (one, two, three)] == [b"7", b"7", b"9"]


def test_the_file_of_a_snapshot_is_gone_once_it_is_saved(store: Store, file: Callable[[bytes], Path]) -> None:
    path = file(b"content")
    store.save(1, path)
    assert not path.exists()


def test_a_discarded_snapshot_is_gone(store: Store, file: Callable[[bytes], Path]) -> None:
    one, two = store.save(1, file(b"1")), store.save(2, file(b"2"))
    store.discard(one)
    store.discard(one)
    assert store.snapshots() == [two]
    with pytest.raises(InvalidSnapshot, match="not there any more"), store.opened(one):
        pass
    assert store.save(3, file(b"3")).number > two.number


@pytest.mark.parametrize("size", [0, 8 * 2**20 - 1, 8 * 2**20, 2**24 + 3])
def test_a_snapshot_of_any_size_comes_back_byte_by_byte(store: Store, file: Callable[[bytes], Path], size: int) -> None:
    written = random.Random(size).randbytes(size)
    assert content(store, store.save(1, file(written))) == written


# Who may use it


def test_a_second_writer_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_session, "PATIENCE", 0.2)
    with closing(stores.opened(url)) as store:
        with pytest.raises(StoreInUse, match="stop"):
            stores.opened(url)
        assert appended(store, numbers(1)) == [1]
    stores.opened(url).close()


def test_others_can_look_into_it_while_it_is_written(url: str, file: Callable[[bytes], Path]) -> None:
    with closing(stores.opened(url)) as store:
        appended(store, [LogLine(b"1", "ann"), LogLine(b"2", "bob", forgets=True)])
        with closing(stores.inspected(url)) as view:
            assert list(view.read(0)) == list(store.read(0))
            appended(store, numbers(3))
            store.purge({"ann": 1}, 1)
            saved = store.save(3, file(b"content"))
            assert [entry.body for entry in view.read(0)] == [b"2", b"3"]
            assert (view.last(), view.base(), view.forgotten(), view.snapshots()) == (3, 1, {"bob": 2}, [saved])
            with view.opened(saved) as path:
                assert path.read_bytes() == b"content"


def test_others_can_look_into_it_when_nobody_writes(url: str) -> None:
    with closing(stores.opened(url)) as store:
        appended(store, numbers(1, 2))
    with closing(stores.inspected(url)) as view:
        assert [entry.body for entry in view.read(0)] == [b"1", b"2"]
        with closing(stores.opened(url)) as store:
            appended(store, numbers(3))
            assert [entry.body for entry in view.read(0)] == [b"1", b"2", b"3"]


def test_looking_where_there_is_no_store_makes_none(url: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidInput, match="give the"):
            stores.inspected(url)


@pytest.mark.parametrize("bad", ["data", "sqlite", "mysql://u:secret@h/d", "", ":"])
def test_an_address_of_no_kind_is_refused(bad: str) -> None:
    for use in (stores.opened, stores.inspected):
        with pytest.raises(InvalidInput, match="give sqlite:FOLDER or postgresql://") as raised:
            use(bad)
        assert "secret" not in str(raised.value)


# What may happen to it

WRITER = """
import sys
from coldstream.storage import stores
from coldstream.storage.store import LogLine
store = stores.opened(sys.argv[1])
while True:
    last = store.last()
    print(*store.append([LogLine(b"%d" % (last + i), event_id=str(last + i)) for i in range(1, 8)], last), flush=True)
"""


def test_nothing_acknowledged_is_lost_and_nothing_is_half_there_after_kill_9(url: str) -> None:
    rng, acknowledged = random.Random(4), 0
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            for _ in range(rng.randrange(1, 30)):
                acknowledged = int(child.stdout.readline().split()[-1])
            os.kill(child.pid, signal.SIGKILL)
            rest = child.stdout.read().split(b"\n")[:-1]
            acknowledged = int(rest[-1].split()[-1]) if rest else acknowledged
        with closing(stores.inspected(url)) as view:
            assert view.last() >= acknowledged
        with closing(stores.opened(url)) as store:
            assert list(store.read(0)) == [Entry(n, b"%d" % n) for n in range(1, store.last() + 1)]
            assert store.last() in (acknowledged, acknowledged + 7)


def test_postgresql_is_stopped_and_started_and_the_store_goes_on(postgres: "PostgresServer") -> None:
    with closing(stores.opened(postgres.new_schema())) as store:
        appended(store, [LogLine(b"1", event_id="a")])
        postgres.stop()
        try:
            for _ in range(3):
                with pytest.raises(StoreUnavailable, match="goes on by itself"):
                    appended(store, numbers(2))
            with pytest.raises(StoreUnavailable):
                list(store.read(0))
        finally:
            postgres.start()
        assert appended(store, [LogLine(b"3"), LogLine(b"4", event_id="a")]) == [2, None]
        assert bodies(store) == [b"1", b"3"]


# The model


NAMES = st.sampled_from(["ann", "bob", "cy", "a\0"])
LINES = st.builds(
    LogLine, st.binary(max_size=3), st.none() | NAMES, st.none() | st.sampled_from("abcdef"), st.just(False)
) | st.builds(LogLine, st.just(b"forget"), NAMES, st.none(), st.just(True))


class Machine(RuleBasedStateMachine):
    """A store beside a plain list, which is what a store is."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url, self.store = url, stores.opened(url)
        self.lines: dict[int, LogLine] = {}
        self.last_position = self.base = 0
        self.saved: dict[Saved, bytes] = {}

    @rule(lines=st.lists(LINES, max_size=8))
    def append(self, lines: list[LogLine]) -> None:
        expected, before = list[int | None](), self.last_position
        for line in lines:
            if line.event_id is not None and line.event_id in {line.event_id for line in self.lines.values()}:
                expected.append(None)
                continue
            self.last_position += 1
            self.lines[self.last_position] = line
            expected.append(self.last_position)
        assert self.store.append(lines, before) == expected

    @rule(back=st.dictionaries(NAMES, st.integers(0, 5)), base_back=st.integers(0, 5))
    def purge(self, back: dict[str, int], base_back: int) -> None:
        base = max(0, self.last_position - base_back)
        users = {user: max(0, base - own) for user, own in back.items()}
        self.store.purge(users, base)
        self.lines = {p: line for p, line in self.lines.items() if line.user is None or p > users.get(line.user, 0)}
        self.base = max(self.base, base)

    @rule(written=st.binary(max_size=9))
    def save(self, written: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "file").write_bytes(written)
            saved = self.store.save(self.last_position, Path(folder) / "file")
        assert saved.position == self.last_position
        assert all(saved.number > before.number for before in self.saved)
        self.saved[saved] = written

    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        if self.saved:
            saved = data.draw(st.sampled_from(sorted(self.saved)))
            self.store.discard(saved)
            del self.saved[saved]

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = stores.opened(self.url)

    @rule(after=st.integers(0, 20))
    def read(self, after: int) -> None:
        assert list(self.store.read(after)) == [Entry(p, line.body) for p, line in self.lines.items() if p > after]

    @invariant()
    def tells_the_same(self) -> None:
        assert (self.store.last(), self.store.base()) == (self.last_position, self.base)
        asking = [(line.user, position) for position, line in self.lines.items() if line.forgets]
        assert list(self.store.forgotten().items()) == list(dict(asking).items())
        assert self.store.snapshots() == sorted(self.saved, reverse=True)
        assert {saved: content(self.store, saved) for saved in self.saved} == self.saved

    def teardown(self) -> None:
        self.read(0)
        self.store.close()


def test_a_store_is_what_a_plain_list_is(new_url: Callable[[], str]) -> None:
    run_state_machine_as_test(lambda: Machine(new_url()), settings=settings(max_examples=25, stateful_step_count=25))
