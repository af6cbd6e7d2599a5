"""What goes wrong with a disk, said in words."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coldstream.errors import StoreDamaged, StoreUnavailable
from coldstream.files import sync

_UNAVAILABLE = {
    sqlite3.SQLITE_FULL: ("the disk is full", "make room"),
    sqlite3.SQLITE_IOERR: ("the disk failed", "look at the disk and at the room on it"),
    sqlite3.SQLITE_READONLY: ("nothing can be written", "let this process write to the folder and the files in it"),
    sqlite3.SQLITE_CANTOPEN: ("log.sqlite cannot be opened", "let this process use the folder and the files in it"),
    sqlite3.SQLITE_PERM: ("log.sqlite cannot be opened", "let this process use the folder and the files in it"),
    sqlite3.SQLITE_BUSY: ("another program holds log.sqlite", "end that program"),
    sqlite3.SQLITE_LOCKED: ("another program holds log.sqlite", "end that program"),
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def reported(folder: Path) -> Iterator[None]:
    """Turns what the disk and SQLite say into `StoreUnavailable` or `StoreDamaged`."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = error.sqlite_errorcode & 0xFF  # the rest of an extended code says where it happened
        if code in _DAMAGED:
            message = f"store {str(folder)!r}: log.sqlite is damaged or no database ({error})"
            raise StoreDamaged(f"{message}; restore the folder from a backup") from error
        if code not in _UNAVAILABLE:
            raise
        what, remedy = _UNAVAILABLE[code]
        raise StoreUnavailable(_message(folder, f"{what} ({error})", remedy)) from error
    except OSError as error:
        what = error.strerror or str(error)
        raise StoreUnavailable(_message(folder, what, "make room, or let this process use the folder")) from error


def make_folder(folder: Path) -> None:
    """A folder for this user alone, and those above it where there are none. They survive a loss of power."""
    if not folder.is_dir():
        if not folder.parent.is_dir():
            make_folder(folder.parent)
        folder.mkdir(mode=0o700)
        sync(folder.parent)


def _message(folder: Path, what: str, remedy: str) -> str:
    return f"store {str(folder)!r}: {what}; what was acknowledged is safe: {remedy}, and try again"
