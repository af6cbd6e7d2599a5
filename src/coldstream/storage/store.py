"""The interface of a store: an append-only log of lines, and snapshots of the state learned from them.

A store does not interpret its lines. It is used by one thread at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable


class LogLine(NamedTuple):
    """A line to append to the log."""

    body: bytes
    """The line as JSON in UTF-8."""
    user: str | None = None
    """The user whose data the line holds. The line is erased when that user is purged."""
    event_id: str | None = None
    """The client's id of the event. The log contains each id at most once."""
    forgets: bool = False
    """True if the line requests that its user be purged."""


class Entry(NamedTuple):
    """A line read from the log. Positions rise from 1; gaps in them are purged lines."""

    position: int
    body: bytes


class Saved(NamedTuple):
    """A stored snapshot. The newest has the highest number; `position` is the last log line that the snapshot includes."""

    number: int
    position: int


class SnapshotStore(Protocol):
    """The snapshots of a store, for a process that writes to the store or follows it. The methods are those of `Store`."""

    def save(self, position: int, file: Path, /) -> Saved:
        """Move a finished snapshot file into the store."""

    def snapshots(self) -> list[Saved]:
        """Return the stored snapshots, the newest first."""

    def discard(self, saved: Saved, /) -> None:
        """Delete a snapshot irreversibly."""

    def checksum(self, position: int, /) -> int | None:
        """Return the checksum of a log line; None if the log does not have the line, or no longer has it."""


class Store(Protocol):
    """A log with its snapshots, opened by the process that writes to it.

    Calls raise `StoreUnavailable` while the disk or the server fails, and work again afterwards. After `StoreUnavailable`
    from `append`, either all of the lines are in the log or none are: `read` tells which. Calls raise `StoreInUse` if
    another process took the right to write, and `StoreDamaged` if the store is damaged. A process may lose the right and
    regain it without noticing, so `append` takes the last position that its caller knows.
    """

    def append(self, lines: Sequence[LogLine], after: int, /) -> list[int | None]:
        """Append lines durably and atomically, after the position `after`, which must be the last of the log.

        Return the position of each line, or None for an event id that the log already has. If another process appended lines
        in the meantime, nothing is written and `StoreMovedOn` is raised: `read` returns the new lines.
        """

    def touch(self) -> None:
        """Rewrite existing metadata to test writing; raises what `append` would raise if the store cannot be written."""

    def read(self, after: int, until: int | None = None, /) -> Iterator[Entry]:
        """Yield the lines after a position, in order, up to the position `until` if given.

        Only lines that exist when the reading begins are read; lines purged in the meantime may be left out. Raises
        `StoreDamaged` at the first line that is missing or was changed.
        """

    def has_lines(self, user: str, after: int, until: int, /) -> bool:
        """Return True if a user has a line after `after`, up to and including `until`. It may scan all of these lines."""

    def last(self) -> int:
        """Return the highest position ever assigned, purged or not; 0 in an empty log."""

    def checksum(self, position: int, /) -> int | None:
        """Return the checksum of a line, purged or not; None if the log does not have the line, or no longer has it."""

    def forgotten(self) -> dict[str, int]:
        """Return the users with a requested, unfinished purge, each with the position of the last line that requests it."""

    def purge(self, users: Mapping[str, int], base: int, /) -> None:
        """Erase the lines of each user up to the position given for that user, irreversibly, with their event ids.

        No replay may start before `base` afterwards, and no line after it is erased. The call can be repeated, and must be
        after `StoreUnavailable`.
        """

    def purge_in_steps(self, users: Mapping[str, int], base: int, /) -> Iterator[None]:
        """Like `purge`, in steps between which the store may be used.

        `forgotten` returns the users until the last step is done.
        """

    def base(self) -> int:
        """Return the earliest position from which a replay may start: the highest base of any purge or cut, or 0."""

    def cut_off(self, position: int, kept: Sequence[LogLine], /) -> None:
        """Mark the lines up to a position as deleted: they are no longer read, and `clear_in_steps` deletes them.

        The lines `kept` stand for the deleted ones, and are added to those of earlier cuts; a kept line is erased when its
        user is purged. No replay may start before the position, and the event ids of the deleted lines are forgotten.
        """

    def clear_in_steps(self) -> Iterator[None]:
        """Delete the lines before the cut, in steps between which the store may be used. The call can be repeated."""

    def mark(self, time: float, /) -> None:
        """Record a time, in seconds since 1970, by which all current lines were written."""

    def cut(self) -> int:
        """Return the position up to which lines were deleted for their age; 0 if none were."""

    def kept(self) -> list[LogLine]:
        """Return the lines kept for deleted ones, as given to `cut_off`, without those of purged users."""

    def marks(self) -> list[tuple[int, float]]:
        """Return the recorded marks, ordered by position: the last position of the log at that time, and the time."""

    def size(self) -> int:
        """Return the approximate bytes of the log (with its WAL) and the snapshots, without space free for new lines."""

    def trim(self) -> None:
        """Return unused space to the disk, as far as no reader prevents it."""

    def save(self, position: int, file: Path, /) -> Saved:
        """Move a finished snapshot file into the store durably and atomically. The given file no longer exists afterwards.

        Raises `StoreMovedOn` if the position precedes the base, because the snapshot would still hold erased users.
        """

    def snapshots(self) -> list[Saved]:
        """Return the stored snapshots, the newest first."""

    def opened(self, saved: Saved, /) -> AbstractContextManager[Path]:
        """Open a read-only file with the content of a snapshot, as a context manager.

        The file may be removed after the block. Raises `InvalidSnapshot` if the snapshot no longer exists.
        """

    def discard(self, saved: Saved, /) -> None:
        """Delete a snapshot irreversibly. A snapshot that no longer exists is ignored."""

    def log_name(self) -> str:
        """Return the location of the log, for messages."""

    def snapshot_name(self, saved: Saved, /) -> str:
        """Return the location of a snapshot, for messages."""

    def check(self) -> None:
        """Raise `StoreDamaged` if the database's own integrity check fails, beyond what the checksums of lines detect."""

    def close(self) -> None:
        """Close the store and release the right to write, so that another process can open it."""


@runtime_checkable
class ClaimedStore(Store, Protocol):
    """A store that other processes follow, opened with the right to write, which those processes may take over."""

    epoch: int
    """The writer's epoch, which rises when the right to write is taken. Every append verifies it."""
