"""The interface of a read-only view of a store, beside its writer."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from coldstream.storage.store import Entry, LogLine, Saved


class View(Protocol):
    """A read-only view of a store. The writer goes on meanwhile, so `base` and `last` may rise between calls."""

    def read(self, after: int, until: int | None = None, /) -> Iterator[Entry]:
        """Yield the lines after a position, in order, up to the position `until` if given.

        Only lines that exist when the reading begins are read; lines purged in the meantime may be left out. Raises
        `StoreDamaged` at the first line that is missing or was changed.
        """

    def last(self) -> int:
        """Return the highest position ever assigned; 0 in an empty log."""

    def checksum(self, position: int, /) -> int | None:
        """Return the checksum of a line, purged or not; None if the log does not have the line, or no longer has it."""

    def forgotten(self) -> dict[str, int]:
        """Return the users with a requested, unfinished purge, each with the position of the last line that requests it."""

    def base(self) -> int:
        """Return the earliest position from which a replay may start."""

    def cut(self) -> int:
        """Return the position up to which lines were deleted for their age; 0 if none were."""

    def kept(self) -> list[LogLine]:
        """Return the lines kept for deleted ones, as given to `Store.cut_off`, without those of purged users."""

    def marks(self) -> list[tuple[int, float]]:
        """Return the recorded marks, ordered by position: the last position of the log at that time, and the time."""

    def size(self) -> int:
        """Return the approximate bytes of the log (with its WAL) and the snapshots, without space free for new lines."""

    def snapshots(self) -> list[Saved]:
        """Return the stored snapshots, the newest first."""

    def opened(self, saved: Saved, /) -> AbstractContextManager[Path]:
        """Open a read-only file with the content of a snapshot, as a context manager."""

    def log_name(self) -> str:
        """Return the location of the log, for messages."""

    def snapshot_name(self, saved: Saved, /) -> str:
        """Return the location of a snapshot, for messages."""

    def check(self) -> None:
        """Raise `StoreDamaged` if the database's own integrity check fails, beyond what the checksums of lines detect."""

    def close(self) -> None:
        """Close the view and release its resources."""
