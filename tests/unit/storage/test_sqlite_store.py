"""What only a store in a folder has to do: keep out others, really erase, and say what is wrong with the disk."""

import errno
import os
import random
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from coldstream.errors import InvalidInput, StoreDamaged, StoreFull, StoreInUse, StoreUnavailable
from coldstream.storage import stores
from coldstream.storage.disk import reported
from coldstream.storage.sqlite.store import SqliteStore, inspected
from coldstream.storage.store import Entry, LogLine


def appended(store: SqliteStore, lines: list[LogLine]) -> list[int | None]:
    """Append to a log whatever it has."""
    return store.append(lines, store.last())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "data"


@pytest.fixture
def store(folder: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(folder)) as store:
        yield store


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("form", ["sqlite:{}", "sqlite://{}"])
def test_an_address_names_the_folder(folder: Path, form: str) -> None:
    stores.opened(form.format(folder)).close()
    assert (folder / "log.sqlite").exists()
    with pytest.raises(InvalidInput, match="names no folder"):
        stores.opened(form.format(""))


def test_only_its_user_can_read_it(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o755)
    with closing(SqliteStore(folder)) as store:
        appended(store, [LogLine(b"1")])
        files = [path for path in folder.iterdir() if path.is_file()]
        assert {path.name for path in files} == {"lock", "log.sqlite", "log.sqlite-wal", "log.sqlite-shm"}
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
        assert stat.S_IMODE((folder / "snapshots").stat().st_mode) == 0o700


def test_a_folder_that_it_makes_is_closed_to_others(store: SqliteStore, folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_commit_is_synced(store: SqliteStore) -> None:
    pragmas = ("journal_mode", "synchronous", "secure_delete")
    assert [store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas] == ["wal", 2, 1]


def test_who_is_refused_learns_which_folder_and_which_process(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "lock").write_text("99999999999999\n")  # of a process that was killed
    with closing(SqliteStore(folder)):
        with pytest.raises(StoreInUse) as raised:
            SqliteStore(folder)
        assert str(folder) in str(raised.value)
        assert f"process {os.getpid()}," in str(raised.value)


# Erasing


@pytest.mark.parametrize("size", [60, 900, 5000])
def test_what_is_purged_is_in_no_file_of_the_folder(store: SqliteStore, folder: Path, size: int) -> None:
    rng = random.Random(size)
    people = [f"person-{rng.getrandbits(64):016x}" for _ in range(60)]
    for _ in range(30):
        lines = []
        for person in rng.choices(people, k=20):
            body = f'{{"user": "{person}", "likes": "secret of {person}{"x" * rng.randrange(size)}"}}'.encode()
            lines.append(LogLine(body, person, f"event of {person} {rng.getrandbits(64)}"))
        appended(store, lines)
    for first in range(0, 50, 10):  # the first purge must not leave copies that the second does not find
        appended(store, [LogLine(b"", person, forgets=True) for person in people[first : first + 10]])
        store.purge(dict.fromkeys(people[first : first + 10], store.last()), store.last())
        left = b"".join(everything_in(folder).values())
        assert not [person for person in people[: first + 10] if person.encode() in left]
    assert all(person.encode() in left for person in people[50:])


def test_what_a_reader_kept_in_the_wal_is_erased_by_the_next_purge_or_start(folder: Path) -> None:
    with closing(SqliteStore(folder)) as store, closing(sqlite3.connect(folder / "log.sqlite")) as reader:
        store._connection.execute("PRAGMA busy_timeout = 50")
        for user in ("ann", "bob"):
            appended(store, [LogLine(b"secret " + user.encode(), user)])
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM log").fetchall()
            with pytest.raises(StoreUnavailable, match="purge again"):
                store.purge({user: store.last()}, store.last())
            assert list(store.read(0)) == []
            assert b"secret" in b"".join(everything_in(folder).values())
            assert user in store.forgotten()  # whoever asks what is left to do has to hear of it
            reader.rollback()
            if user == "ann":
                store.purge({user: store.last()}, store.last())
                assert store.forgotten() == {}
                assert b"secret" not in b"".join(everything_in(folder).values())
        killed = folder.with_name("killed")
        shutil.copytree(folder, killed)
    with closing(SqliteStore(killed)):
        assert b"secret" not in b"".join(everything_in(killed).values())


# The disk


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(store: SqliteStore) -> None:
    assert appended(store, [LogLine(b"1", event_id="a")]) == [1]
    store._connection.execute("PRAGMA max_page_count = 1")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"the disk is full .*; what was acknowledged is safe: make room"):
            appended(store, [LogLine(b"2", event_id="b"), LogLine(bytes(100_000), event_id="c")])
    assert list(store.read(0)) == [Entry(1, b"1")]
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert appended(store, [LogLine(b"3", event_id="c"), LogLine(b"4", event_id="a")]) == [2, None]


def test_a_disk_that_cannot_be_written_refuses(store: SqliteStore) -> None:
    store._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreUnavailable, match="nothing can be written"):
        appended(store, [LogLine(b"1")])
    store._connection.execute("PRAGMA query_only = OFF")
    assert appended(store, [LogLine(b"1")]) == [1]


def test_another_program_that_holds_the_database_is_waited_for_and_then_named(store: SqliteStore, folder: Path) -> None:
    store._connection.execute("PRAGMA busy_timeout = 50")
    with closing(sqlite3.connect(folder / "log.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="another program holds"):
            appended(store, [LogLine(b"1")])
        other.execute("ROLLBACK")
    assert appended(store, [LogLine(b"1")]) == [1]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="File exists"):
        SqliteStore(tmp_path / "file" / "data")


def test_a_failed_commit_is_rolled_back_line_by_line(store: SqliteStore) -> None:
    store._connection.execute(
        "CREATE TRIGGER poison BEFORE INSERT ON log WHEN new.body = x'30' BEGIN SELECT raise(ABORT, 'poison'); END"
    )
    with pytest.raises(sqlite3.IntegrityError):
        appended(store, [LogLine(b"1", event_id="a"), LogLine(b"0"), LogLine(b"2")])
    assert list(store.read(0)) == []
    assert appended(store, [LogLine(b"1", event_id="a")]) == [1]


def test_a_snapshot_that_cannot_be_synced_is_not_there(store: SqliteStore, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"1")
    full = OSError(errno.ENOSPC, "No space left on device")
    with patch("os.fsync", side_effect=full), pytest.raises(StoreUnavailable, match="No space left"):
        store.save(1, file)
    assert store.snapshots() == []
    assert list((folder / "snapshots").iterdir()) == []


def test_what_a_killed_process_left_half_written_is_cleared_away(folder: Path) -> None:
    SqliteStore(folder).close()
    (folder / "snapshots" / ".0000000001-0000000000000000001.npz.77.writing").write_bytes(b"half")
    (folder / "snapshots" / "notes.txt").write_bytes(b"mine")
    with closing(SqliteStore(folder)) as store:
        assert store.snapshots() == []
    assert [path.name for path in (folder / "snapshots").iterdir()] == ["notes.txt"]


# What is no store


def test_a_file_that_is_no_database_is_refused_and_left_alone(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "log.sqlite").write_bytes(b"no database" * 1000)
    for use in (SqliteStore, inspected):
        with pytest.raises(StoreDamaged, match="restore"):
            use(folder)
    assert (folder / "log.sqlite").read_bytes() == b"no database" * 1000


def test_the_database_of_another_program_is_refused_and_left_alone(folder: Path) -> None:
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "log.sqlite")) as other:
        other.execute("CREATE TABLE log (position)")
    before = (folder / "log.sqlite").read_bytes()
    for use in (SqliteStore, inspected):
        with pytest.raises(InvalidInput, match="no log of coldstream"):
            use(folder)
    assert (folder / "log.sqlite").read_bytes() == before


def test_a_newer_format_is_refused(folder: Path) -> None:
    SqliteStore(folder).close()
    with closing(sqlite3.connect(folder / "log.sqlite")) as newer:
        newer.execute("PRAGMA user_version = 99")
    for use in (SqliteStore, inspected, SqliteStore):
        with pytest.raises(InvalidInput, match="has format 99, this release reads 3"):
            use(folder)


def test_a_damaged_page_is_noticed(folder: Path) -> None:
    with closing(SqliteStore(folder)) as store:
        appended(store, [LogLine(b"x" * 300) for _ in range(200)])
    with open(folder / "log.sqlite", "r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xff" * 4096 * 6)
    with pytest.raises(StoreDamaged, match="damaged"), closing(SqliteStore(folder)) as store:
        list(store.read(0))


# What belongs together


def filled(folder: Path) -> Path:
    """A folder as `kill -9` leaves it, with the last of 60 lines in the WAL alone."""
    with closing(SqliteStore(folder)) as store:
        for n in range(40):
            appended(store, [LogLine(b"line %d" % n, f"user{n}", f"event{n}")])
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        appended(store, [LogLine(b"line %d" % n, f"user{n}", f"event{n}", forgets=n % 9 == 0) for n in range(40, 60)])
        return Path(shutil.copytree(folder, folder.with_name("killed")))


def test_a_log_that_lost_its_wal_is_not_gone_on_with(folder: Path) -> None:
    killed = filled(folder)
    (killed / "log.sqlite-wal").unlink()
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=r"line 60, which was acknowledged.* put the newer.* after line 40"):
            SqliteStore(killed)
    (killed / "lock").unlink()
    with closing(SqliteStore(killed)) as store:
        assert store.last() == 40


def test_an_older_copy_of_the_log_is_not_gone_on_with(folder: Path) -> None:
    with closing(SqliteStore(folder)) as store:
        appended(store, [LogLine(b"1")])
    older = (folder / "log.sqlite").read_bytes()
    with closing(SqliteStore(folder)) as store:
        appended(store, [LogLine(b"2")])
    newer = (folder / "log.sqlite").read_bytes()
    (folder / "log.sqlite").write_bytes(older)
    with pytest.raises(StoreDamaged, match="line 2, which was acknowledged"):
        SqliteStore(folder)
    (folder / "log.sqlite").write_bytes(newer)
    SqliteStore(folder).close()


def test_another_log_of_the_same_length_is_not_gone_on_with(folder: Path) -> None:
    for place in (folder, folder.with_name("other")):
        with closing(SqliteStore(place)) as store:
            appended(store, [LogLine(b"1")])
    shutil.copy(folder.with_name("other") / "log.sqlite", folder / "log.sqlite")
    with pytest.raises(StoreDamaged, match="line 1, which was acknowledged"):
        SqliteStore(folder)


@pytest.mark.parametrize("name", ["log.sqlite", "log.sqlite-wal"])
@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_nothing_is_acknowledged_in_a_file_that_is_gone(folder: Path, name: str, how: str) -> None:
    store = SqliteStore(folder)
    appended(store, [LogLine(b"1")])
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    if how == "replaced":
        (folder / name).write_bytes(content)
    for action in (lambda: store.append([LogLine(b"2")], 1), lambda: store.purge({}, 1), lambda: store.save(1, folder)):
        with pytest.raises(StoreDamaged, match=rf"{name} was deleted or replaced while it was written to; restart"):
            action()
    store._connection.close()


def test_a_log_that_is_cut_anywhere_is_noticed_or_has_all_its_lines(folder: Path) -> None:
    killed, rng, noticed = filled(folder), random.Random(5), 0
    for name in ("log.sqlite", "log.sqlite-wal"):
        whole = (killed / name).read_bytes()
        for cut in [0, 1, *(rng.randrange(len(whole)) for _ in range(30)), len(whole) - 1]:
            copy = Path(shutil.copytree(killed, folder.with_name("cut")))
            (copy / name).write_bytes(whole[:cut])
            try:
                with closing(SqliteStore(copy)) as store:
                    assert [entry.position for entry in store.read(0)] == list(range(1, 61))  # the WAL had what was cut
            except StoreDamaged:
                noticed += 1
            shutil.rmtree(copy)
    assert noticed > 30


def test_a_byte_of_the_file_that_changes_is_noticed_or_changes_nothing(folder: Path) -> None:
    with closing(SqliteStore(folder)) as store:
        appended(store, [LogLine(b"line %d" % n, f"user{n}", f"event{n}", forgets=n % 9 == 0) for n in range(300)])
        store.purge({"user7": 300}, 300)
        expected = list(store.read(0)), store.base(), store.forgotten()
    whole, rng, noticed = (folder / "log.sqlite").read_bytes(), random.Random(6), 0
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= rng.randrange(1, 256)
        (folder / "log.sqlite").write_bytes(damaged)
        try:
            with closing(inspected(folder)) as view:
                view.check()
                assert (list(view.read(0)), view.base(), view.forgotten()) == expected
        except (StoreDamaged, InvalidInput):
            noticed += 1
    assert noticed > 150  # of the others, most are of pages that hold nothing yet


# Looking


def test_looking_leaves_a_folder_as_it_is(folder: Path) -> None:
    with closing(SqliteStore(folder)) as store:
        appended(store, [LogLine(b"1", "ann"), LogLine(b"2")])
    before = everything_in(folder)
    assert set(before) == {"lock", "log.sqlite"}
    with closing(inspected(folder)) as view:
        assert [entry.body for entry in view.read(0)] == [b"1", b"2"]
    assert everything_in(folder) == before


def test_looking_does_not_keep_a_purge_from_erasing(store: SqliteStore, folder: Path) -> None:
    appended(store, [LogLine(b"%d" % n, "ann") for n in range(5000)])
    store._connection.execute("PRAGMA busy_timeout = 50")
    with closing(inspected(folder)) as view:
        reading = view.read(0)
        assert next(reading).body == b"0"
        store.purge({"ann": 5000}, 5000)
        assert len(list(reading)) < 5000


def test_looking_where_there_is_no_folder_makes_none(folder: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no log\.sqlite"):
        inspected(folder)
    assert not folder.exists()


def test_threads_may_take_turns(store: SqliteStore) -> None:
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(store.append, [LogLine(b"1")], 0).result() == [1]


# Room on the disk


def on_disk(folder: Path) -> int:
    return sum((folder / name).stat().st_size for name in ("log.sqlite", "log.sqlite-wal"))


def wal(folder: Path) -> int:
    return (folder / "log.sqlite-wal").stat().st_size


def no_room() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def test_the_size_counts_the_wal_and_trimming_gives_it_back(store: SqliteStore, folder: Path, tmp_path: Path) -> None:
    for _ in range(10):
        appended(store, [LogLine(random.randbytes(1000)) for _ in range(100)])
    assert wal(folder) > 1_000_000
    (tmp_path / "made").write_bytes(bytes(5000))
    store.save(1000, tmp_path / "made")
    assert store.size() == on_disk(folder) + 5000 == inspected(folder).size()
    store.trim()
    assert wal(folder) == 0
    assert store.size() == on_disk(folder) + 5000 < 1_500_000
    assert len(list(store.read(0))) == 1000


def test_what_is_free_for_new_lines_is_not_counted(store: SqliteStore, folder: Path) -> None:
    appended(store, [LogLine(random.randbytes(10_000), "ann") for _ in range(100)])
    full = store.size()
    store.purge({"ann": 100}, 100)
    assert on_disk(folder) > 900_000 > store.size()
    assert full > 1_000_000


def test_the_wal_is_written_back_as_long_as_there_is_room_for_it(store: SqliteStore, folder: Path) -> None:
    appended(store, [LogLine(random.randbytes(1000)) for _ in range(1000)])
    before = wal(folder)
    real = os.statvfs(folder)

    def free(count: int) -> os.statvfs_result:
        return os.statvfs_result((1, 1, *real[2:4], count, *real[5:]))

    with patch.object(os, "statvfs", lambda _: free(2 * before)):
        appended(store, [LogLine(b"1")])
        assert wal(folder) >= before
    with patch.object(os, "statvfs", lambda _: free(2 * before - 1)):
        appended(store, [LogLine(b"2")])
        assert 0 < wal(folder) < 50_000
        store.touch()
        assert wal(folder) > 0
    assert [entry.body for entry in store.read(1000)] == [b"1", b"2"]


@pytest.mark.parametrize("can_be_shortened", [True, False])
def test_where_the_disk_is_full_the_wal_is_given_back_and_it_is_tried_once_more(
    store: SqliteStore, folder: Path, can_be_shortened: bool
) -> None:
    appended(store, [LogLine(random.randbytes(1000)) for _ in range(100)])
    tries, append = 0, store._appended

    def full_at_first(lines: list[LogLine], after: int) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            with reported(folder):
                raise no_room()
        return append(lines, after)

    def stuck() -> bool:
        raise no_room()

    store._appended = full_at_first  # type: ignore[method-assign, assignment]
    if not can_be_shortened:
        store._emptied = stuck  # type: ignore[method-assign]
        with pytest.raises(StoreFull, match="the disk is full"):
            appended(store, [LogLine(b"1")])
    else:
        assert appended(store, [LogLine(b"1")]) == [101]
    assert tries == 1 + can_be_shortened


def test_a_start_on_a_full_disk_reads_and_writes_the_wal_back_when_there_is_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = 0
    emptied = SqliteStore._emptied

    def full_at_first(store: SqliteStore) -> bool:
        nonlocal tried
        tried += 1
        if tried < 3:
            raise no_room()
        return emptied(store)

    with closing(SqliteStore(folder)) as store:
        appended(store, [LogLine(b"1")])
    monkeypatch.setattr(SqliteStore, "_emptied", full_at_first)
    with closing(SqliteStore(folder)) as store:
        assert list(store.read(0)) == [Entry(1, b"1")]
        for n in (2, 3, 4):
            assert appended(store, [LogLine(b"%d" % n)]) == [n]
        assert tried == 3
