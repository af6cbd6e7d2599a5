"""What every store has to do, on the real database."""

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from stores_under_test import SQLITE, appended, numbers

from coldstream.errors import InvalidInput, InvalidSnapshot, StoreDamaged, StoreInUse, StoreMovedOn, StoreUnavailable
from coldstream.storage import stores
from coldstream.storage.postgres import log as postgres_log
from coldstream.storage.postgres import session as postgres_session
from coldstream.storage.sqlite import log as sqlite_log
from coldstream.storage.store import Entry, LogLine, Saved, Store

if TYPE_CHECKING:
    from postgres_server import PostgresServer

pytest_plugins = ["postgres_server", "stores_under_test"]


def bodies(store: Store, after: int = 0) -> list[bytes]:
    return [entry.body for entry in store.read(after)]


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


def test_lines_are_read_up_to_a_position(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for own in (sqlite_log, postgres_log):
        monkeypatch.setattr(own, "PAGE", 2)
    appended(store, [LogLine(b"%d" % n, "ann" if n in (3, 4) else None) for n in range(1, 8)])
    store.purge({"ann": 7}, 7)
    for after, until, found in ((0, 2, [1, 2]), (0, 3, [1, 2]), (2, 4, []), (4, 7, [5, 6, 7]), (6, 9, [7]), (5, 5, [])):
        assert [entry.position for entry in store.read(after, until)] == found
    assert [entry.position for entry in store.read(2)] == [5, 6, 7]


def test_a_touch_and_a_trim_change_nothing(store: Store) -> None:
    appended(store, numbers(1, 2))
    store.touch()
    store.trim()
    assert (bodies(store, 0), store.last(), store.base(), store.cut()) == ([b"1", b"2"], 2, 0, 0)
    assert appended(store, numbers(3)) == [3]


def test_it_is_told_whether_a_user_has_lines(store: Store) -> None:
    appended(store, [LogLine(b"1", "zoë"), LogLine(b"2", "bob"), LogLine(b"3", "zoë"), LogLine(b"4")])
    asked = [("zoë", 0, 1), ("zoë", 1, 2), ("zoë", 1, 3), ("zoë", 3, 4), ("bob", 0, 4), ("zo", 0, 4), ("nobody", 0, 4)]
    assert [store.has_lines(*own) for own in asked] == [True, False, True, False, True, False, False]
    store.purge({"zoë": 4}, 4)
    assert not store.has_lines("zoë", 0, 4)


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
                with pytest.raises(StoreUnavailable, match="and try again"):
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
        self.last_position = self.base = self.cut = 0
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

    @rule(back=st.integers(0, 5))
    def cut_off(self, back: int) -> None:
        self.cut = max(self.cut, self.last_position - back)
        self.store.cut_off(self.cut, [])
        for _ in self.store.clear_in_steps():
            pass
        self.lines = {position: line for position, line in self.lines.items() if position > self.cut}
        self.base = max(self.base, self.cut)

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
        assert (self.store.last(), self.store.base(), self.store.cut()) == (self.last_position, self.base, self.cut)
        asking = [(line.user, position) for position, line in self.lines.items() if line.forgets]
        assert list(self.store.forgotten().items()) == list(dict(asking).items())
        assert self.store.snapshots() == sorted(self.saved, reverse=True)
        assert {saved: content(self.store, saved) for saved in self.saved} == self.saved

    def teardown(self) -> None:
        self.read(0)
        self.store.close()


def test_a_store_is_what_a_plain_list_is(new_url: Callable[[], str]) -> None:
    run_state_machine_as_test(lambda: Machine(new_url()), settings=settings(max_examples=25, stateful_step_count=25))
