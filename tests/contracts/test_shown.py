"""Lists that were shown, kept beside a log: the contract, on real databases."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import cast

import pytest

from coldstream.errors import InvalidInput, StoreDamaged, StoreUnavailable
from coldstream.storage import stores
from coldstream.storage.shown import DAY, MOST_POSITIONS, PositionCount, ShownList, ShownStore, Take
from coldstream.storage.sqlite import shown as sqlite_shown
from coldstream.storage.sqlite.shown import DATABASE, SqliteShown

pytest_plugins = ["postgres_server", "stores_under_test"]

ANN = ShownList("first", "ann\0ä", 10 * DAY + 5, ("a", "b", "c\n"))
NEXT = ShownList("next", "ann\0ä", 10 * DAY + 9, ("a", "b", "c\n", "d"), 3)
BOB = ShownList("bob's", None, 11 * DAY, ("b",))
ENDLESS = 2**63 - 1


def done(steps: Iterator[None]) -> int:
    """Take all steps; how many there were."""
    return sum(1 for _ in steps)


@pytest.fixture
def shown(url: str) -> Iterator[ShownStore]:
    with closing(stores.shown(url)) as own:
        own.keep([ANN, NEXT])
        own.keep([BOB])
        yield own


def test_what_is_kept_is_found_by_name_and_read_in_order(shown: ShownStore, url: str) -> None:
    assert shown.find(["first", "unheard of", "bob's"]) == {"first": ANN, "bob's": BOB}
    assert list(shown.read()) == [ANN, NEXT, BOB] == list(stores.read_shown(url))


def test_what_is_shown_and_taken_counts_by_position(shown: ShownStore) -> None:
    shown.take([Take("first", 0, ANN.time), Take("first", 2, ANN.time), Take("gone", 1, 3 * DAY)])
    assert shown.find(["first"])["first"].taken == {0, 2}
    shown.take([Take("next", 3, NEXT.time)])
    counts = {one.position: one[1:] for one in shown.counts()}
    assert counts == {0: (2, 1), 1: (1, 1), 2: (1, 1), 3: (1, 1)}
    assert all(isinstance(value, int) for one in shown.counts() for value in one)


def test_what_is_old_goes_and_its_counts_a_day_at_a_time(shown: ShownStore) -> None:
    done(shown.trim_in_steps(10 * DAY + 7, ENDLESS))
    assert list(shown.read()) == [NEXT, BOB]
    assert shown.counts()[0] == PositionCount(0, 2, 0)
    done(shown.trim_in_steps(11 * DAY, ENDLESS))
    assert list(shown.read()) == [BOB]
    assert shown.counts() == [PositionCount(0, 1, 0)]


def test_whoever_is_erased_is_in_no_list_and_in_no_file(shown: ShownStore, url: str) -> None:
    many = [ShownList(f"n{n}", "erased-person", 11 * DAY, ("a" * 50, f"item {n}")) for n in range(3000)]
    others = [ShownList(f"o{n}", "somebody", 11 * DAY, ("a" * 50, f"item {n}")) for n in range(3000)]
    for one, other in zip(many, others, strict=True):
        shown.keep([one, other])
    done(shown.erase_in_steps(["erased-person", "nobody"]))
    assert list(shown.read()) == [ANN, NEXT, BOB, *others]
    folder = Path(url.removeprefix("sqlite:"))
    if url.startswith("sqlite:"):
        files = [path for path in folder.iterdir() if path.is_file()]
        assert files
        assert not any(b"erased-person" in path.read_bytes() for path in files)


def test_whoever_is_erased_while_somebody_reads_is_not_said_to_be_gone_before_it_is_so(tmp_path: Path) -> None:
    with (
        closing(SqliteShown(tmp_path)) as own,
        closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as reader,
    ):
        own.keep([ANN, ShownList("last", "erased-person", 10 * DAY, ("a",))])
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM list").fetchone() == (2,)
        with pytest.raises(StoreUnavailable, match="another program reads"):
            done(own.erase_in_steps(["erased-person"]))
        reader.execute("COMMIT")
        done(own.erase_in_steps(["erased-person"]))
        assert list(own.read()) == [ANN]
        assert not any(b"erased-person" in path.read_bytes() for path in tmp_path.iterdir())


def test_no_file_has_an_id_that_was_erased_or_expired_whatever_the_tables_went_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite copies rows from page to page when tables grow and shrink, and leaves the copies in free parts of pages."""
    monkeypatch.setattr(sqlite_shown, "MOST_NUMBERS", 50)
    random, gone, rest = Random(7), list[str](), list[list[str]]()
    with closing(SqliteShown(tmp_path)) as own:
        for time in range(60):
            people = [f"<{random.randrange(4000)}{'x' * random.randrange(60)}>" for _ in range(100)]
            lists = [ShownList(f"{time}-{n}", one, time, ("item",) * random.randrange(40)) for n, one in enumerate(people)]
            own.keep(lists)
            own.take([Take(one.name, position, time) for one in lists[::3] for position in range(9)])
            some = random.sample(people, 4)
            done(own.erase_in_steps(some[:2]))
            done(own.hand_over_in_steps(some[2], some[3]))
            done(own.trim_in_steps(time - 40, ENDLESS))
            gone += some[:3]
            rest.append(people)
            if time % 3 == 2:  # most of those whose ids stand in one page, and some of those who are left later
                random.shuffle(rest[-2])
                for many in (rest[-2][:90], *([rest[-8][90:95]] if time > 8 else [])):
                    done(own.erase_in_steps(many))
                    gone += many
        there = {one.user for one in own.read()}
        assert len(there) > 500
        done(own.erase_in_steps(["nobody"]))  # empties the WAL
        content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert all((name.encode() in content) == (name in there) for name in there.union(gone))
        done(own.trim_in_steps(60, ENDLESS))
        done(own.erase_in_steps(["nobody"]))
        content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert not any(str(name).encode() in content for name in there)
        assert list(own.read()) == []


def test_rows_of_ids_are_deleted_behind_a_margin_of_blank_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_shown, "MARGIN", 300)
    with closing(SqliteShown(tmp_path)) as own:
        for time in range(20):
            own.keep([ShownList(f"{time}-{n}", f"<person {time} {n}>", time, ("a",)) for n in range(100)])
        done(own.trim_in_steps(19, ENDLESS))
        with closing(sqlite3.connect(tmp_path / DATABASE)) as look:
            assert look.execute("SELECT count(*), count(name) FROM person").fetchone() == (400, 100)
        own.keep([ShownList("more", "<person 19 5>", 20, ("a",)), ShownList("new", "<new>", 20, ("a",))])
        assert {one.user for one in own.read()} == {"<new>", *(f"<person 19 {n}>" for n in range(100))}


def test_an_erasure_takes_small_steps_and_does_not_rewrite_the_file(shown: ShownStore, url: str) -> None:
    shown.keep([ShownList(f"n{n}", "ann", 11 * DAY, ("a",)) for n in range(5000)])
    said = list[str]()
    if url.startswith("sqlite:"):
        shown._opened.set_trace_callback(said.append)  # type: ignore[attr-defined]
    steps, found = 0, list[int]()
    for _ in shown.erase_in_steps(["ann"]):
        steps += 1
        found.append(len(shown.find(["first", "n0", "n4999"])))
    assert steps >= 5
    assert found[0] == 2, "between two steps lists are found"
    assert not any("VACUUM" in one.upper() for one in said)
    assert list(shown.read()) == [ANN, NEXT, BOB]


def test_the_oldest_lists_go_where_all_take_too_much(shown: ShownStore, url: str) -> None:
    most = 2_000_000
    for batch in range(20):
        lists = [ShownList(f"{batch}-{n}", f"u{n % 7}", 11 * DAY + batch, ("item",) * 40) for n in range(1000)]
        shown.keep(lists)
        done(shown.trim_in_steps(0, most))
        assert shown.size() <= most + 5_000_000, "with a WAL"
    left = list(shown.read())
    assert 1000 < len(left) < 15_000
    assert left[-1] == lists[-1]
    assert [one.time for one in left] == sorted(one.time for one in left)
    assert shown.find(["first"]) == {}
    if url.startswith("sqlite:"):
        assert (Path(url.removeprefix("sqlite:")) / DATABASE).stat().st_size < 2 * most


def test_whose_lists_are_kept_is_known(shown: ShownStore) -> None:
    assert [shown.has(user) for user in ("ann\0ä", "ann", "first")] == [True, False, False]
    done(shown.trim_in_steps(10 * DAY + 7, ENDLESS))
    assert shown.has("ann\0ä")
    done(shown.trim_in_steps(11 * DAY, ENDLESS))
    assert not shown.has("ann\0ä")


def test_a_file_that_another_program_holds_holds_up_no_start_and_no_call(tmp_path: Path) -> None:
    with closing(SqliteShown(tmp_path)) as own:
        own.keep([ANN])
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with closing(SqliteShown(tmp_path)) as own:
            for call in (lambda: own.keep([BOB]), lambda: own.find(["first"]), lambda: own.has("ann")):
                with pytest.raises(StoreUnavailable, match=r"another program holds shown\.sqlite"):
                    call()
            other.execute("COMMIT")
            other.close()
            own.keep([BOB])
            assert list(own.read()) == [ANN, BOB]
            assert own._opened is not None
            assert own._opened.execute("PRAGMA busy_timeout").fetchone() == (0,), "no call waits for another program"


def test_what_was_not_written_does_not_decide_whose_a_later_list_is(tmp_path: Path) -> None:
    with closing(SqliteShown(tmp_path)) as own:
        wrong = ShownList("wrong", "ann", 0.0, ("a",), first=cast(int, None))
        with pytest.raises(sqlite3.IntegrityError):
            own.keep([wrong])
        own.keep([ShownList("bob's", "bob", 0.0, ("a",)), ShownList("ann's", "ann", 0.0, ("a",))])
        assert {one.name: one.user for one in own.read()} == {"bob's": "bob", "ann's": "ann"}


def test_lists_of_an_older_release_go_and_their_counts_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(sqlite3.connect(tmp_path / DATABASE)) as old:
        old.execute("PRAGMA journal_mode = WAL")
        old.execute("CREATE TABLE shown (number INTEGER PRIMARY KEY, name BLOB UNIQUE, person BLOB, time REAL)")
        old.execute("CREATE TABLE count (day INTEGER, position INTEGER, shown INTEGER, taken INTEGER)")
        old.execute("INSERT INTO shown VALUES (1, 'n', 'old-person', 5)")
        old.execute("INSERT INTO count VALUES (3, 0, 7, 2)")
        old.commit()
    with pytest.raises(InvalidInput, match="export them with that release"):
        list(stores.read_shown(f"sqlite:{tmp_path}"))
    for _ in range(2):
        with closing(SqliteShown(tmp_path)) as own:
            assert own.counts() == [PositionCount(0, 7, 2)]
            assert list(own.read()) == []
    assert not any(b"old-person" in path.read_bytes() for path in tmp_path.iterdir())
    assert [record.message for record in caplog.records] == ["lists that an older release kept were dropped"]


def test_a_session_becomes_a_user(shown: ShownStore) -> None:
    done(shown.hand_over_in_steps("ann\0ä", "ann"))
    assert shown.find(["first"])["first"].user == "ann"
    done(shown.erase_in_steps(["ann"]))
    assert list(shown.read()) == [BOB]


def test_lists_survive_a_restart_and_two_may_keep_them_at_once(url: str) -> None:
    with closing(stores.shown(url)) as own, closing(stores.shown(url)) as other:
        own.keep([ANN])
        other.keep([BOB])
        assert list(own.read()) == list(other.read()) == [ANN, BOB]
    with closing(stores.shown(url)) as again:
        again.keep([ANN])  # a network may make somebody say it twice
        assert list(again.read()) == [ANN, BOB]


def test_nothing_is_read_where_nothing_was_kept(url: str) -> None:
    assert list(stores.read_shown(url)) == []


def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "shown.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(
        StoreDamaged, match=r"shown\.sqlite is damaged.*delete shown\.sqlite: nothing that was learned is lost"
    ):
        stores.shown(f"sqlite:{tmp_path}")


def test_positions_far_down_a_list_are_not_counted(shown: ShownStore) -> None:
    before = {one.position: one for one in shown.counts()}
    page = ShownList("far", None, 11 * DAY, tuple(f"i{n}" for n in range(MOST_POSITIONS + 3)), MOST_POSITIONS - 2)
    shown.keep([page])
    shown.take([Take("far", MOST_POSITIONS + n, page.time) for n in (-1, 0, 2)])
    counts = [one for one in shown.counts() if before.get(one.position) != one]
    assert counts == [PositionCount(MOST_POSITIONS - 2, 1, 0), PositionCount(MOST_POSITIONS - 1, 1, 1)]
    assert shown.find(["far"])["far"].taken == {MOST_POSITIONS + n for n in (-1, 0, 2)}
