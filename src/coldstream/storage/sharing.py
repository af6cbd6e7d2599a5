"""The interfaces of a store that several processes share: one process writes to it, and the others follow it."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from coldstream.storage.store import ClaimedStore, SnapshotStore
from coldstream.storage.view import View


class News(NamedTuple):
    """The state of the log and of its writer at one moment."""

    epoch: int
    """The epoch of the writer, which rises each time a process takes the right to write."""
    last: int
    """The highest position ever assigned."""
    base: int
    """The earliest position from which a replay may start."""
    address: str | None
    """The address at which the writer can be reached; None if no writer has announced one."""
    beat: int
    """The writer's heartbeat, a counter that rises while the writer is alive."""
    held: bool
    """True if a process holds the right to write, whether it is alive or not."""
    followed: bool
    """True if a follower holds the duty of taking snapshots."""


class Sharing(Protocol):
    """The signals that processes on one store exchange through it, used by a thread other than the thread of the store.

    Calls raise `StoreUnavailable` while the server fails, and work again afterwards.
    """

    def wait(self, seconds: float, /) -> int | None:
        """Wait up to `seconds` for a notification.

        Return the last position of the log that was notified, 0 for a notification about something else, None after the
        timeout.
        """

    def look(self) -> News:
        """Return the writer's epoch, address and heartbeat, and the bounds of the log."""

    def beat(self, epoch: int, /) -> bool:
        """Send a heartbeat of the writer of an epoch; return False if that epoch has ended."""

    def announce(self, epoch: int, address: str | None, /) -> None:
        """Publish the address of the writer of an epoch; None if the writer no longer accepts writes."""

    def unseat(self, epoch: int, /) -> bool:
        """End the epoch of an unresponsive writer.

        Return False if another epoch has begun already, or if the writer's session may not be ended.
        """

    def take_duty(self) -> bool:
        """Try to become the follower that takes snapshots; return True if this process now has that duty."""

    def give_up_duty(self) -> None:
        """Release the duty of taking snapshots to another follower."""

    def local_address(self) -> str:
        """Return the local address of this machine's connection to the database."""

    def close(self) -> None:
        """Close the connection, which also releases the duty of taking snapshots."""


class Followed(View, SnapshotStore, Protocol):
    """A store that another process writes to. This process reads it, and may save snapshots."""


class Shared(NamedTuple):
    """Constructors for the parts of a store that several processes share."""

    claimed: Callable[[], ClaimedStore]
    """Opens the store with the right to write; raises `StoreInUse` soon if another process holds the right."""
    followed: Callable[[], Followed]
    sharing: Callable[[], Sharing]
    is_there: Callable[[], bool]
    """Returns True if the log has lines."""
