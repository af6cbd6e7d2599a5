"""Slots of items: an id keeps its slot as long as its item is live, and for a while after its removal.

Users' histories refer to items by slot. The id of a removed item keeps its slot at first: if the item returns, the histories
still hold. Once more than a thousand are removed, and more than are live, the one removed first loses its slot. Entries of
histories that refer to a slot freed since are void, and the next new item takes the slot.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.support.arrays import Integers, Longs, checked_columns, grown, saved_count

FREE = ""
"""The id of a free slot, which no item has."""


class Place(NamedTuple):
    """The place of an item: a slot number, which may be reused by another item, and an arrival number, which is unique."""

    number: int
    """Number of the slot."""
    arrival: int
    """Number of the item's arrival among all arrivals."""


def kept(live: int) -> int:
    """Return how many ids of removed items keep their slots beside so many live ones."""
    return max(1000, live)


class SlotTable:
    """A mapping between ids and slots."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.freed = 0
        """Number of times that a slot was freed."""
        self._freed_at: Longs = np.zeros(0, np.int64)  # by slot: `freed` when it was last freed, 0 for never
        self._slots: dict[str, int] = {}
        self._gone: dict[int, None] = {}  # slots of removed items, in the order of removal
        self._free: list[int] = []  # a heap: the lowest is taken first, so that slots follow from the log alone

    def __len__(self) -> int:
        """Return the number of slots, in use or not."""
        return len(self.ids)

    def __contains__(self, item: object) -> bool:
        return item in self._slots

    def __getitem__(self, item: str) -> int:
        return self._slots[item]

    def get(self, item: str) -> int | None:
        """Return the slot of an id, or None if it has none."""
        return self._slots.get(item)

    def find(self, items: Iterable[str]) -> list[int]:
        """Return the slots of those ids that have one."""
        known = self._slots
        return [known[item] for item in items if item in known]

    def void(self, slots: Sequence[int] | Integers, as_of: int) -> NDArray[np.bool_] | None:
        """Return which of some slots were freed since `freed` was `as_of`, or None if none was."""
        if as_of == self.freed or not len(slots):
            return None
        void: NDArray[np.bool_] = self._freed_at[np.asarray(slots)] > as_of
        return void if void.any() else None

    # Changes

    def come(self, item: str) -> int:
        """Assign a slot to an arriving item that is not live: its former one if it still has it; return the slot."""
        slot = self._slots.get(item)
        if slot is not None:
            del self._gone[slot]
            return slot
        if self._free:
            slot = heapq.heappop(self._free)
            self.ids[slot] = item
        else:
            slot = len(self.ids)
            self.ids.append(item)
            self._freed_at = grown(self._freed_at, slot + 1)
        self._slots[item] = slot
        return slot

    def go(self, slot: int, live: int) -> dict[int, str]:
        """Mark the slot of an item as removed, where `live` items remain; return the slots this frees, with their ids."""
        self._gone[slot] = None
        freed: dict[int, str] = {}
        while len(self._gone) > kept(live):
            first = next(iter(self._gone))
            del self._gone[first]
            freed[first] = self.ids[first]
            self._release(first)
            self.freed += 1
            self._freed_at[first] = self.freed
        return freed

    def gone(self) -> tuple[int, ...]:
        """Return the slots of removed items, in the order of removal."""
        return tuple(self._gone)

    def undo(self, slot: int, slots: int, gone: Sequence[int]) -> None:
        """Undo the last `come`, before which there were `slots` slots and those in `gone` belonged to removed items."""
        if slot in gone:
            self._gone = dict.fromkeys(gone)
            return
        self._release(slot)
        if len(self.ids) > slots:
            del self.ids[slots:]
            self._free = [free for free in self._free if free < slots]
            heapq.heapify(self._free)

    def _release(self, slot: int) -> None:
        del self._slots[self.ids[slot]]
        self.ids[slot] = FREE
        heapq.heappush(self._free, slot)

    def copy(self) -> "SlotTable":
        """Return an independent copy."""
        other = SlotTable()
        other.ids, other.freed, other._freed_at = list(self.ids), self.freed, self._freed_at.copy()
        other._slots, other._gone, other._free = dict(self._slots), dict(self._gone), list(self._free)
        return other

    # For snapshots

    def state(self) -> dict[str, NDArray[np.int32] | Longs]:
        """Return the state, without the ids, as named arrays."""
        return {"gone": np.array(self.gone(), np.int32), "freed_at": self._freed_at[: len(self.ids)].copy()}

    def restore(self, ids: Sequence[str], freed: int, gone: NDArray[np.int32], freed_at: Longs, live: Integers) -> None:
        """Load what `state` returned into an empty table, of which the slots `live` are live."""
        checked_columns("gone", gone, 0, len(ids))
        free = np.array([item == FREE for item in ids], np.bool_)
        parts = np.zeros(len(ids), np.int64)
        np.add.at(parts, live, 1)
        np.add.at(parts, gone, 1)
        whole = bool((parts + free == 1).all())
        stamped = freed_at.dtype == np.int64 and freed_at.shape == (len(ids),) and saved_count("freed", freed) >= 0
        if not whole or not stamped or (freed_at < 0).any() or (freed_at > freed).any() or (freed_at[free] == 0).any():
            raise ValueError("the slots do not fit together")
        self.ids, self.freed, self._freed_at = list(ids), freed, freed_at.copy()
        self._slots = {item: slot for slot, item in enumerate(ids) if item != FREE}
        self._gone, self._free = dict.fromkeys(gone.tolist()), np.flatnonzero(free).tolist()
        if len(self._slots) + int(free.sum()) != len(ids):
            raise ValueError("an item is there twice")
