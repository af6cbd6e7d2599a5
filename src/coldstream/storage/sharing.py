"""The contract of a store that several processes share: one of them writes, and the others follow it."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from coldstream.storage.store import ClaimedStore, SnapshotStore
from coldstream.storage.view import View


class News(NamedTuple):
    """How a log and its writer stand at one moment."""

    epoch: int
    """Rises whenever another takes the right to write."""
    last: int
    """The last position that was given out."""
    base: int
    """Where a replay may begin at the earliest."""
    address: str | None
    """Where the writer is reached; None where none has said so."""
    beat: int
    """Changes as long as the writer is alive."""
    held: bool
    """Whether somebody holds the right to write, alive or not."""
    followed: bool
    """Whether some follower is there to take snapshots."""


class Sharing(Protocol):
    """What processes on one store say to each other through it. It has a thread of its own, beside that of the store.

    Raises `StoreUnavailable` where the server fails, and goes on when that is over.
    """

    def wait(self, seconds: float, /) -> int | None:
        """Wait for news, at most so long; the last line of the log, 0 where it is not about lines, None if nothing came."""

    def look(self) -> News:
        """How things stand."""

    def beat(self, epoch: int, /) -> bool:
        """Show that the writer of an epoch is alive; whether it is still its turn."""

    def announce(self, epoch: int, address: str | None, /) -> None:
        """Say where the writer of an epoch is reached; None where it takes nothing any more."""

    def unseat(self, epoch: int, /) -> bool:
        """End the epoch of a writer that shows no life; whether it was that one's turn until now."""

    def take_duty(self) -> bool:
        """Try to be the follower that takes the snapshots; whether this process is."""

    def give_up_duty(self) -> None:
        """Let another follower take the snapshots."""

    def local_address(self) -> str:
        """The address of this machine that it talks to the database from."""

    def close(self) -> None:
        """Give everything back."""


class Followed(View, SnapshotStore, Protocol):
    """A store that another process writes to, where snapshots may be saved."""


class Shared(NamedTuple):
    """The ways to open a store that several processes share."""

    claimed: Callable[[], ClaimedStore]
    """The store, with the right to write; raises `StoreInUse` at once where another has it."""
    followed: Callable[[], Followed]
    sharing: Callable[[], Sharing]
    is_there: Callable[[], bool]
    """Whether somebody has begun the log."""
