"""The interface of the store of shown lists.

The lists lie beside the log and are kept for a limited time. Nothing that the model learned depends on them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

DAY = 86_400.0
"""Seconds per counting period: counts are kept per day, and expire with the lists of that day."""

MOST_POSITIONS = 100
"""Number of list positions for which shown and taken items are counted."""


class ShownList(NamedTuple):
    """A recommendation list that was shown to a user, including all earlier pages of it."""

    name: str
    user: str | None
    time: float
    """The time at which the list was shown, in seconds since 1970."""
    items: tuple[str, ...]
    first: int = 0
    """The number of items that were shown on earlier pages."""
    taken: frozenset[int] = frozenset()
    """The positions, from 0, of the items that the user took."""


class Take(NamedTuple):
    """An item that a user took from a shown list."""

    name: str
    position: int
    """The position of the item, from 0."""
    time: float
    """The time at which the list was shown, in seconds since 1970."""


class PositionCount(NamedTuple):
    """The number of items shown, and of items taken, at one list position (from 0)."""

    position: int
    shown: int
    taken: int


class ShownStore(Protocol):
    """Shown lists by name. A store is used by one thread at a time.

    Calls raise `StoreUnavailable` if the disk or the server fails. Calls that end in `_in_steps` do nothing until they are
    iterated; other calls may use the store between two steps. They can be repeated, and must be after `StoreUnavailable`.
    """

    def keep(self, lists: Sequence[ShownList], /) -> None:
        """Store lists and count their items. A list that is already stored stays unchanged, and is counted again."""

    def take(self, takes: Sequence[Take], /) -> None:
        """Record taken items and count them. Items of lists that are no longer stored are counted too."""

    def find(self, names: Collection[str], /) -> dict[str, ShownList]:
        """Return the stored lists among `names`, by name."""

    def counts(self) -> list[PositionCount]:
        """Return the numbers of shown and taken items per position, over the time for which lists are kept."""

    def has(self, user: str, /) -> bool:
        """Return True if a list of the user is stored."""

    def erase_in_steps(self, users: Collection[str], /) -> Iterator[None]:
        """Erase the lists and the ids of users irreversibly."""

    def hand_over_in_steps(self, session: str, user: str, /) -> Iterator[None]:
        """Assign the lists of a session to a user."""

    def trim_in_steps(self, before: float, most: int, /) -> Iterator[None]:
        """Delete lists shown before a time, counts of earlier days, and the oldest lists while all exceed `most` bytes."""

    def size(self) -> int:
        """Return the approximate bytes of the lists on disk, without free pages."""

    def read(self) -> Iterator[ShownList]:
        """Yield all lists in the order in which they were stored."""

    def close(self) -> None:
        """Close the store and release its resources."""


def day_of(time: float) -> int:
    """Return the day under which a time is counted."""
    return int(time // DAY)


def shown_counts(lists: Iterable[ShownList]) -> list[tuple[int, int, int, int]]:
    """Return count rows of the items in lists: day, position, number shown, number taken (0)."""
    counts = Counter(
        (day_of(one.time), position) for one in lists for position in range(one.first, min(len(one.items), MOST_POSITIONS))
    )
    return [(*place, count, 0) for place, count in sorted(counts.items())]


def taken_counts(takes: Iterable[Take]) -> list[tuple[int, int, int, int]]:
    """Return count rows of taken items: day, position, number shown (0), number taken."""
    counts = Counter((day_of(take.time), take.position) for take in takes if take.position < MOST_POSITIONS)
    return [(*place, 0, count) for place, count in sorted(counts.items())]


Row: TypeAlias = tuple[bytes, bytes | None, float, bytes, int, bytes]
"""A list as the databases store it: name, user, time, encoded items, number of items on earlier pages, taken positions."""


def row_of(one: ShownList) -> Row:
    """Convert a list to a row. Names become UTF-8 bytes, because a text in PostgreSQL cannot hold every character."""
    person = None if one.user is None else one.user.encode()
    return one.name.encode(), person, one.time, msgspec.msgpack.encode(one.items), one.first, bytes(sorted(one.taken))


def list_of(row: Row) -> ShownList:
    """Convert a row of `row_of` back to a list."""
    name, person, time, items, first, taken = row
    user = None if person is None else person.decode()
    return ShownList(name.decode(), user, time, _decode(items), first, frozenset(taken))


_decode = msgspec.msgpack.Decoder(tuple[str, ...]).decode
