"""What goes wrong with a disk, said in words."""

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
# The general error is one of them: what is asked never changes, so a table or a column is not there any more.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


@contextmanager
def reported(folder: Path, file: str = LOG) -> Iterator[None]:
    """Turns what the disk and SQLite say of a file into `StoreUnavailable` or `StoreDamaged`."""
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite names what it has found in letters that are none
        raise StoreDamaged(_damaged(folder, file, error)) from error
    except sqlite3.DatabaseError as error:
        # Python itself, which has no code, refuses a text that is none. The rest of an extended code says where it happened.
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
    """A folder for this user alone, and those above it where there are none. They survive a loss of power."""
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
