"""What a store in a folder has opened, it has closed again when it is done with it, also where it could not begin."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from coldstream.errors import StoreDamaged, StoreInUse
from coldstream.storage import stores
from coldstream.storage.shown import ShownList
from coldstream.storage.sqlite.shown import SqliteShown
from coldstream.storage.sqlite.store import SqliteStore
from coldstream.storage.store import LogLine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="others do not tell what a process has open")


def held(folder: Path) -> list[str]:
    """The files of a folder that this process has open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(os.readlink(descriptor))
    return sorted(Path(path).name for path in found if path.startswith(f"{folder}/"))


def test_a_store_holds_its_log_and_its_lock_until_it_is_closed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.append([LogLine(b"1")], 0)
    assert {"lock", "log.sqlite", "log.sqlite-wal"} <= set(held(tmp_path))
    before = held(tmp_path)
    with pytest.raises(StoreInUse) as refused:
        SqliteStore(tmp_path)
    assert refused.value.__traceback__ is not None  # which holds what could not begin
    assert held(tmp_path) == before
    store.close()
    assert held(tmp_path) == []


def test_lists_that_were_shown_are_held_until_they_are_closed(tmp_path: Path) -> None:
    shown = SqliteShown(tmp_path)
    shown.keep([ShownList(f"n{n}", None, 1.0, ("a",)) for n in range(3)])
    assert "shown.sqlite" in held(tmp_path)
    shown.close()
    assert held(tmp_path) == []
    reading = stores.read_shown(f"sqlite:{tmp_path}")
    assert next(reading).name == "n0"
    assert held(tmp_path) == ["shown.sqlite"]
    list(reading)
    assert held(tmp_path) == []


def test_what_is_damaged_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "shown.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreDamaged) as refused:
        SqliteShown(tmp_path)
    assert refused.value.__traceback__ is not None
    assert held(tmp_path) == []


def test_who_looks_holds_nothing_in_between_and_who_exports_until_it_is_done(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.append([LogLine(b"1"), LogLine(b"2")], 0)
    (tmp_path / "made").write_bytes(b"a snapshot")
    store.save(2, tmp_path / "made")
    store.close()
    view = stores.inspected(f"sqlite:{tmp_path}")
    assert [entry.position for entry in view.read(0)] == [1, 2]
    assert held(tmp_path) == []
    with stores.exported(f"sqlite:{tmp_path}") as export:
        assert len(list(export.rows())) == 2
        assert len(held(tmp_path)) == 2  # the log, and the snapshot's file
    assert held(tmp_path) == []
