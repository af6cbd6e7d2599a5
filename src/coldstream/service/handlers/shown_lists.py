"""The lists that were shown last, in memory: so that a next page repeats nothing, and a click is known by its position."""

from collections import OrderedDict
from dataclasses import dataclass, field

from coldstream.storage.shown import ShownList

MOST_KEPT = 100_000
"""Items in all lists that are remembered, together."""


@dataclass(slots=True)
class Remembered:
    """A list, and what was taken of it so far."""

    name: str
    user: str | None
    time: float
    items: tuple[str, ...]
    first: int
    is_kept: bool
    """Whether a store keeps it: only such lists count."""
    taken: set[int] = field(default_factory=set)

    def passed_over(self, item: str) -> tuple[str, ...]:
        """What was shown above an item and not taken; nothing, where the item was not shown."""
        if item not in self.items:
            return ()
        above = self.items.index(item)
        return tuple(self.items[place] for place in range(above) if place not in self.taken)


class ShownLists:
    """Lists by name. The oldest goes."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._lists: OrderedDict[str, Remembered] = OrderedDict()
        self._most, self._items = most, 0

    def __contains__(self, name: object) -> bool:
        return name in self._lists

    def __len__(self) -> int:
        return len(self._lists)

    def get(self, name: str) -> Remembered | None:
        """The list of a name, where it is remembered."""
        return self._lists.get(name)

    def add(self, own: Remembered) -> None:
        """Remember a list, in the place of what had its name."""
        self._drop(own.name)
        self._lists[own.name] = own
        self._items += 1 + len(own.items)
        while self._items > self._most and len(self._lists) > 1:
            self._drop(next(iter(self._lists)))

    def add_found(self, one: ShownList) -> None:
        """Remember a list that a store kept."""
        self.add(Remembered(one.name, one.user, one.time, one.items, one.first, True, set(one.taken)))

    def has(self, user: str) -> bool:
        """Whether a list of a user is remembered."""
        return any(own.user == user for own in self._lists.values())

    def erase(self, user: str) -> None:
        """Forget the lists of a user."""
        for name in [own.name for own in self._lists.values() if own.user == user]:
            self._drop(name)

    def hand_over(self, session: str, user: str) -> None:
        """Let the lists of a session be those of a user."""
        for own in self._lists.values():
            if own.user == session:
                own.user = user

    def _drop(self, name: str) -> None:
        if (own := self._lists.pop(name, None)) is not None:
            self._items -= 1 + len(own.items)
