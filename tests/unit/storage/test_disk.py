"""What goes wrong with a disk is said in words, with the remedy, and is what may be tried again or what may not."""

import sqlite3
import stat
from pathlib import Path

import pytest

from coldstream.errors import StoreDamaged, StoreUnavailable
from coldstream.storage.disk import make_folder, reported

FOLDER = Path("/srv/shop")


def failed(code: int | None, kind: type[sqlite3.DatabaseError] = sqlite3.OperationalError) -> sqlite3.DatabaseError:
    """An error as SQLite raises it; Python itself gives none a code."""
    error = kind("as SQLite says it")
    if code is not None:
        error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "said", "remedy"),
    [
        (sqlite3.SQLITE_FULL, "the disk is full", "make room"),
        (sqlite3.SQLITE_IOERR, "the disk failed", "look at the disk"),
        (sqlite3.SQLITE_IOERR_WRITE, "the disk failed", "look at the disk"),
        (sqlite3.SQLITE_READONLY_DBMOVED, "nothing can be written", "let this process write"),
        (sqlite3.SQLITE_CANTOPEN, "log.sqlite cannot be opened", "let this process use"),
        (sqlite3.SQLITE_PERM, "log.sqlite cannot be opened", "let this process use"),
        (sqlite3.SQLITE_BUSY, "another program holds log.sqlite", "end that program"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "another program holds log.sqlite", "end that program"),
        (sqlite3.SQLITE_LOCKED, "another program holds log.sqlite", "end that program"),
    ],
)
def test_what_goes_over_is_told_with_what_to_do(code: int, said: str, remedy: str) -> None:
    with pytest.raises(StoreUnavailable) as told, reported(FOLDER):
        raise failed(code)
    message = str(told.value)
    assert message.startswith(f"store '/srv/shop': {said} (as SQLite says it); what was acknowledged is safe: {remedy}")
    assert message.endswith(", and try again")


@pytest.mark.parametrize(
    "error",
    [
        failed(sqlite3.SQLITE_CORRUPT, sqlite3.DatabaseError),
        failed(sqlite3.SQLITE_CORRUPT_INDEX, sqlite3.DatabaseError),
        failed(sqlite3.SQLITE_NOTADB, sqlite3.DatabaseError),
        failed(sqlite3.SQLITE_ERROR),
        failed(None),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "as SQLite says it"),
    ],
)
def test_damage_is_told_with_what_to_do(error: Exception) -> None:
    log = r"log\.sqlite is damaged or no database .*; restore the folder from a backup"
    with pytest.raises(StoreDamaged, match=log), reported(FOLDER):
        raise error
    shown = r"shown\.sqlite is damaged .*; delete shown\.sqlite: nothing that was learned is lost"
    with pytest.raises(StoreDamaged, match=shown), reported(FOLDER, "shown.sqlite"):
        raise error


def test_what_is_a_fault_of_ours_is_told_as_it_is() -> None:
    """Trying again would not help."""
    for code in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_MISUSE):
        error = failed(code, sqlite3.IntegrityError)
        with pytest.raises(sqlite3.IntegrityError) as raised, reported(FOLDER):
            raise error
        assert raised.value is error


def test_what_the_system_says_is_told() -> None:
    for error, said in ((OSError(28, "No space left"), "No space left"), (OSError("odd"), "odd")):
        message = f"store '/srv/shop': {said}; .*: make room, or let this process use the folder, and try again"
        with pytest.raises(StoreUnavailable, match=message), reported(FOLDER):
            raise error


def test_folders_are_this_users_alone(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b" / "c")
    for folder in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    make_folder(tmp_path / "a" / "b")  # one that is there is left as it is
