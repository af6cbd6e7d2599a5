"""What is known of each user."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import Integers, checked_columns, grown
from coldstream.features.history import Features, Past
from coldstream.features.portrait import Portrait


class Seen:
    """The slots of the items that a user had, and how often, in arrays that kernels can read.

    A repeat is an entry of its own until room runs out; then entries of one slot become one.
    """

    __slots__ = ("_count", "_slots", "_times")

    def __init__(self, slots: Integers | None = None, times: Integers | None = None) -> None:
        self._slots = _NONE if slots is None else slots
        self._times = _NONE if times is None else times
        self._count = len(self._slots)

    def add(self, slot: int) -> None:
        """One more."""
        if self._count == len(self._slots):
            slots, times = self.distinct()
            self._count = len(slots)
            self._slots, self._times = grown(slots, self._count + 1), grown(times, self._count + 1)
        self._slots[self._count], self._times[self._count] = slot, 1
        self._count += 1

    def slots(self) -> Integers:
        """All of them, some perhaps in several entries, to be read only."""
        return self._slots[: self._count]

    def times(self) -> Integers:
        """How often each entry of `slots` counts, to be read only."""
        return self._times[: self._count]

    def distinct(self) -> tuple[Integers, Integers]:
        """All of them once, in ascending order, and how often each."""
        slots, entry = np.unique(self.slots(), return_inverse=True)
        return slots, np.bincount(entry, self.times(), len(slots)).astype(np.int32)


_NONE = np.zeros(0, np.int32)


class User:
    """One user: attributes as given, the features they make, the past, and the items had; and what follows from them."""

    __slots__ = ("attributes", "features", "past", "portrait", "seen")

    def __init__(self, attributes: Mapping[str, Any], features: Features, past: Past, seen: Seen) -> None:
        self.attributes = attributes
        self.features = features
        self.past = past
        self.seen = seen
        self.portrait: Portrait | None = None


def state(users: Mapping[str, User]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What JSON holds and what arrays hold of the users."""
    document = {
        "ids": list(users),
        "attributes": [dict(user.attributes) for user in users.values()],
        "items": [user.past.items for user in users.values()],
        "time": [user.past.time for user in users.values()],
        "note": [user.past.note for user in users.values()],
    }
    return document, _seen_by_all([user.seen for user in users.values()])


def _seen_by_all(seen: Sequence[Seen]) -> dict[str, NDArray[Any]]:
    """What `distinct` says of each, one after the other. Sorted all at once, because everybody waits for a snapshot."""
    slots = np.concatenate([_NONE, *(own.slots() for own in seen)])
    times = np.concatenate([_NONE, *(own.times() for own in seen)])
    owner = np.repeat(np.arange(len(seen)), [len(own.slots()) for own in seen])
    order = np.lexsort((slots, owner))
    slots, times, owner = slots[order], times[order], owner[order]
    first = np.flatnonzero(np.diff(slots, prepend=-1) | np.diff(owner, prepend=-1))
    summed = np.add.reduceat(times, first) if len(first) else times
    counts = np.bincount(owner[first], minlength=len(seen)).astype(np.int32)
    return {"seen": slots[first], "seen_times": summed.astype(np.int32), "seen_count": counts}


def pasts(document: Mapping[str, Any]) -> list[Past]:
    """The users' pasts in a document that `state` wrote."""
    return [
        Past(tuple(items), time, tuple((field, value, weight) for field, value, weight in note))
        for items, time, note in zip(document["items"], document["time"], document["note"], strict=True)
    ]


def seen_slots(arrays: Mapping[str, NDArray[Any]], slots: int) -> list[Seen]:
    """What the users had, in arrays that `state` wrote, where there are so many slots."""
    seen, counts = checked_columns("seen", arrays["seen"], 0, slots), arrays["seen_count"]
    times = checked_columns("seen_times", arrays["seen_times"], 1, 2**31 - 1)
    if (counts < 0).any() or counts.sum() != len(seen) or len(times) != len(seen):
        raise ValueError("seen_count does not add up")
    ends = np.cumsum(counts)[:-1]
    parts = zip(np.split(seen, ends), np.split(times, ends), strict=True)
    return [Seen(own.copy(), often.copy()) for own, often in parts] if len(counts) else []
