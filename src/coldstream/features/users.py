"""What is known of each user."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import Integers, checked_columns, grown
from coldstream.features.history import Features, Past


class Seen:
    """The slots of the items that a user had, in an array that kernels can read. Repeats are dropped when room runs out."""

    __slots__ = ("_buffer", "_count")

    def __init__(self, slots: Integers | None = None) -> None:
        self._buffer = _NONE if slots is None else slots
        self._count = len(self._buffer)

    def add(self, slot: int) -> None:
        """One more."""
        if self._count == len(self._buffer):
            distinct = self.distinct()
            self._count = len(distinct)
            self._buffer = grown(distinct, self._count + 1)
        self._buffer[self._count] = slot
        self._count += 1

    def slots(self) -> Integers:
        """All of them, some perhaps more than once, to be read only."""
        return self._buffer[: self._count]

    def distinct(self) -> Integers:
        """All of them once, in ascending order."""
        return np.unique(self.slots())


_NONE = np.zeros(0, np.int32)


class User:
    """One user: attributes as given, the features they make, the past, and the items had."""

    __slots__ = ("attributes", "features", "past", "seen")

    def __init__(self, attributes: Mapping[str, Any], features: Features, past: Past, seen: Seen) -> None:
        self.attributes = attributes
        self.features = features
        self.past = past
        self.seen = seen


def state(users: Mapping[str, User]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What JSON holds and what arrays hold of the users."""
    document = {
        "ids": list(users),
        "attributes": [dict(user.attributes) for user in users.values()],
        "items": [user.past.items for user in users.values()],
        "time": [user.past.time for user in users.values()],
        "note": [user.past.note for user in users.values()],
    }
    seen = [user.seen.distinct() for user in users.values()]
    counts = np.array([len(slots) for slots in seen], np.int32)
    return document, {"seen": np.concatenate([_NONE, *seen]), "seen_count": counts}


def pasts(document: Mapping[str, Any]) -> list[Past]:
    """The users' pasts in a document that `state` wrote."""
    return [
        Past(tuple(items), time, tuple((field, value, weight) for field, value, weight in note))
        for items, time, note in zip(document["items"], document["time"], document["note"], strict=True)
    ]


def seen_slots(arrays: Mapping[str, NDArray[Any]], slots: int) -> list[Seen]:
    """What the users had, in arrays that `state` wrote, where there are so many slots."""
    seen, counts = checked_columns("seen", arrays["seen"], 0, slots), arrays["seen_count"]
    if (counts < 0).any() or counts.sum() != len(seen):
        raise ValueError("seen_count does not add up")
    return [Seen(part.copy()) for part in np.split(seen, np.cumsum(counts)[:-1])] if len(counts) else []
