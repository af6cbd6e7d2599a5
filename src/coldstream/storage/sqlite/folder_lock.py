"""The right to write to a folder, which one process has at a time."""

import fcntl
import os
import re
from contextlib import ExitStack, suppress
from pathlib import Path

from coldstream.errors import StoreInUse

_CONTENT = re.compile(rb"\d+ *\nline +(\d+), checksum +(\d+)\n")


class FolderLock:
    """Holds a folder from when it is built until it is closed. The kernel takes it back from a process that dies.

    The file also notes with which line the log ends, so that a log that is cut, or replaced by an older one, is noticed.
    The note is written after the line is durable and is not synced: it may say too little, and never too much.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._descriptor, self._content = _locked(self._path)
        self.note(*self.noted())

    def keep(self) -> None:
        """Make sure that the folder is still held: where the file was deleted or replaced, the right is to be had anew."""
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._descriptor), os.stat(self._path)):
                return
        descriptor, self._content = _locked(self._path)
        os.close(self._descriptor)
        self._descriptor = descriptor
        self.note(*self.noted())

    def noted(self) -> tuple[int, int]:
        """The position and the checksum that were noted last when the lock was taken; zeros if nothing was."""
        return _noted(self._content)

    def note(self, position: int, checksum: int) -> None:
        """Note where the log ends."""
        with suppress(OSError):  # a full disk: what was acknowledged is in the log, and the note says too little
            os.pwrite(self._descriptor, _text(position, checksum), 0)

    def close(self) -> None:
        """Let others have it."""
        os.close(self._descriptor)


def noted_end(folder: Path) -> tuple[int, int]:
    """The position and the checksum that whoever wrote to a folder noted last; zeros if nothing was."""
    try:
        return _noted((folder / "lock").read_bytes())
    except OSError:
        return 0, 0


def _noted(content: bytes) -> tuple[int, int]:
    found = _CONTENT.fullmatch(content)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _locked(path: Path) -> tuple[int, bytes]:
    """The descriptor of the file that is locked, and what it holds."""
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
