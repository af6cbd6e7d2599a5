"""What every store has to do, on the real database."""

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from coldstream.errors import InvalidInput, InvalidSnapshot, StoreInUse, StoreUnavailable
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
    assert store.append([]) == []
    assert store.last() == 0


def test_lines_get_rising_positions_and_are_read_in_order(store: Store) -> None:
    assert store.append(numbers(10, 11)) == [1, 2]
    assert store.append(numbers(12)) == [3]
    assert list(store.read(0)) == [Entry(1, b"10"), Entry(2, b"11"), Entry(3, b"12")]
    assert list(store.read(2)) == [Entry(3, b"12")]
    assert list(store.read(3)) == []
    assert store.last() == 3


def test_bodies_come_back_byte_by_byte(store: Store) -> None:
    odd = [b"", b"\0", bytes(range(256)), "\0ä😀".encode(), random.Random(3).randbytes(3_000_000)]
    store.append([LogLine(body) for body in odd])
    assert bodies(store) == odd


def test_a_long_log_is_read_over_many_pages(store: Store) -> None:
    lines = numbers(*range(5001))
    assert store.append(lines) == list(range(1, 5002))
    assert bodies(store) == [line.body for line in lines]
    assert bodies(store, 1999) == [line.body for line in lines[1999:]]


def test_reading_goes_up_to_what_was_there_when_it_began(store: Store) -> None:
    store.append(numbers(1, 2))
    reading = store.read(0)
    store.append(numbers(3))
    assert [entry.body for entry in reading] == [b"1", b"2"]


def test_an_event_id_is_taken_once(store: Store) -> None:
    first = [LogLine(b"1", event_id="a"), LogLine(b"2", event_id="b"), LogLine(b"3", event_id="a")]
    assert store.append(first) == [1, 2, None]
    assert store.append([LogLine(b"4", event_id="b"), LogLine(b"5"), LogLine(b"6", event_id="c")]) == [None, 3, 4]
    assert bodies(store) == [b"1", b"2", b"5", b"6"]


def test_a_call_with_nothing_new_writes_nothing(store: Store) -> None:
    store.append([LogLine(b"1", event_id="a")])
    assert store.append([LogLine(b"2", event_id="a")]) == [None]
    assert store.last() == 1


@pytest.mark.parametrize("long", ["x" * 1000, "𝔘" * 20_000])
def test_ids_are_told_apart_whatever_they_are_made_of(store: Store, long: str) -> None:
    names = ["", " ", "\0", "\0\0", "a", "a\0", "a\0b", "A", "á", "a\u0301", "\\x61", "😀", "\ue000", long, long + "\0"]
    assert store.append([LogLine(b"", user=name, event_id=name) for name in names]) == list(range(1, len(names) + 1))
    assert store.append([LogLine(b"", event_id=name) for name in names]) == [None] * len(names)
    store.append([LogLine(b"", user=name, forgets=True) for name in names])
    assert list(store.forgotten()) == names
    for left, name in enumerate(names, 1):
        store.purge({name: store.last()}, store.last())
        assert len(list(store.read(0))) == 2 * (len(names) - left)


def test_lines_are_appended_all_or_none(store: Store) -> None:
    store.append(numbers(1))
    with pytest.raises(UnicodeEncodeError):
        store.append([LogLine(b"2", event_id="a"), LogLine(b"3", user="\ud800"), LogLine(b"4")])
    assert (bodies(store), store.last()) == ([b"1"], 1)
    assert store.append([LogLine(b"2", event_id="a")]) == [2]


def test_everything_is_there_after_reopening(url: str, file: Callable[[bytes], Path]) -> None:
    with closing(stores.opened(url)) as store:
        store.append([LogLine(b"1", "ann", "a"), LogLine(b"2", "bob", forgets=True), LogLine(b"3", "cy")])
        store.purge({"ann": 1}, 1)
        saved = store.save(2, file(b"content"))
    with closing(stores.opened(url)) as store:
        assert list(store.read(0)) == [Entry(2, b"2"), Entry(3, b"3")]
        assert (store.last(), store.base(), store.forgotten(), store.snapshots()) == (3, 1, {"bob": 2}, [saved])
        assert content(store, saved) == b"content"
        assert store.append([LogLine(b"4", event_id="a")]) == [4]


# Purging


def test_a_purge_erases_lines_of_its_users_up_to_a_position(store: Store) -> None:
    store.append([LogLine(b"1", "ann"), LogLine(b"2", "bob"), LogLine(b"3", "cy"), LogLine(b"4"), LogLine(b"5", "ann")])
    store.purge({"ann": 4, "cy": 3, "nobody": 9, "bob": 1}, 4)
    assert list(store.read(0)) == [Entry(2, b"2"), Entry(4, b"4"), Entry(5, b"5")]
    assert store.base() == 4


def test_a_base_never_goes_back(store: Store) -> None:
    store.append(numbers(1, 2, 3))
    store.purge({"ann": 1}, 3)
    store.purge({"bob": 2}, 2)
    assert store.base() == 3


def test_users_are_forgotten_until_they_are_purged(store: Store) -> None:
    store.append(
        [LogLine(b"", "bob", forgets=True), LogLine(b"", "ann"), LogLine(b"", "ann", forgets=True), LogLine(b"", "bob")]
    )
    store.append([LogLine(b"", "bob", forgets=True)])
    assert list(store.forgotten().items()) == [("bob", 5), ("ann", 3)]
    store.purge({"ann": 2, "bob": 2}, 5)
    assert list(store.forgotten().items()) == [("ann", 3), ("bob", 5)]
    store.purge({"bob": 5}, 5)
    assert store.forgotten() == {"ann": 3}


def test_a_purged_event_id_is_gone_with_its_line(store: Store) -> None:
    store.append([LogLine(b"1", "ann", "a")])
    store.purge({"ann": 1}, 1)
    assert store.append([LogLine(b"2", "bob", "a")]) == [2]


def test_positions_are_never_given_out_twice(url: str) -> None:
    with closing(stores.opened(url)) as store:
        store.append([LogLine(b"1", "ann"), LogLine(b"2", "ann")])
        store.purge({"ann": 2}, 2)
        assert (store.last(), list(store.read(0))) == (2, [])
    with closing(stores.opened(url)) as store:
        assert store.append(numbers(3)) == [3]


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
        assert store.append(numbers(1)) == [1]
    stores.opened(url).close()


def test_others_can_look_into_it_while_it_is_written(url: str, file: Callable[[bytes], Path]) -> None:
    with closing(stores.opened(url)) as store:
        store.append([LogLine(b"1", "ann"), LogLine(b"2", "bob", forgets=True)])
        with closing(stores.inspected(url)) as view:
            assert list(view.read(0)) == list(store.read(0))
            store.append(numbers(3))
            store.purge({"ann": 1}, 1)
            saved = store.save(3, file(b"content"))
            assert [entry.body for entry in view.read(0)] == [b"2", b"3"]
            assert (view.last(), view.base(), view.forgotten(), view.snapshots()) == (3, 1, {"bob": 2}, [saved])
            with view.opened(saved) as path:
                assert path.read_bytes() == b"content"


def test_others_can_look_into_it_when_nobody_writes(url: str) -> None:
    with closing(stores.opened(url)) as store:
        store.append(numbers(1, 2))
    with closing(stores.inspected(url)) as view:
        assert [entry.body for entry in view.read(0)] == [b"1", b"2"]
        with closing(stores.opened(url)) as store:
            store.append(numbers(3))
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
    print(*store.append([LogLine(b"%d" % (last + i), event_id=str(last + i)) for i in range(1, 8)]), flush=True)
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
        store.append([LogLine(b"1", event_id="a")])
        postgres.stop()
        try:
            for _ in range(3):
                with pytest.raises(StoreUnavailable, match="and try again"):
                    store.append(numbers(2))
            with pytest.raises(StoreUnavailable):
                list(store.read(0))
        finally:
            postgres.start()
        assert store.append([LogLine(b"3"), LogLine(b"4", event_id="a")]) == [2, None]
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
        expected: list[int | None] = []
        for line in lines:
            if line.event_id is not None and line.event_id in {line.event_id for line in self.lines.values()}:
                expected.append(None)
                continue
            self.last_position += 1
            self.lines[self.last_position] = line
            expected.append(self.last_position)
        assert self.store.append(lines) == expected

    @rule(back=st.dictionaries(NAMES, st.integers(0, 5)), base_back=st.integers(0, 5))
    def purge(self, back: dict[str, int], base_back: int) -> None:
        users = {user: max(0, self.last_position - own) for user, own in back.items()}
        base = max(0, self.last_position - base_back)
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
