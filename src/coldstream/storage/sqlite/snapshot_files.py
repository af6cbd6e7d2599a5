"""Snapshots as files in a folder. The file name contains the number and the position of a snapshot."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coldstream.errors import InvalidSnapshot
from coldstream.storage.disk import reported
from coldstream.storage.store import Saved
from coldstream.support.files import atomic, sync

_NAME = re.compile(r"(\d{10})-(\d{19})\.npz")


class SnapshotFiles:
    """The snapshots in a folder. Files with other names are ignored."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def clear(self) -> None:
        """Delete the partial files of a killed process. Only the process that writes to the store may call it."""
        for left in self._folder.glob(".*.writing"):
            left.unlink()

    def save(self, position: int, file: Path) -> Saved:
        """Move a file into the folder as the newest snapshot. It is synced before it gets its final name."""
        with reported(self._folder):
            saved = Saved(max((number for number, _ in self.all()), default=0) + 1, position)
            with atomic(self._path(saved)) as temporary:
                file.chmod(0o600)  # a snapshot contains personal data
                shutil.move(file, temporary)
            return saved

    def all(self) -> list[Saved]:
        """Return all snapshots, the newest first."""
        with reported(self._folder):
            names = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
            return sorted((Saved(int(name[1]), int(name[2])) for name in names if name), reverse=True)

    def size(self) -> int:
        """Return the total bytes of all snapshots."""
        with reported(self._folder):
            return sum(self._path(saved).stat().st_size for saved in self.all())

    @contextmanager
    def opened(self, saved: Saved) -> Iterator[Path]:
        """Yield the path of a snapshot's file; raises `InvalidSnapshot` if it no longer exists."""
        path = self._path(saved)
        if not path.is_file():
            raise InvalidSnapshot(f"snapshot {str(path)!r} is not there any more; use another one")
        yield path

    def discard(self, saved: Saved) -> None:
        """Delete a snapshot, and sync the folder, so that the file does not reappear after a power loss."""
        with reported(self._folder):
            self._path(saved).unlink(missing_ok=True)
            sync(self._folder)

    def name(self, saved: Saved) -> str:
        """Return the path of a snapshot's file."""
        return str(self._path(saved))

    def _path(self, saved: Saved) -> Path:
        return self._folder / f"{saved.number:010d}-{saved.position:019d}.npz"
