"""The latest shown lists, in memory: a next page repeats no item, and a choice from a list is known by its position."""

from collections import OrderedDict
from dataclasses import dataclass, field

from coldstream.storage.shown import ShownList

MOST_KEPT = 100_000
"""Most items in all remembered lists together; each list counts as one item more."""


@dataclass(slots=True)
class Remembered:
    """A list that was shown, and the positions taken from it so far."""

    name: str
    user: str | None
    time: float
    """Time at which it was shown, in seconds since 1970."""
    items: tuple[str, ...]
    """Items of the list, after those of all pages before it."""
    first: int
    """Number of the items that were shown on the pages before."""
    is_kept: bool
    """Whether the list was drawn to be kept in the store, if there is one: only such lists count there."""
    taken: set[int] = field(default_factory=set)
    """Positions, from 0, of the items that were taken."""

    def passed_over(self, item: str) -> tuple[str, ...]:
        """Return the items that were shown above an item and not taken; none where the item was not shown."""
        if item not in self.items:
            return ()
        above = self.items.index(item)
        return tuple(self.items[place] for place in range(above) if place not in self.taken)


class ShownLists:
    """Shown lists by name, bounded by their items. The oldest is evicted first."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._lists: OrderedDict[str, Remembered] = OrderedDict()
        self._most, self._items = most, 0

    def __contains__(self, name: object) -> bool:
        return name in self._lists

    def __len__(self) -> int:
        return len(self._lists)

    def get(self, name: str) -> Remembered | None:
        """Return the list of a name; None where it is not remembered."""
        return self._lists.get(name)

    def add(self, own: Remembered) -> None:
        """Remember a list in place of any of its name, and evict the oldest lists beyond the bound."""
        self._drop(own.name)
        self._lists[own.name] = own
        self._items += 1 + len(own.items)
        while self._items > self._most and len(self._lists) > 1:
            self._drop(next(iter(self._lists)))

    def add_found(self, one: ShownList) -> None:
        """Remember a list that was read from the store."""
        self.add(Remembered(one.name, one.user, one.time, one.items, one.first, True, set(one.taken)))

    def has(self, user: str) -> bool:
        """Return whether any list of a user is remembered."""
        return any(own.user == user for own in self._lists.values())

    def erase(self, user: str) -> None:
        """Forget the lists of a user."""
        for name in [own.name for own in self._lists.values() if own.user == user]:
            self._drop(name)

    def hand_over(self, session: str, user: str) -> None:
        """Give the lists of a session to a user."""
        for own in self._lists.values():
            if own.user == session:
                own.user = user

    def _drop(self, name: str) -> None:
        if (own := self._lists.pop(name, None)) is not None:
            self._items -= 1 + len(own.items)
