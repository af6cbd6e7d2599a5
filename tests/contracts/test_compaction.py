"""In every store, the beginning of a log can be deleted, in steps, and what is left is still all that was written."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from stores_under_test import SQLITE, appended, numbers
from test_checksums import Raw

from coldstream.errors import InvalidInput, StoreDamaged, StoreMovedOn
from coldstream.storage import stores
from coldstream.storage.checksums import Bounds, sealed_without_cut
from coldstream.storage.postgres import compaction as postgres_compaction
from coldstream.storage.sqlite import compaction as sqlite_compaction
from coldstream.storage.store import Entry, LogLine, Store

pytest_plugins = ["postgres_server", "stores_under_test"]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sqlite_compaction, postgres_compaction):
        monkeypatch.setattr(module, "STEP", 7)
    monkeypatch.setattr(sqlite_compaction, "MARGIN", 5)


def cleared(store: Store) -> int:
    """Delete what lies before the cut; in how many steps."""
    return sum(1 for _ in store.clear_in_steps())


def rows(url: str) -> list[tuple[int, bytes | None]]:
    with closing(Raw(url)) as raw:
        return [(position, body) for position, body in raw.do("SELECT position, body FROM {}log ORDER BY position")]


def test_lines_before_the_cut_are_not_read_and_then_not_there(store: Store, url: str) -> None:
    appended(store, numbers(*range(1, 101)))
    assert (store.cut(), store.base()) == (0, 0)
    store.cut_off(60, [])
    expected = [Entry(n, b"%d" % n) for n in range(61, 101)]
    assert (store.cut(), store.base(), store.last()) == (60, 60, 100)
    assert list(store.read(0)) == list(store.read(60)) == list(store.read(17)) == expected
    assert cleared(store) > 5
    assert cleared(store) == 0
    left = rows(url)
    assert [position for position, body in left if body is not None] == list(range(61, 101))
    assert left[0][0] >= 55
    assert list(store.read(0)) == expected
    assert list(store.read(80)) == expected[20:]
    assert appended(store, numbers(101)) == [101]


def test_everything_can_be_cut_off_and_the_log_goes_on(url: str) -> None:
    with closing(stores.opened(url)) as store:
        appended(store, numbers(*range(1, 31)))
        store.cut_off(30, [])
        cleared(store)
        assert (store.last(), list(store.read(0))) == (30, [])
    with closing(stores.opened(url)) as store:
        assert (store.last(), store.cut(), store.base()) == (30, 30, 30)
        assert store.append(numbers(31), 30) == [31]
        assert list(store.read(0)) == [Entry(31, b"31")]


def test_a_cut_never_goes_back_and_nothing_is_cut_off_that_is_not_there(store: Store) -> None:
    appended(store, numbers(*range(1, 11)))
    store.cut_off(5, [])
    for position in (4, 11):
        with pytest.raises(AssertionError):
            store.cut_off(position, [])
    assert (store.cut(), store.base()) == (5, 5)


def test_event_ids_behind_the_cut_are_known_and_those_before_it_are_not(store: Store) -> None:
    appended(store, [LogLine(b"", event_id=str(n)) for n in range(1, 41)])
    store.cut_off(20, [])
    cleared(store)
    assert appended(store, [LogLine(b"", event_id="21"), LogLine(b"", event_id="20")]) == [None, 41]


def test_a_cut_that_was_interrupted_goes_on_where_it_was(url: str) -> None:
    with closing(stores.opened(url)) as store:
        appended(store, numbers(*range(1, 101)))
        store.cut_off(90, [])
        steps = store.clear_in_steps()
        next(steps), next(steps), next(steps)
        assert len(rows(url)) > 50
    with closing(stores.opened(url)) as store:
        assert list(store.read(0)) == [Entry(n, b"%d" % n) for n in range(91, 101)]
        assert cleared(store)
        assert len(rows(url)) <= 10 + 6
        assert list(store.read(0)) == [Entry(n, b"%d" % n) for n in range(91, 101)]


def test_others_use_the_store_between_steps(store: Store, file: Callable[[bytes], Path]) -> None:
    appended(store, [LogLine(b"%d" % n, f"user{n % 3}") for n in range(1, 61)])
    store.cut_off(40, [])
    for n, _ in enumerate(store.clear_in_steps()):
        assert appended(store, numbers(n)) == [61 + n]
        if n == 1:
            store.purge({"user1": 60}, 60)
            saved = store.save(store.last(), file(b"content"))
    assert store.snapshots() == [saved]
    assert [entry.position for entry in store.read(0)][:14] == [41, 42, 44, 45, 47, 48, 50, 51, 53, 54, 56, 57, 59, 60]


def test_whoever_reads_while_lines_are_deleted_goes_on_behind_the_cut(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for log in ("sqlite.log", "postgres.log"):
        monkeypatch.setattr(f"coldstream.storage.{log}.PAGE", 10)
    with closing(stores.opened(url)) as store, closing(stores.inspected(url)) as view:
        appended(store, numbers(*range(1, 101)))
        reading = view.read(0)
        assert [next(reading).position for _ in range(15)] == list(range(1, 16))
        store.cut_off(70, [])
        cleared(store)
        assert [entry.position for entry in reading] == [*range(16, 21), *range(71, 101)]


def test_a_line_that_is_missing_behind_the_cut_is_damage(store: Store, url: str) -> None:
    appended(store, numbers(*range(1, 101)))
    store.cut_off(50, [])
    cleared(store)
    with closing(Raw(url)) as raw:
        for statement in ("DELETE FROM {}log WHERE position = 51", "DELETE FROM {}log WHERE position = 50"):
            raw.do(statement)
            with pytest.raises(StoreDamaged, match="missing"):
                list(store.read(0))
        raw.do("UPDATE {}meta SET cut = 51")
        with pytest.raises(StoreDamaged, match="changed behind its back"):
            list(store.read(0))


def test_a_snapshot_from_before_the_cut_is_not_taken_over(store: Store, file: Callable[[bytes], Path]) -> None:
    appended(store, numbers(1, 2, 3))
    store.cut_off(2, [])
    with pytest.raises(StoreMovedOn, match="erased or deleted"):
        store.save(1, file(b"old"))
    store.save(2, file(b"as old as may be"))


def test_what_is_kept_of_deleted_lines_stays_until_its_user_is_purged(url: str) -> None:
    of_ann, of_bob, of_all = LogLine(b"1", "ann"), LogLine(b"2", "b\0b"), LogLine(b"3")
    with closing(stores.opened(url)) as store:
        appended(store, numbers(*range(1, 21)))
        assert store.kept() == []
        store.cut_off(5, [of_ann, of_bob])
        store.cut_off(10, [of_all, of_ann])
        assert store.kept() == [of_ann, of_bob, of_all, of_ann]
        store.purge({"ann": 12}, 12)
        assert store.kept() == [of_bob, of_all]
    with closing(stores.inspected(url)) as view:
        assert view.kept() == [of_bob, of_all]


def test_marks_tell_when_lines_were_written(url: str) -> None:
    with closing(stores.opened(url)) as store:
        appended(store, numbers(1, 2))
        store.mark(100.0)
        store.mark(200.0)  # nothing is new: they were there at 100
        appended(store, numbers(3))
        store.mark(300.5)
        appended(store, numbers(4))
        store.mark(400.0)
        assert store.marks() == [(2, 100.0), (3, 300.5), (4, 400.0)]
        store.cut_off(3, [])
        assert store.marks() == [(3, 300.5), (4, 400.0)]
    with closing(stores.inspected(url)) as view:
        assert view.marks() == [(3, 300.5), (4, 400.0)]


def test_the_size_follows_what_there_is(store: Store, file: Callable[[bytes], Path]) -> None:
    empty = store.size()
    appended(store, [LogLine(bytes(1000)) for _ in range(1000)])
    full = store.size()
    assert 900_000 < full - empty < 2_000_000
    saved = store.save(1000, file(bytes(500_000)))
    assert 490_000 < store.size() - full < 600_000
    store.discard(saved)
    store.cut_off(900, [])
    cleared(store)
    assert store.size() < empty + 400_000


def test_sqlite_gives_the_room_back_to_the_disk(tmp_path: Path) -> None:
    chance = random.Random(1)
    with closing(stores.opened(f"sqlite:{tmp_path}")) as store:
        for _ in range(20):
            appended(store, [LogLine(chance.randbytes(500), event_id=str(chance.random())) for _ in range(1000)])
        list(store.clear_in_steps())
        before = sum(path.stat().st_size for path in tmp_path.rglob("*"))
        store.cut_off(19_000, [])
        list(store.clear_in_steps())
        assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 0.15 * before


@pytest.mark.parametrize("size", [60, 900])
def test_nobody_leaves_a_trace_in_sqlite_who_is_purged_after_a_cut(tmp_path: Path, size: int) -> None:
    """Deleting moves lines from page to page, and of none that is left may a copy stay that no purge finds."""
    rng = random.Random(size)
    people = [f"person-{rng.getrandbits(64):016x}" for _ in range(40)]
    with closing(stores.opened(f"sqlite:{tmp_path / 'data'}")) as store:
        sqlite_compaction.MARGIN, sqlite_compaction.STEP = 400, 300
        for _ in range(8):
            lines = []
            for person in rng.choices(people, k=1000):
                body = f'{{"user": "{person}", "likes": "secret of {person}{"x" * rng.randrange(size)}"}}'.encode()
                lines.append(LogLine(body, person, f"event of {person} {rng.getrandbits(64)}"))
            appended(store, lines)
            kept = [LogLine(b"kept", people[0]), LogLine(b"kept", people[39])]
            store.cut_off(store.last() - rng.randrange(300, 900), kept)
            list(store.clear_in_steps())
        store.purge(dict.fromkeys(people[:20], store.last()), store.last())
        left = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert not [person for person in people[:20] if person.encode() in left]
        assert people[39].encode() in left


CUTTER = """
import sys
from coldstream.storage.postgres import compaction as postgres_compaction
from coldstream.storage.sqlite import compaction as sqlite_compaction
from coldstream.storage import stores
from coldstream.storage.store import LogLine
sqlite_compaction.STEP = postgres_compaction.STEP = 3
sqlite_compaction.MARGIN = 5
store = stores.opened(sys.argv[1])
while True:
    last = store.last()
    print(*store.append([LogLine(b"%d" % (last + i), event_id=str(last + i)) for i in range(1, 40)], last), flush=True)
    store.cut_off(max(store.cut(), last - 10), [LogLine(b"%d" % last, "ann")])
    for _ in store.clear_in_steps():
        print(flush=True)
"""


def test_kill_9_while_lines_are_deleted_loses_none_behind_the_cut(url: str) -> None:
    rng, interrupted = random.Random(5), 0
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", CUTTER, url], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            for _ in range(rng.randrange(5, 60)):
                child.stdout.readline()
            os.kill(child.pid, signal.SIGKILL)
            child.stdout.read()
        with closing(stores.opened(url)) as store:
            cut, last = store.cut(), store.last()
            assert list(store.read(0)) == [Entry(n, b"%d" % n) for n in range(cut + 1, last + 1)]
            interrupted += cleared(store) > 0
            assert list(store.read(0)) == [Entry(n, b"%d" % n) for n in range(cut + 1, last + 1)]
            known = [LogLine(b"", event_id=str(n)) for n in range(cut + 1, last + 1)]
            assert appended(store, known) == [None] * (last - cut)
    assert interrupted >= 2


def test_a_log_that_no_release_could_cut_off_is_taken_over(url: str) -> None:
    with closing(stores.opened(url)) as store:
        appended(store, [LogLine(b"1", "ann", "a"), LogLine(b"2"), LogLine(b"3")])
        store.purge({"ann": 1}, 2)
    _made_format_2(url)
    with pytest.raises(InvalidInput, match=r"has format 2, this release reads [34]; start the service once"):
        stores.inspected(url)
    for last in (3, 4):
        with closing(stores.opened(url)) as store:
            assert (store.base(), store.last(), store.cut(), store.kept(), store.marks()) == (2, last, 0, [], [])
            assert [entry.body for entry in store.read(0)][:2] == [b"2", b"3"]
            appended(store, numbers(4))
    with closing(stores.opened(url)) as store:
        store.cut_off(3, [])
        cleared(store)
        assert [entry.position for entry in store.read(0)] == [4, 5]


def _made_format_2(url: str) -> None:
    """What the release before wrote."""
    if url.startswith(SQLITE):
        with closing(sqlite3.connect(Path(url.removeprefix("sqlite:")) / "log.sqlite")) as connection, connection:
            (found,) = connection.execute("SELECT base, last, checksum FROM meta")
            connection.executescript(
                "DROP TABLE meta; DROP TABLE mark; DROP TABLE kept; PRAGMA user_version = 2; CREATE TABLE meta "
                "(base INTEGER NOT NULL, last INTEGER NOT NULL, checksum INTEGER NOT NULL, seal INTEGER NOT NULL)"
            )
            connection.execute("INSERT INTO meta VALUES (?, ?, ?, ?)", (*found, sealed_without_cut(Bounds(*found))))
        return
    with psycopg.connect(url) as connection:
        (found,) = connection.execute("SELECT base, last, checksum FROM coldstream_meta")
        connection.execute("DROP TABLE coldstream_mark, coldstream_kept, coldstream_writer")
        connection.execute("ALTER TABLE coldstream_meta DROP cut, DROP epoch")
        seal = sealed_without_cut(Bounds(*found))
        connection.execute("UPDATE coldstream_meta SET version = 2, seal = %s", (seal,))
