"""What belongs to one user: attributes, recent history, the items seen, and the encoding that follows from them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import Integers, checked_columns, frozen, grown
from coldstream.bounds import Bounds
from coldstream.catalogue.catalogue import Catalogue
from coldstream.catalogue.shapes import UserHistory
from coldstream.costs import attributes_cost, text_cost
from coldstream.events.clock import Clock
from coldstream.events.event import Event
from coldstream.features.encoded_user import EncodedUser
from coldstream.features.encoder import Encoder
from coldstream.features.history import Features, LastItemFeatures, RecentHistory
from coldstream.features.sparse import Sparse
from coldstream.features.usage import HALF_LIFE
from coldstream.user_use import UserUse

_NONE = np.zeros(0, np.int32)


class Seen:
    """The slots of the items that a user had, each once and the latest at the end, and how often, as kernels read them."""

    __slots__ = ("_end", "_first", "_slots", "_times")

    def __init__(self, slots: Integers | None = None, times: Integers | None = None) -> None:
        self._slots = _NONE if slots is None else slots
        self._times = _NONE if times is None else times
        self._first, self._end = 0, len(self._slots)

    def __len__(self) -> int:
        return self._end - self._first

    def add(self, slot: int, most: int | None) -> None:
        """One more; of more than so many, the one that was had longest ago is forgotten."""
        often, before = 1, np.flatnonzero(self.slots() == slot)
        if len(before):
            often += int(self.times()[before[0]])
            slots, times = np.delete(self.slots(), before), np.delete(self.times(), before)
            self._move(slots, times)
        elif most is not None and len(self) >= most:
            self._first += 1 + len(self) - most
        if self._end == len(self._slots):
            self._move(self.slots(), self.times())
        self._slots[self._end], self._times[self._end] = slot, often
        self._end += 1

    def _move(self, slots: Integers, times: Integers) -> None:
        """Go on in arrays of its own, with room for more: whoever reads the old ones finds them as they were."""
        count = len(slots)
        self._slots, self._times = (grown(own, count + 1) for own in (slots, times))
        self._first, self._end = 0, count

    def slots(self) -> Integers:
        """All of them, to be read only."""
        return self._slots[self._first : self._end]

    def times(self) -> Integers:
        """How often the user had each of `slots`, to be read only."""
        return self._times[self._first : self._end]

    def copy(self) -> "Seen":
        """The same as it is now, to go back to. Entries are never written again, so they need not be copied."""
        copied = Seen()
        copied._slots, copied._times, copied._first, copied._end = self._slots, self._times, self._first, self._end
        return copied

    def own_copy(self) -> "Seen":
        """The same as it is now, to go on with besides this one."""
        return Seen(self.slots().copy(), self.times().copy())


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
        self.use: UserUse | None = None
        """How useful users are, where some may have to go."""
        self.seen = 0
        """How many items all users had, as far as it is remembered."""
        self.weight = 0
        """What ids and attributes weigh, in bytes."""

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
        self.weight += attributes_cost(attributes)
        self.weight += text_cost(user) if before is None else -attributes_cost(before.attributes)
        self._states[user] = UserState(attributes, features, recent, seen)

    def forget(self, user: str) -> None:
        """Drop a user."""
        state = self._states.pop(user)
        self.seen -= len(state.seen)
        self.weight -= text_cost(user) + attributes_cost(state.attributes)
        if self.use is not None:
            self.use.forget(user)

    def note_use(self, user: str, clock: Clock) -> None:
        """An event of a user."""
        if self.use is not None:
            self.use.note(user, clock)

    def note_put(self, user: str, clock: Clock) -> None:
        """A user was put."""
        if self.use is not None:
            (self.use.note if user in self.use else self.use.come)(user, clock)

    def follow(self, bounds: Bounds, clock: Clock) -> None:
        """Begin to tell how useful users are, or stop it, as bounds ask for it. Those who are there came now, as it were."""
        half_life = float(bounds.half_life or bounds.users or HALF_LIFE)
        if bounds.users is None and bounds.expire_users is None and bounds.memory is None:
            self.use = None
        elif self.use is None:
            self.use = UserUse(half_life)
            for user in self._states:
                self.use.come(user, clock)
        else:
            self.use.take_half_life(half_life, clock)

    def checkpoint(self, users: Iterable[str]) -> Callable[[], None]:
        """What gives some users back what they are now."""
        saved = {user: self._states[user] for user in users if user in self._states}
        kept = {user: (state.recent, state.seen.copy(), state.encoded) for user, state in saved.items()}
        everybody, use = (None, None) if self.use is None else (dict(self._states), self.use.copy())
        unknown = [user for user in users if user not in self._states]
        counts = self.seen, self.weight

        def undo() -> None:
            self.seen, self.weight = counts
            for user in unknown:
                self._states.pop(user, None)
            if everybody is not None:
                self._states, self.use = everybody, use
            for user, state in saved.items():
                state.recent, state.seen, state.encoded = kept[user]

        return undo

    def remember(self, event: Event, slot: int) -> None:
        """An event has happened: it is part of the user's past from now on."""
        state = self._states.get(event.user)
        if state is None:
            state = UserState({}, self._encoder.describe_user(event.user, {}), RecentHistory(), Seen())
            self._states[event.user] = state
            self.weight += text_cost(event.user)
        last_item: LastItemFeatures = self._catalogue.last_item_features[slot]
        state.recent = self._encoder.history.after(state.recent, event.item, last_item, event.time)
        before = len(state.seen)
        state.seen.add(slot, self._encoder.admissions.bounds.seen)
        self.seen += len(state.seen) - before

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
        use = {} if self.use is None else self.use.state(self._states)
        return document, _seen_by_all([state.seen for state in states]) | {f"use.{name}": own for name, own in use.items()}

    def restore(self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of `state`, into no users."""
        seen = _seen_of_each(arrays, len(self._catalogue.ids))
        names = ("ids", "attributes", "items", "time", "note")
        for user, raw, items, time, note, own in zip(*(document[name] for name in names), seen, strict=True):
            attributes = {field: frozen(value) for field, value in raw.items()}
            features = self._encoder.describe_user(user, attributes)
            recent = RecentHistory(tuple(items), time, tuple((field, value, weight) for field, value, weight in note))
            self._states[user] = UserState(attributes, features, recent, own)
            self.seen += len(own)
            self.weight += text_cost(user) + attributes_cost(attributes)
        if self.use is not None:
            own_arrays = {name.removeprefix("use."): array for name, array in arrays.items() if name.startswith("use.")}
            self.use.restore(list(self._states), own_arrays)


def _seen_by_all(seen: Sequence[Seen]) -> dict[str, NDArray[Any]]:
    """What all of them had, one after the other."""
    return {
        "seen": np.concatenate([_NONE, *(own.slots() for own in seen)]),
        "seen_times": np.concatenate([_NONE, *(own.times() for own in seen)]),
        "seen_count": np.array([len(own) for own in seen], np.int32),
    }


def _seen_of_each(arrays: Mapping[str, NDArray[Any]], slots: int) -> list[Seen]:
    """What the users had, where there are so many slots."""
    seen, counts = checked_columns("seen", arrays["seen"], 0, slots), arrays["seen_count"]
    times = checked_columns("seen_times", arrays["seen_times"], 1, 2**31 - 1)
    if (counts < 0).any() or counts.sum() != len(seen) or len(times) != len(seen):
        raise ValueError("seen_count does not add up")
    ends = np.cumsum(counts)[:-1]
    parts = zip(np.split(seen, ends), np.split(times, ends), strict=True)
    return [Seen(own.copy(), often.copy()) for own, often in parts] if len(counts) else []
