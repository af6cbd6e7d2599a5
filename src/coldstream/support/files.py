"""Atomic file writes: a file is complete or not there."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coldstream.errors import InvalidInput


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` atomically when the block ends, and is removed if it raises."""
    place = _place(path)
    temporary = place.with_name(f".{place.name}.{os.getpid()}.writing")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, place)
        sync(place.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def private(path: str | Path) -> Iterator[Path]:
    """Like `atomic`, for personal data: only the owner may read the file (mode 0600), also while it is written."""
    with atomic(path) as temporary:
        temporary.unlink(missing_ok=True)  # a killed process with the same id may have left one
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield temporary


def write_text(path: str | Path, text: str) -> None:
    """Write a text file so that a crash at any moment leaves the old file or the new one."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def private_folder(name: str) -> Path:
    """Return a folder for temporary files that only this user can access, and that is the same at every start.

    Raise `InvalidInput` if another user owns the folder or has access.
    """
    folder = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InvalidInput(f"folder {str(folder)!r} is somebody else's, or open to others; remove it")
    return folder


def check_writable(path: str | Path) -> None:
    """Raise `InvalidInput` if the path's folder is not writable, before hours of work whose result could not be saved."""
    folder = _place(path).parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInput(f"path {str(path)!r}: the folder {str(folder)!r} cannot be written to; choose another")


def _place(path: str | Path) -> Path:
    """Return the path to write to, with links resolved, so that a link stays one.

    Raise `InvalidInput` if it is no possible file.
    """
    place = Path(path).resolve()
    if not place.parent.is_dir():
        raise InvalidInput(f"path {str(path)!r}: there is no folder {str(place.parent)!r}; make it first")
    if place.exists() and not place.is_file():  # replacing a device or a pipe would remove it for all processes
        raise InvalidInput(f"path {str(path)!r} is not a file; give the path of a file to write")
    return place


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
