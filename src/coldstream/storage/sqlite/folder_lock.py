"""The lock of a folder, which gives one process at a time the right to write to it."""

import fcntl
import os
import re
from contextlib import ExitStack, suppress
from pathlib import Path

from coldstream.errors import StoreInUse

_CONTENT = re.compile(rb"\d+ *\nline +(\d+), checksum +(\d+)\n")


class FolderLock:
    """An exclusive lock of a folder, held from construction to `close`. The kernel releases it when the process dies.

    The lock file also records the last line of the log, so that a truncated log, or an older copy, is detected. The record
    is written after the line is durable and is not synced: it may lag behind the log, but is never ahead of it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._descriptor, self._content = _locked(self._path)
        self.note(*self.noted())

    def keep(self) -> None:
        """Verify that this process still holds the lock; acquire it again if the lock file was deleted or replaced."""
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._descriptor), os.stat(self._path)):
                return
        descriptor, self._content = _locked(self._path)
        os.close(self._descriptor)
        self._descriptor = descriptor
        self.note(*self.noted())

    def noted(self) -> tuple[int, int]:
        """Return the position and checksum recorded when the lock was acquired; zeros if none were."""
        return _noted(self._content)

    def note(self, position: int, checksum: int) -> None:
        """Record the position and checksum of the last line of the log."""
        with suppress(OSError):  # the disk may be full: acknowledged lines are in the log, and the record may lag behind
            os.pwrite(self._descriptor, _text(position, checksum), 0)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def noted_end(folder: Path) -> tuple[int, int]:
    """Return the position and checksum that a folder's lock file records; zeros if it records none."""
    try:
        return _noted((folder / "lock").read_bytes())
    except OSError:
        return 0, 0


def _noted(content: bytes) -> tuple[int, int]:
    found = _CONTENT.fullmatch(content)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _locked(path: Path) -> tuple[int, bytes]:
    """Lock the file, and return its descriptor and its previous content."""
    with ExitStack() as undo:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        undo.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            message = f"store {str(path.parent)!r} is in use by process {holder}, and SQLite cannot be shared"
            remedy = "stop that one, or choose another folder; several processes need --store postgresql://…"
            raise StoreInUse(f"{message}; {remedy}") from None
        content = os.pread(descriptor, 1000, 0)
        os.ftruncate(descriptor, len(_text(0, 0)))
        undo.pop_all()
        return descriptor, content


def _text(position: int, checksum: int) -> bytes:
    return f"{os.getpid():<19}\nline {position:>19}, checksum {checksum:>10}\n".encode()
