"""What belongs to one user: attributes, recent history, the items seen, and the encoding that follows from them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import Integers, checked_columns, frozen, grown
from coldstream.catalogue.catalogue import Catalogue
from coldstream.catalogue.shapes import UserHistory
from coldstream.events.event import Event
from coldstream.features.encoded_user import EncodedUser
from coldstream.features.encoder import Encoder
from coldstream.features.history import Features, LastItemFeatures, RecentHistory
from coldstream.features.sparse import Sparse

_NONE = np.zeros(0, np.int32)


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

    def copy(self) -> "Seen":
        """The same as it is now. Entries are never written again, so they need not be copied."""
        copied = Seen()
        copied._slots, copied._times, copied._count = self._slots, self._times, self._count
        return copied

    def distinct(self) -> tuple[Integers, Integers]:
        """All of them once, in ascending order, and how often each."""
        slots, entry = np.unique(self.slots(), return_inverse=True)
        return slots, np.bincount(entry, self.times(), len(slots)).astype(np.int32)


class UserState:
    """One user: attributes as given, the features they make, the recent history, the items seen; and what follows."""

    __slots__ = ("attributes", "encoded", "features", "recent", "seen")

    def __init__(self, attributes: Mapping[str, Any], features: Features, recent: RecentHistory, seen: Seen) -> None:
        self.attributes = attributes
        self.features = features
        self.recent = recent
        self.seen = seen
        self.encoded: EncodedUser | None = None


def nobody() -> UserState:
    """Somebody of whom nothing is known. Made anew each time: a request may write its encoding onto it."""
    return UserState({}, [], RecentHistory(), Seen())


class UserStates:
    """Everything that is known of single users. It reads the encoder and the catalogue, and changes neither."""

    def __init__(self, encoder: Encoder, catalogue: Catalogue) -> None:
        self._encoder, self._catalogue = encoder, catalogue
        self._states: dict[str, UserState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __contains__(self, user: object) -> bool:
        return user in self._states

    def __getitem__(self, user: str) -> UserState:
        return self._states[user]

    def of(self, user: str | None) -> UserState:
        """The state of a user, or that of somebody unknown."""
        found = None if user is None else self._states.get(user)
        return nobody() if found is None else found

    # What changes

    def put(self, user: str, attributes: Mapping[str, Any], features: Features) -> None:
        """Add a user, or give one other attributes."""
        before = self._states.get(user)
        recent, seen = (RecentHistory(), Seen()) if before is None else (before.recent, before.seen)
        self._states[user] = UserState(attributes, features, recent, seen)

    def forget(self, user: str) -> None:
        """Drop a user."""
        del self._states[user]

    def checkpoint(self, users: Iterable[str]) -> Callable[[], None]:
        """What gives some users back what they are now."""
        saved = {user: self._states[user] for user in users if user in self._states}
        kept = {user: (state.recent, state.seen.copy(), state.encoded) for user, state in saved.items()}
        unknown = [user for user in users if user not in self._states]

        def undo() -> None:
            for user in unknown:
                self._states.pop(user, None)
            for user, state in saved.items():
                state.recent, state.seen, state.encoded = kept[user]

        return undo

    def remember(self, event: Event, slot: int) -> None:
        """An event has happened: it is part of the user's past from now on."""
        state = self._states.get(event.user)
        if state is None:
            state = UserState({}, self._encoder.describe_user(event.user, {}), RecentHistory(), Seen())
            self._states[event.user] = state
        last_item: LastItemFeatures = self._catalogue.last_item_features[slot]
        state.recent = self._encoder.history.after(state.recent, event.item, last_item, event.time)
        state.seen.add(slot)

    # What only reads

    def features(self, user: str) -> Features:
        """The features that a user brings to an event: the user's own, known or not, and the history's."""
        state = self._states.get(user)
        if state is None:
            return self._encoder.describe_user(user, {})
        return state.features + self._encoder.history.features(state.recent)

    def history(self, state: UserState) -> UserHistory:
        """What a user did so far, in slots."""
        kept = self.kept(state)
        recent = self.recent_slots(state.recent) if kept is None else kept.recent
        return UserHistory(recent, state.seen.slots(), state.seen.times())

    def encoded(self, state: UserState) -> EncodedUser:
        """What a user brings to every request. Kept with the user, where it can be neither seen nor wrong."""
        kept = self.kept(state)
        if kept is None:
            fields, release_count = self._encoder.history, self._encoder.vocabulary.release_count
            features = state.features + fields.features(state.recent)
            x, recent = self._encoder.encode(features), self.recent_slots(state.recent)
            packed = x.column.tobytes(), x.value.tobytes()
            complete = len(x.column) == len(features)
            kept = state.encoded = EncodedUser(*packed, recent, state.recent, fields, release_count, complete)
        return kept

    def kept(self, state: UserState) -> EncodedUser | None:
        """The encoding of a user who has asked since the last event. Learning makes none: it would not outlive the event."""
        kept, encoder = state.encoded, self._encoder
        holds = kept is not None and kept.holds(state.recent, encoder.history, encoder.vocabulary.release_count)
        return kept if holds else None

    def request(
        self,
        state: UserState,
        user: str,
        context: Mapping[str, Any],
        time: float | None,
        attributes: Mapping[str, Any] | None,
    ) -> Sparse:
        """What a request fixes, in known features: the user, the user's past, the context and the time."""
        moment = self._encoder.describe_context(context, time)
        if attributes is None:
            return self._encoder.encode_after(self.encoded(state), moment)
        own = self._encoder.describe_user(user, {**state.attributes, **attributes})
        return self._encoder.encode(own + self._encoder.history.features(state.recent) + moment)

    def recent_slots(self, recent: RecentHistory) -> Integers:
        """The slots of those of a user's last items whose neighbours count, each once, the latest at the end."""
        found = self.recent_items(recent)
        return np.array(found, np.int32) if found else _NONE

    def recent_items(self, recent: RecentHistory) -> list[int]:
        """The same as a list."""
        window = self._encoder.history.window
        if not window or not recent.items:
            return []
        latest = self._catalogue.slots(dict.fromkeys(reversed(recent.items[-window:])))
        latest.reverse()
        return latest

    # For snapshots

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What JSON holds and what arrays hold of the users."""
        states = self._states.values()
        document = {
            "ids": list(self._states),
            "attributes": [dict(state.attributes) for state in states],
            "items": [state.recent.items for state in states],
            "time": [state.recent.time for state in states],
            "note": [state.recent.last_item for state in states],
        }
        return document, _seen_by_all([state.seen for state in states])

    def restore(self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of `state`, into no users."""
        seen = _seen_of_each(arrays, len(self._catalogue.ids))
        names = ("ids", "attributes", "items", "time", "note")
        for user, raw, items, time, note, own in zip(*(document[name] for name in names), seen, strict=True):
            attributes = {field: frozen(value) for field, value in raw.items()}
            features = self._encoder.describe_user(user, attributes)
            recent = RecentHistory(tuple(items), time, tuple((field, value, weight) for field, value, weight in note))
            self._states[user] = UserState(attributes, features, recent, own)


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


def _seen_of_each(arrays: Mapping[str, NDArray[Any]], slots: int) -> list[Seen]:
    """What the users had, where there are so many slots."""
    seen, counts = checked_columns("seen", arrays["seen"], 0, slots), arrays["seen_count"]
    times = checked_columns("seen_times", arrays["seen_times"], 1, 2**31 - 1)
    if (counts < 0).any() or counts.sum() != len(seen) or len(times) != len(seen):
        raise ValueError("seen_count does not add up")
    ends = np.cumsum(counts)[:-1]
    parts = zip(np.split(seen, ends), np.split(times, ends), strict=True)
    return [Seen(own.copy(), often.copy()) for own, often in parts] if len(counts) else []
