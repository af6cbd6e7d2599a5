"""Snapshots as files of a folder. The name of each says its number and its position."""

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
    """The snapshots in a folder. A file that does not have the name of one is left alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def clear(self) -> None:
        """Erase what a killed process left half-written. Only for the one who writes."""
        for left in self._folder.glob(".*.writing"):
            left.unlink()

    def save(self, position: int, file: Path) -> Saved:
        """Take a file over. It is synced, and then renamed to its name."""
        with reported(self._folder):
            saved = Saved(max((number for number, _ in self.all()), default=0) + 1, position)
            with atomic(self._path(saved)) as temporary:
                file.chmod(0o600)  # it holds persons' data
                shutil.move(file, temporary)
            return saved

    def all(self) -> list[Saved]:
        """What there is, the newest first."""
        with reported(self._folder):
            names = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
            return sorted((Saved(int(name[1]), int(name[2])) for name in names if name), reverse=True)

    def size(self) -> int:
        """Bytes of all snapshots."""
        with reported(self._folder):
            return sum(self._path(saved).stat().st_size for saved in self.all())

    @contextmanager
    def opened(self, saved: Saved) -> Iterator[Path]:
        """The file of a snapshot."""
        path = self._path(saved)
        if not path.is_file():
            raise InvalidSnapshot(f"snapshot {str(path)!r} is not there any more; use another one")
        yield path

    def discard(self, saved: Saved) -> None:
        """Erase a snapshot. It does not come back when power is lost."""
        with reported(self._folder):
            self._path(saved).unlink(missing_ok=True)
            sync(self._folder)

    def name(self, saved: Saved) -> str:
        """The path of a snapshot's file."""
        return str(self._path(saved))

    def _path(self, saved: Saved) -> Path:
        return self._folder / f"{saved.number:010d}-{saved.position:019d}.npz"
