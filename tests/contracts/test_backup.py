"""What a backup of any store is: whole or refused, of one moment, and good for a store of any kind."""

import os
import random
import shutil
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from stores_under_test import appended, numbers
from test_checksums import Raw

from coldstream.errors import InvalidInput, StoreDamaged
from coldstream.storage import backup_file, stores
from coldstream.storage.store import LogLine, Store

pytest_plugins = ["postgres_server", "stores_under_test"]


def lived(store: Store, file: Callable[[bytes], Path]) -> None:
    """A store with everything that one can have."""
    appended(store, [LogLine(b"%d" % n, f"user{n % 7}", f"event{n}", forgets=n % 50 == 0) for n in range(1, 3001)])
    store.mark(5.0)
    appended(store, [LogLine(b"", "a\0b"), LogLine(random.Random(1).randbytes(300_000)), LogLine(b"last")])
    store.purge({"user3": 2000}, 2500)
    store.cut_off(2600, [LogLine(b"kept", "user4"), LogLine(b"of all")])
    for _ in store.clear_in_steps():
        pass
    store.save(2900, file(b"older"))
    store.save(3003, file(random.Random(2).randbytes(100_000)))


def holds(store: Store) -> list[object]:
    def content(saved: object) -> bytes:
        with store.opened(saved) as path:  # type: ignore[arg-type]
            return path.read_bytes()

    snapshots = [(saved.position, content(saved)) for saved in store.snapshots()]
    return [
        store.base(),
        store.last(),
        store.cut(),
        list(store.read(0)),
        store.forgotten(),
        store.kept(),
        store.marks(),
        snapshots,
    ]


def backed_up(url: str, path: Path) -> Path:
    with stores.exported(url) as export:
        backup_file.write(path, export)
    return path


def restored(path: Path, url: str) -> None:
    with backup_file.read(path) as backup:
        stores.filled(url, backup)


@pytest.fixture
def other_urls(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Where there is nothing yet, in a store of either kind."""
    return [f"sqlite:{tmp_path / 'restored'}", request.getfixturevalue("postgres").new_schema()]


def test_a_backup_can_be_restored_into_a_store_of_any_kind(
    store: Store, url: str, file: Callable[[bytes], Path], tmp_path: Path, other_urls: list[str]
) -> None:
    lived(store, file)
    path = backed_up(url, tmp_path / "backup")
    expected = holds(store)
    for other in other_urls:
        restored(path, other)
        with closing(stores.opened(other)) as again:
            assert holds(again) == expected
            again.check()
            known = [LogLine(b"", event_id="event2700"), LogLine(b"", event_id="event2500")]
            assert again.append(known, 3003) == [None, 3004]
        with closing(stores.inspected(other)) as view:
            assert view.last() == 3004


def test_an_empty_store_and_one_that_is_all_cut_off_can_be_restored(
    store: Store, url: str, tmp_path: Path, file: Callable[[bytes], Path], other_urls: list[str]
) -> None:
    restored(backed_up(url, tmp_path / "empty"), other_urls[0])
    appended(store, numbers(1, 2, 3))
    store.cut_off(3, [])
    store.save(3, file(b"all"))
    restored(backed_up(url, tmp_path / "cut"), other_urls[1])
    for other, last in zip(other_urls, (0, 3), strict=True):
        with closing(stores.opened(other)) as again:
            assert (again.last(), list(again.read(0))) == (last, [])
            assert again.append(numbers(9), last) == [last + 1]


def test_a_backup_is_of_the_moment_at_which_it_begins(
    store: Store, url: str, file: Callable[[bytes], Path], tmp_path: Path, other_urls: list[str]
) -> None:
    lived(store, file)
    expected = holds(store)
    with stores.exported(url) as export:
        if url.startswith("sqlite"):
            store._connection.execute("PRAGMA busy_timeout = 50")  # type: ignore[attr-defined]
        appended(store, numbers(1, 2, 3))
        store.cut_off(2990, [LogLine(b"newer", "user5")])
        for _ in store.clear_in_steps():
            pass
        for saved in store.snapshots():
            store.discard(saved)
        store.save(3006, file(b"newer"))
        backup_file.write(tmp_path / "backup", export)
    restored(tmp_path / "backup", other_urls[0])
    with closing(stores.opened(other_urls[0])) as again:
        assert holds(again) == expected


def test_a_damaged_store_gives_no_backup(store: Store, url: str, tmp_path: Path) -> None:
    appended(store, numbers(*range(100)))
    with closing(Raw(url)) as raw:
        raw.do("UPDATE {}log SET body = ? WHERE position = ?", b"other", 50)
    with pytest.raises(StoreDamaged, match="line 50"):
        backed_up(url, tmp_path / "backup")
    assert list(tmp_path.glob("*backup*")) == []


def test_only_an_empty_place_is_restored_into(store: Store, url: str, tmp_path: Path) -> None:
    path = backed_up(url, tmp_path / "backup")
    appended(store, numbers(1))
    with pytest.raises(InvalidInput, match="restore into"):
        restored(path, url)
    assert [entry.body for entry in store.read(0)] == [b"1"]


def test_a_backup_is_not_written_over_a_file(store: Store, url: str, tmp_path: Path) -> None:
    (tmp_path / "backup").write_bytes(b"mine")
    with pytest.raises(InvalidInput, match="there already"):
        backed_up(url, tmp_path / "backup")
    assert (tmp_path / "backup").read_bytes() == b"mine"


def test_any_damage_to_a_backup_is_noticed_and_leaves_nothing(tmp_path: Path, file: Callable[[bytes], Path]) -> None:
    url, target = f"sqlite:{tmp_path / 'data'}", tmp_path / "restored"
    with closing(stores.opened(url)) as store:
        lived(store, file)
        expected = holds(store)
    whole, rng = backed_up(url, tmp_path / "backup").read_bytes(), random.Random(3)
    damages = [lambda: whole[: rng.randrange(len(whole))], lambda: b"", lambda: rng.randbytes(100)]
    noticed = 0
    for number in range(80):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= rng.randrange(1, 256)
        (tmp_path / "damaged").write_bytes(bytes(damaged) if number % 4 else rng.choice(damages)())
        try:
            restored(tmp_path / "damaged", f"sqlite:{target}")
        except InvalidInput:
            noticed += 1
            assert not target.exists()
        else:  # a byte of the archive's own, such as a time
            with closing(stores.opened(f"sqlite:{target}")) as again:
                assert holds(again) == expected
            shutil.rmtree(target)
    assert noticed > 70
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "damaged", "data"]


def test_bytes_that_a_backup_does_not_have_are_refused(tmp_path: Path, file: Callable[[bytes], Path]) -> None:
    url, target = f"sqlite:{tmp_path / 'data'}", tmp_path / "restored"
    with closing(stores.opened(url)) as store:
        lived(store, file)
    whole = backed_up(url, tmp_path / "backup").read_bytes()
    with zipfile.ZipFile(tmp_path / "backup", "a") as archive:
        archive.writestr("more", b"a member that no backup has")
    changed = {
        "one byte more": whole + b"\0",
        "a line break more": whole + b"\n",
        "much more": whole + bytes(100_000),
        "one byte before": b"\0" + whole,
        "two backups": whole + whole,
        "a comment": whole[:-2] + b"\1\0!",
        "one byte less": whole[:-1],
        "another member": (tmp_path / "backup").read_bytes(),
    }
    for what, content in changed.items():
        (tmp_path / "changed").write_bytes(content)
        with pytest.raises(InvalidInput, match="is damaged, or none of coldstream"):
            restored(tmp_path / "changed", f"sqlite:{target}")
        assert not target.exists(), what
    (tmp_path / "changed").write_bytes(whole)
    restored(tmp_path / "changed", f"sqlite:{target}")


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_a_backup_and_a_store_made_from_it_are_their_owners_alone(
    tmp_path: Path, file: Callable[[bytes], Path], umask: int
) -> None:
    before = os.umask(umask)
    try:
        url = f"sqlite:{tmp_path / 'data'}"
        with closing(stores.opened(url)) as store:
            lived(store, file)
        path = backed_up(url, tmp_path / "backup")
        restored(path, f"sqlite:{tmp_path / 'restored'}")
    finally:
        os.umask(before)
    files = [path, *(one for name in ("data", "restored") for one in (tmp_path / name).rglob("*") if one.is_file())]
    assert len(files) >= 7
    assert {str(one): oct(one.stat().st_mode & 0o777) for one in files if one.stat().st_mode & 0o077} == {}


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        restored(tmp_path / "none", f"sqlite:{tmp_path / 'restored'}")
