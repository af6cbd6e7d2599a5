"""The contract of where lists are kept that were shown: beside the log, for a while, and nothing learned depends on them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

DAY = 86_400.0
"""Seconds that are counted together: counts go with the lists, a day at a time."""

MOST_POSITIONS = 100
"""Positions of which it is counted how often something was shown and taken there."""


class ShownList(NamedTuple):
    """A list that was shown, with all pages before it."""

    name: str
    user: str | None
    time: float
    """When it was shown, in seconds since 1970."""
    items: tuple[str, ...]
    first: int = 0
    """How many of the items had been shown on the pages before."""
    taken: frozenset[int] = frozenset()
    """The positions, from 0, that something was taken from."""


class Take(NamedTuple):
    """Something was taken from a list."""

    name: str
    position: int
    """From 0."""
    time: float
    """When the list was shown."""


class PositionCount(NamedTuple):
    """How often something was shown at a position from 0, and taken there."""

    position: int
    shown: int
    taken: int


class ShownStore(Protocol):
    """Lists by name. Raises `StoreUnavailable` where the disk or the server fails. It is used by one thread at a time.

    Calls that end in `_in_steps` do nothing until they are iterated. Between two steps other calls may use the store. They
    may be repeated, and have to be after `StoreUnavailable`.
    """

    def keep(self, lists: Sequence[ShownList], /) -> None:
        """Keep lists, and count what they show. One that is there already is left alone, and counted once more."""

    def take(self, takes: Sequence[Take], /) -> None:
        """Note and count what was taken. Lists that are not there any more count all the same."""

    def find(self, names: Collection[str], /) -> dict[str, ShownList]:
        """Those lists of some names that are there."""

    def counts(self) -> list[PositionCount]:
        """What was shown and taken in the time that lists are kept, by position."""

    def has(self, user: str, /) -> bool:
        """Whether any kept list is a user's."""

    def erase_in_steps(self, users: Collection[str], /) -> Iterator[None]:
        """Erase the lists and the ids of users, for good."""

    def hand_over_in_steps(self, session: str, user: str, /) -> Iterator[None]:
        """Give the lists of a session to a user."""

    def trim_in_steps(self, before: float, most: int, /) -> Iterator[None]:
        """Delete lists shown before a time, counts of the days before it, and the oldest lists beyond `most` bytes."""

    def size(self) -> int:
        """Return about how many bytes the lists take on disk, without free pages."""

    def read(self) -> Iterator[ShownList]:
        """All lists, in the order in which they were kept."""

    def close(self) -> None:
        """Give everything back."""


def day_of(time: float) -> int:
    """The day that a time is counted under."""
    return int(time // DAY)


def shown_counts(lists: Iterable[ShownList]) -> list[tuple[int, int, int, int]]:
    """Rows of what lists show: the day, the position, how often it was shown and how often taken."""
    counts = Counter(
        (day_of(one.time), position) for one in lists for position in range(one.first, min(len(one.items), MOST_POSITIONS))
    )
    return [(*place, count, 0) for place, count in sorted(counts.items())]


def taken_counts(takes: Iterable[Take]) -> list[tuple[int, int, int, int]]:
    """Rows of what was taken, as those of `shown_counts`."""
    counts = Counter((day_of(take.time), take.position) for take in takes if take.position < MOST_POSITIONS)
    return [(*place, 0, count) for place, count in sorted(counts.items())]


Row: TypeAlias = tuple[bytes, bytes | None, float, bytes, int, bytes]
"""A list as databases keep it: its name, whose it is, when, its items in one piece, the first of them, what was taken."""


def row_of(one: ShownList) -> Row:
    """A list as a row. Names are bytes of UTF-8, because a text in PostgreSQL cannot hold every character."""
    person = None if one.user is None else one.user.encode()
    return one.name.encode(), person, one.time, msgspec.msgpack.encode(one.items), one.first, bytes(sorted(one.taken))


def list_of(row: Row) -> ShownList:
    """The inverse of `row_of`."""
    name, person, time, items, first, taken = row
    user = None if person is None else person.decode()
    return ShownList(name.decode(), user, time, _decode(items), first, frozenset(taken))


_decode = msgspec.msgpack.Decoder(tuple[str, ...]).decode
