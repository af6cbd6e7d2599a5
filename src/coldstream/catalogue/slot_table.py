"""Which slot an id has: as long as its item is live, and for a while after it went.

What users had is known by slots. An id that is gone keeps its slot at first: should it come back, it is known who had it.
Once a thousand are gone, and more than are live, the one that went first loses its slot. Whatever users have of a slot that
was freed since is void, and the next newcomer takes it.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.support.arrays import Integers, Longs, checked_columns, grown, saved_count

FREE = ""
"""The id of a slot that is free: no item has it."""


class Place(NamedTuple):
    """Where an item is kept. A number may be another item's later on; the arrival is that of no other."""

    number: int
    """Its slot."""
    arrival: int
    """Which of all arrivals it was."""


def kept(live: int) -> int:
    """How many ids that are gone keep their slots beside so many that are live."""
    return max(1000, live)


class SlotTable:
    """Ids by slot, and slots by id."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.freed = 0
        """How often a slot was freed."""
        self._freed_at: Longs = np.zeros(0, np.int64)  # by slot: the count of `freed` when it was freed last, 0 for never
        self._slots: dict[str, int] = {}
        self._gone: dict[int, None] = {}  # slots whose ids are not live, in the order in which they went
        self._free: list[int] = []  # a heap: the lowest is taken first, so that slots follow from the log alone

    def __len__(self) -> int:
        """How many slots there are, in use or not."""
        return len(self.ids)

    def __contains__(self, item: object) -> bool:
        return item in self._slots

    def __getitem__(self, item: str) -> int:
        return self._slots[item]

    def get(self, item: str) -> int | None:
        """The slot of an id, or None."""
        return self._slots.get(item)

    def find(self, items: Iterable[str]) -> list[int]:
        """The slots of those ids that have one."""
        known = self._slots
        return [known[item] for item in items if item in known]

    def void(self, slots: Sequence[int] | Integers, as_of: int) -> NDArray[np.bool_] | None:
        """Which of some slots were freed since so many had been; None if none was."""
        if as_of == self.freed or not len(slots):
            return None
        void: NDArray[np.bool_] = self._freed_at[np.asarray(slots)] > as_of
        return void if void.any() else None

    # What changes

    def come(self, item: str) -> int:
        """An item that is not live comes; its slot."""
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
        """An item goes, and so many are left; the slots that are freed, and whose they were."""
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
        """The slots of ids that are gone, in the order in which they went."""
        return tuple(self._gone)

    def undo(self, slot: int, slots: int, gone: Sequence[int]) -> None:
        """Undo the coming of an item, before which there were so many slots and these were gone."""
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
        """The same as it is now."""
        other = SlotTable()
        other.ids, other.freed, other._freed_at = list(self.ids), self.freed, self._freed_at.copy()
        other._slots, other._gone, other._free = dict(self._slots), dict(self._gone), list(self._free)
        return other

    # For snapshots

    def state(self) -> dict[str, NDArray[np.int32] | Longs]:
        """All but the ids, as named arrays."""
        return {"gone": np.array(self.gone(), np.int32), "freed_at": self._freed_at[: len(self.ids)].copy()}

    def restore(self, ids: Sequence[str], freed: int, gone: NDArray[np.int32], freed_at: Longs, live: Integers) -> None:
        """The inverse of `state`, into an empty table, where these slots are live."""
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
