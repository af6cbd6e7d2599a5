"""Files that are whole or not there."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coldstream.errors import InvalidInput


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A path to write to, whose file takes the place of the real one when the block ends well, and else disappears."""
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
    """Like `atomic`, for persons' data: only the owner may read the file (mode 0600), also while it is written."""
    with atomic(path) as temporary:
        temporary.unlink(missing_ok=True)  # a killed process that had this number may have left one
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield temporary


def write_text(path: str | Path, text: str) -> None:
    """Write a text file so that a crash at any moment leaves the old file or the new one."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def private_folder(name: str) -> Path:
    """A folder for temporary files that is this user's alone, and the same at every start: what was left there is found."""
    folder = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InvalidInput(f"folder {str(folder)!r} is somebody else's, or open to others; remove it")
    return folder


def check_writable(path: str | Path) -> None:
    """Refuse a path now that could not be written to after hours of work."""
    folder = _place(path).parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInput(f"path {str(path)!r}: the folder {str(folder)!r} cannot be written to; choose another")


def _place(path: str | Path) -> Path:
    """The place itself where the path is a link, so that the link stays one."""
    place = Path(path).resolve()
    if not place.parent.is_dir():
        raise InvalidInput(f"path {str(path)!r}: there is no folder {str(place.parent)!r}; make it first")
    if place.exists() and not place.is_file():  # replacing a device or a pipe would take it away from everybody
        raise InvalidInput(f"path {str(path)!r} is not a file; give the path of a file to write")
    return place


def sync(path: Path) -> None:
    """Make durable what a file holds, or which files a folder has."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
