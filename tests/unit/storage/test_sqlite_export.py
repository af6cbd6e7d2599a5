"""A store that is restored outlives a power cut: the folder that names it is synced when it is there."""

from pathlib import Path

import pytest

from coldstream.storage.sqlite import export as sqlite_export
from coldstream.storage.sqlite.store import SqliteStore
from coldstream.storage.store import LogLine


def test_the_folder_that_names_a_restored_store_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "own")
    store.append([LogLine(b"1")], 0)
    store.close()
    synced, sync = list[tuple[Path, bool]](), sqlite_export.sync
    restored = tmp_path / "elsewhere" / "restored"

    def noted(path: Path) -> None:
        sync(path)
        synced.append((path, restored.exists()))

    monkeypatch.setattr(sqlite_export, "sync", noted)
    with sqlite_export.exported(tmp_path / "own") as export:
        sqlite_export.filled(restored, export)
    assert synced == [(restored.parent.resolve(), True)]
