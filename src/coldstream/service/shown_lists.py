"""What was shown under which id: so that a next page repeats nothing, and a click is known by its position.

It is kept in memory, and the oldest goes.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from secrets import token_urlsafe

import numpy as np

from coldstream.arrays import Longs
from coldstream.errors import UnknownId, shown

MOST_POSITIONS = 100
"""Positions of which it is counted how often something was shown and taken there."""
MOST_KEPT = 100_000
"""Items in all lists that are remembered, together."""


class ShownLists:
    """Lists by id, each with those of the pages before it."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._lists: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._most, self._items = most, 0
        self._taken: dict[str, set[str]] = {}  # by list, what was taken of it
        self.shown: Longs = np.zeros(MOST_POSITIONS, np.int64)
        """By position from 0, how often an item was shown there."""
        self.taken: Longs = np.zeros(MOST_POSITIONS, np.int64)
        """By position from 0, how often it was taken there; an item of a list counts once."""

    def remember(self, items: Iterable[str], before: Sequence[str] = ()) -> str:
        """The id of a list that is shown now, after others."""
        name, own = token_urlsafe(12), (*before, *items)
        self.shown[len(before) : len(own)] += 1
        self._lists[name] = own
        self._items += 1 + len(own)
        while self._items > self._most and len(self._lists) > 1:
            gone, oldest = self._lists.popitem(last=False)
            self._taken.pop(gone, None)
            self._items -= 1 + len(oldest)
        return name

    def take(self, name: str, item: str) -> None:
        """An item of a list was taken. Lists that are not known here, and items that others were, count for nothing."""
        own = self._lists.get(name, ())
        taken = self._taken.setdefault(name, set()) if own else set[str]()
        if item not in own or item in taken:
            return
        taken.add(item)
        position = own.index(item)
        if position < MOST_POSITIONS:
            self.taken[position] += 1

    def items(self, name: str) -> tuple[str, ...]:
        """All that was shown up to a list."""
        if name not in self._lists:
            message = f"recommendation_id {shown(name)} is not known here, or was too long ago"
            raise UnknownId(f"{message}; ask for the first page again, or name what was shown in deny")
        return self._lists[name]
