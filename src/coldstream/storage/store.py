"""The contract of every store: a log that only grows, and snapshots of what it led to.

A store knows nothing of what its lines mean. It is used by one thread at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable


class LogLine(NamedTuple):
    """A line to be appended to the log."""

    body: bytes
    """JSON, in UTF-8."""
    user: str | None = None
    """Whose line it is: it goes when the person is purged."""
    event_id: str | None = None
    """The client's name of the event; the log has each at most once."""
    forgets: bool = False
    """Whether the line asks for its user to be purged."""


class Entry(NamedTuple):
    """A line that the log has. Positions rise from 1; gaps are lines that were purged."""

    position: int
    body: bytes


class Saved(NamedTuple):
    """A snapshot that the store has. The newest has the highest number; the position is that of the last line it knows."""

    number: int
    position: int


class SnapshotStore(Protocol):
    """Where snapshots are, of a store that this process writes to or one that it follows; as `Store` has it."""

    def save(self, position: int, file: Path, /) -> Saved:
        """Take over a finished snapshot file."""

    def snapshots(self) -> list[Saved]:
        """The snapshots there are, the newest first."""

    def discard(self, saved: Saved, /) -> None:
        """Erase a snapshot, for good."""

    def checksum(self, position: int, /) -> int | None:
        """The checksum of a line; None where the log has none, or not any more."""


class Store(Protocol):
    """A log and snapshots. Raises `StoreUnavailable` where the disk or the server fails, and goes on when that is over.

    After `StoreUnavailable` from `append` the lines may or may not be in the log, but all or none: `read` tells.
    A store whose right to write went to another process raises `StoreInUse`, and a damaged one `StoreDamaged`. The right may
    be lost and had again unnoticed, so whoever appends says what it knows.
    """

    def append(self, lines: Sequence[LogLine], after: int, /) -> list[int | None]:
        """Make lines durable, all or none; the position of each, or None for an event id that the log has already.

        They continue the log behind a position, which has to be its last. Where the log has gone on without whoever appends,
        nothing is written and `StoreMovedOn` is raised: `read` tells what is new.
        """

    def touch(self) -> None:
        """Write what is there already; raises what `append` would where nothing can be written."""

    def read(self, after: int, until: int | None = None, /) -> Iterator[Entry]:
        """The lines behind a position, in order, those that were there when it began and are not purged meanwhile.

        All of them, or those up to another position.

        Raises `StoreDamaged` at the first that is missing, or is not what was written.
        """

    def has_lines(self, user: str, after: int, until: int, /) -> bool:
        """Whether any of the lines behind a position and up to another is a user's. It may look at all of them."""

    def last(self) -> int:
        """The last position that was ever given out, purged or not; 0 in an empty log."""

    def checksum(self, position: int, /) -> int | None:
        """The checksum of a line, purged or not; None where the log has none, or not any more."""

    def forgotten(self) -> dict[str, int]:
        """The users that lines ask to be purged, and who are not yet; each with the position of the last line that asks."""

    def purge(self, users: Mapping[str, int], base: int, /) -> None:
        """Erase the lines of each user up to a position of its own, for good, with their event ids.

        From now on no replay begins before the base, and nothing is erased behind it. It may be repeated, and has to be
        after `StoreUnavailable`.
        """

    def purge_in_steps(self, users: Mapping[str, int], base: int, /) -> Iterator[None]:
        """The same in steps, between which the store may be used. Until the last is done, `forgotten` tells of the users."""

    def base(self) -> int:
        """Where a replay may begin at the earliest: the highest base of any purge or cut, 0 if there was none."""

    def cut_off(self, position: int, kept: Sequence[LogLine], /) -> None:
        """Let the log begin behind a position: the lines up to it are not read any more, and `clear_in_steps` deletes them.

        What is `kept` of them is added to what was kept before; it goes when its user is purged. No replay begins before the
        position, and event ids before it are forgotten.
        """

    def clear_in_steps(self) -> Iterator[None]:
        """Delete what lies before the cut, in steps, between which the store may be used. It may be repeated."""

    def mark(self, time: float, /) -> None:
        """Note that all lines there are were written by a time, in seconds since 1970."""

    def cut(self) -> int:
        """The last position before which lines were deleted because they were old; 0 if none were."""

    def kept(self) -> list[LogLine]:
        """What is kept of lines that were deleted, as it was given to `cut_off`, less what was purged."""

    def marks(self) -> list[tuple[int, float]]:
        """Positions at which the log ended, by position, each with the time of which it was said."""

    def size(self) -> int:
        """About how many bytes log and snapshots take, with a WAL, without what is free for new lines."""

    def trim(self) -> None:
        """Give back to the disk what is taken for nothing, as far as nobody reads it now."""

    def save(self, position: int, file: Path, /) -> Saved:
        """Take over a finished snapshot file; the file itself is gone afterwards. It is durable and whole, or not there.

        Raises `StoreMovedOn` where the position is before the base: the snapshot would know people who were erased.
        """

    def snapshots(self) -> list[Saved]:
        """The snapshots there are, the newest first."""

    def opened(self, saved: Saved, /) -> AbstractContextManager[Path]:
        """A file with the content of a snapshot, to be read only; it may be gone when the block ends.

        Raises `InvalidSnapshot` where the snapshot is not there any more.
        """

    def discard(self, saved: Saved, /) -> None:
        """Erase a snapshot, for good; one that is gone already is none to erase."""

    def log_name(self) -> str:
        """Where the log is, for people."""

    def snapshot_name(self, saved: Saved, /) -> str:
        """Where a snapshot is, for people."""

    def check(self) -> None:
        """Raise `StoreDamaged` where the database finds fault with itself, beyond what lines and their checksums tell."""

    def close(self) -> None:
        """Give everything back. Another process may open the store afterwards."""


@runtime_checkable
class ClaimedStore(Store, Protocol):
    """A store that others follow, with the right to write, which they may take."""

    epoch: int
    """Begins whenever the right is taken, and is compared with every line that is written."""
