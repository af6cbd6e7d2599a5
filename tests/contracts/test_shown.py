"""Lists that were shown, kept beside a log: the contract, on real databases."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from coldstream.errors import StoreDamaged, StoreUnavailable
from coldstream.storage import stores
from coldstream.storage.shown import DAY, MOST_POSITIONS, PositionCount, ShownList, ShownStore, Take
from coldstream.storage.sqlite.shown import DATABASE, SqliteShown

pytest_plugins = ["postgres_server", "stores_under_test"]

ANN = ShownList("first", "ann\0ä", 10 * DAY + 5, ("a", "b", "c\n"))
NEXT = ShownList("next", "ann\0ä", 10 * DAY + 9, ("a", "b", "c\n", "d"), 3)
BOB = ShownList("bob's", None, 11 * DAY, ("b",))


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
    shown.expire(10 * DAY + 7)
    assert list(shown.read()) == [NEXT, BOB]
    assert shown.counts()[0] == PositionCount(0, 2, 0)
    shown.expire(11 * DAY)
    assert list(shown.read()) == [BOB]
    assert shown.counts() == [PositionCount(0, 1, 0)]


def test_whoever_is_erased_is_in_no_list_and_in_no_file(shown: ShownStore, url: str) -> None:
    many = [ShownList(f"n{n}", "erased-person", 11 * DAY, ("a" * 50, f"item {n}")) for n in range(3000)]
    others = [ShownList(f"o{n}", "somebody", 11 * DAY, ("a" * 50, f"item {n}")) for n in range(3000)]
    for one, other in zip(many, others, strict=True):
        shown.keep([one, other])
    shown.erase(["erased-person", "nobody"])
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
        own._connection.execute("PRAGMA busy_timeout = 20")
        own.keep([ANN, ShownList("last", "erased-person", 10 * DAY, ("a",))])
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM shown").fetchone() == (2,)
        with pytest.raises(StoreUnavailable, match="another program reads"):
            own.erase(["erased-person"])
        reader.execute("COMMIT")
        own.erase(["erased-person"])
        assert list(own.read()) == [ANN]
        assert not any(b"erased-person" in path.read_bytes() for path in tmp_path.iterdir())


def test_a_session_becomes_a_user(shown: ShownStore) -> None:
    shown.hand_over("ann\0ä", "ann")
    assert shown.find(["first"])["first"].user == "ann"
    shown.erase(["ann"])
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
