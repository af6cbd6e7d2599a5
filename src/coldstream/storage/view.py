"""The contract of whoever looks into a store beside its writer: what is there can be read, and nothing changes."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from coldstream.storage.store import Entry, LogLine, Saved


class View(Protocol):
    """What a `Store` tells, with the same meaning. The writer goes on: `base` and `last` may rise between calls."""

    def read(self, after: int, until: int | None = None, /) -> Iterator[Entry]:
        """The lines behind a position, in order, those that were there when it began and are not purged meanwhile.

        All of them, or those up to another position.

        Raises `StoreDamaged` at the first that is missing, or is not what was written.
        """

    def last(self) -> int:
        """The last position that was ever given out."""

    def checksum(self, position: int, /) -> int | None:
        """The checksum of a line, purged or not; None where the log has none, or not any more."""

    def forgotten(self) -> dict[str, int]:
        """The users that lines ask to be purged, and who are not yet; each with the position of the last line that asks."""

    def base(self) -> int:
        """Where a replay may begin at the earliest."""

    def cut(self) -> int:
        """The last position before which lines were deleted because they were old; 0 if none were."""

    def kept(self) -> list[LogLine]:
        """What is kept of lines that were deleted, as it was given to `cut_off`, less what was purged."""

    def marks(self) -> list[tuple[int, float]]:
        """Positions at which the log ended, by position, each with the time of which it was said."""

    def size(self) -> int:
        """About how many bytes log and snapshots take, with a WAL, without what is free for new lines."""

    def snapshots(self) -> list[Saved]:
        """The snapshots there are, the newest first."""

    def opened(self, saved: Saved, /) -> AbstractContextManager[Path]:
        """A file with the content of a snapshot, to be read only."""

    def log_name(self) -> str:
        """Where the log is, for people."""

    def snapshot_name(self, saved: Saved, /) -> str:
        """Where a snapshot is, for people."""

    def check(self) -> None:
        """Raise `StoreDamaged` where the database finds fault with itself, beyond what lines and their checksums tell."""

    def close(self) -> None:
        """Give everything back."""
