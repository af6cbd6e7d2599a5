"""Conversion of disk and SQLite errors into store errors with a remedy."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coldstream.errors import StoreDamaged, StoreFull, StoreUnavailable
from coldstream.support.files import sync

LOG = "log.sqlite"

_UNAVAILABLE = {
    sqlite3.SQLITE_FULL: ("the disk is full", "make room"),
    sqlite3.SQLITE_IOERR: ("the disk failed", "look at the disk and at the room on it"),
    sqlite3.SQLITE_READONLY: ("nothing can be written", "let this process write to the folder and the files in it"),
    sqlite3.SQLITE_CANTOPEN: ("{file} cannot be opened", "let this process use the folder and the files in it"),
    sqlite3.SQLITE_PERM: ("{file} cannot be opened", "let this process use the folder and the files in it"),
    sqlite3.SQLITE_BUSY: ("another program holds {file}", "end that program"),
    sqlite3.SQLITE_LOCKED: ("another program holds {file}", "end that program"),
}
# SQLITE_ERROR counts as damage: the queries never change, so it means that a table or a column is missing.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


@contextmanager
def reported(folder: Path, file: str = LOG) -> Iterator[None]:
    """Convert errors of the disk and of SQLite within a block into `StoreUnavailable`, `StoreFull` or `StoreDamaged`."""
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite's message quotes damaged bytes that are not UTF-8
        raise StoreDamaged(_damaged(folder, file, error)) from error
    except sqlite3.DatabaseError as error:
        # Errors raised by Python itself, for a text that is not UTF-8, have no code. The low byte is the code without
        # extension.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in _DAMAGED:
            raise StoreDamaged(_damaged(folder, file, error)) from error
        if code not in _UNAVAILABLE:
            raise
        what, remedy = _UNAVAILABLE[code]
        kind = StoreFull if code == sqlite3.SQLITE_FULL else StoreUnavailable
        raise kind(_message(folder, f"{what.format(file=file)} ({error})", remedy)) from error
    except OSError as error:
        what = error.strerror or str(error)
        raise StoreUnavailable(_message(folder, what, "make room, or let this process use the folder")) from error


def make_folder(folder: Path) -> None:
    """Create a folder, and its missing parents, for this user alone.

    The folders are synced, so they survive a power loss.
    """
    if not folder.is_dir():
        if not folder.parent.is_dir():
            make_folder(folder.parent)
        folder.mkdir(mode=0o700)
        sync(folder.parent)


def _damaged(folder: Path, file: str, error: Exception) -> str:
    remedy = "restore the folder from a backup" if file == LOG else f"delete {file}: nothing that was learned is lost"
    return f"store {str(folder)!r}: {file} is damaged or no database ({error}); {remedy}"


def _message(folder: Path, what: str, remedy: str) -> str:
    return f"store {str(folder)!r}: {what}; what was acknowledged is safe: {remedy}, and try again"
