"""The lineup: the live items in the order of the scan, with all that the scan reads of them side by side."""

import numpy as np

from coldstream.arrays import grown
from coldstream.catalogue.shapes import Live, Trends
from coldstream.model.compiled import direct, kernel


class Lineup:
    """Live slots and what is known of them, copied to where a scan meets them. It follows from the rest of the catalogue."""

    def __init__(self, trends: int) -> None:
        integers, floats = np.zeros(0, np.int32), np.zeros(0, np.float32)
        self._room = Live(integers, integers, integers, np.zeros((trends, 0), np.float32), np.zeros(0, np.int64), floats)
        self.position = integers
        """By slot; means nothing where a slot is not live."""
        self.count = 0

    def view(self) -> Live:
        """The arrays, as long as there are live items. Levels have more room, because each trend's lie in one piece."""
        slot, own, signature, level, clock, untried = self._room
        n = self.count
        return Live(slot[:n], own[:n], signature[:n], level, clock[:n], untried[:n])

    def append(self, slot: int) -> None:
        """One more, at the end."""
        if self.count == len(self._room.slot):
            self._grow(self.count + 1)
        self.position = grown(self.position, slot + 1)
        self.position[slot] = self.count
        self._room.slot[self.count] = slot
        self.count += 1

    def _grow(self, rows: int) -> None:
        slot, own, signature, level, clock, untried = self._room
        self._room = Live(
            slot=grown(slot, rows),
            own=grown(own, rows),
            signature=grown(signature, rows),
            level=np.ascontiguousarray(grown(level.T, rows).T),
            clock=grown(clock, rows),
            untried=grown(untried, rows),
        )

    def remove(self, slot: int) -> None:
        """One less; the last one takes its place."""
        self.count -= 1
        place = self.position[slot]
        for own in self._room:
            own[..., place] = own[..., self.count]
        self.position[self._room.slot[place]] = place

    def describe(self, slot: int, own: int, signature: int) -> None:
        """An item's id column and signature."""
        place = self.position[slot]
        self._room.own[place], self._room.signature[place] = own, signature

    def follow(self, trends: Trends, slot: int) -> None:
        """An item's trends have changed."""
        if len(trends.rate):
            _follow(trends, self._room, self.position[slot], slot)

    def follow_all(self, trends: Trends) -> None:
        """All trends may have changed."""
        for slot in self._room.slot[: self.count].tolist():
            self.follow(trends, slot)

    def sort(self) -> None:
        """In the order of the id columns: neighbours are read together, and memory is read forwards."""
        order = np.argsort(self._room.own[: self.count], kind="stable")
        for own in self._room:
            own[..., : self.count] = own[..., order]
        self.position[self._room.slot[: self.count]] = np.arange(self.count, dtype=np.int32)


@kernel
def follow(trends: Trends, live: Live, place: int, slot: int) -> None:
    """Copy what the scan reads of an item's trends."""
    for h in range(len(trends.rate)):
        live.level[h, place] = trends.level[slot, h]
    live.clock[place] = trends.clock[slot]
    live.untried[place] = np.float32(trends.times[slot] == 0)


_follow = direct(follow)
