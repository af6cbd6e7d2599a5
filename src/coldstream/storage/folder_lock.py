"""The right to write to a folder, which one process has at a time."""

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

from coldstream.errors import StoreInUse


class FolderLock:
    """Holds a folder from when it is built until it is closed. The kernel takes it back from a process that dies."""

    def __init__(self, folder: Path) -> None:
        with ExitStack() as undo:
            self._descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            undo.callback(self.close)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(self._descriptor, 20).decode(errors="replace").strip() or "unknown"
                message = f"store {str(folder)!r} is in use by process {holder}; stop that one, or choose another folder"
                raise StoreInUse(message) from None
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())
            undo.pop_all()

    def close(self) -> None:
        """Let others have it."""
        os.close(self._descriptor)
