"""What is known of each user."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.features.history import Features, Past


class User:
    """One user: attributes as given, the features they make, the past, and the slots of the items had."""

    __slots__ = ("attributes", "features", "past", "seen")

    def __init__(self, attributes: Mapping[str, Any], features: Features, past: Past, seen: set[int]) -> None:
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
    seen = [slot for user in users.values() for slot in sorted(user.seen)]
    counts = [len(user.seen) for user in users.values()]
    return document, {"seen": np.array(seen, np.int32), "seen_count": np.array(counts, np.int32)}


def pasts(document: Mapping[str, Any]) -> list[Past]:
    """The users' pasts in a document that `state` wrote."""
    return [
        Past(tuple(items), time, tuple((field, value, weight) for field, value, weight in note))
        for items, time, note in zip(document["items"], document["time"], document["note"], strict=True)
    ]


def seen_slots(arrays: Mapping[str, NDArray[Any]]) -> list[set[int]]:
    """The users' seen slots in arrays that `state` wrote."""
    ends = np.cumsum(arrays["seen_count"])
    return [set(map(int, arrays["seen"][end - count : end])) for end, count in zip(ends, arrays["seen_count"], strict=True)]
