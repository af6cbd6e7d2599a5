"""State of single users: attributes, recent history, the items seen, and the encoding that follows from them.

Every user is kept packed, in a few dozen bytes; users who came lately are kept unpacked as well. Packing changes nothing
but the representation: a user who is packed and unpacked goes on with the same bits.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.bounds.bounds import Bounds
from coldstream.bounds.costs import attributes_cost, text_cost, texts_cost
from coldstream.catalogue.catalogue import Catalogue
from coldstream.catalogue.shapes import UserHistory
from coldstream.events.clock import Clock
from coldstream.events.event import Event
from coldstream.features.encoded_user import EncodedUser
from coldstream.features.encoder import Encoder
from coldstream.features.feedback import CHOICE, Feedback
from coldstream.features.history import Features, LastItemFeatures, RecentHistory
from coldstream.features.sparse import Sparse
from coldstream.support.arrays import Integers, grown
from coldstream.support.ragged import blobs, document_of, joined, joined_texts, packed_document, texts
from coldstream.users.packed import MOST_TIMES, NOTHING, UserParts, check_all, packed, unpacked
from coldstream.users.use import UserUse

MOST_UNPACKED = 10_000
"""Most users kept unpacked, those who came last. Unpacking takes microseconds, an unpacked user two kilobytes."""

MOST_TRIED = 100
"""Most items remembered of a user that count in trends and are not had, such as carts; the latest are kept."""

STALE = b""
"""Placeholder for the bytes of a user who changed since the last packing; the unpacked state holds."""

_NONE = np.zeros(0, np.int32)


class Seen:
    """The slots of items that a user had or tried, each once, the latest at the end, with counts; in arrays for kernels."""

    __slots__ = ("_end", "_first", "_slots", "_times")

    def __init__(self, slots: Integers | None = None, times: Integers | None = None) -> None:
        self._slots = _NONE if slots is None else slots
        self._times = _NONE if times is None else times
        self._first, self._end = 0, len(self._slots)

    def __len__(self) -> int:
        return self._end - self._first

    def add(self, slot: int, most: int | None, often: int = 1) -> None:
        """Add an item, had `often` times; if the user has `most` items already, forget the one had longest ago."""
        before = np.flatnonzero(self.slots() == slot)
        if len(before):
            often = min(often + int(self.times()[before[0]]), MOST_TIMES)
            slots, times = np.delete(self.slots(), before), np.delete(self.times(), before)
            self._move(slots, times)
        elif most is not None and len(self) >= most:
            self._first += 1 + len(self) - most
        if self._end == len(self._slots):
            self._move(self.slots(), self.times())
        self._slots[self._end], self._times[self._end] = slot, often
        self._end += 1

    def counts(self, slot: int) -> bool:
        """Return whether the user's next choice of an item counts in what others see: trends, neighbours and choices.

        Let d be the number of other items that the user had since the last choice of this one. The first 1 + d choices of an
        item count; of those up to 2 (1 + d) every second one does, up to 4 (1 + d) every fourth, and so on. So a user who
        chooses one item n times in a row counts about log2(n) times, and a user with many habits counts nearly every time.

        >>> seen = Seen()
        >>> for choice in range(1, 10):
        ...     if seen.counts(7):
        ...         print(choice, end=" ")
        ...     seen.add(7, None)
        1 2 4 8
        """
        (before,) = np.flatnonzero(self.slots() == slot).tolist() or (None,)
        if before is None:
            return True
        number, in_full = 1 + int(self.times()[before]), len(self) - before
        period = 1 << max((number // in_full).bit_length() - 1, 0)
        return number % period == 0

    def _move(self, slots: Integers, times: Integers) -> None:
        """Copy into new arrays with spare room; readers of the old arrays see them unchanged."""
        count = len(slots)
        self._slots, self._times = (grown(own, count + 1) for own in (slots, times))
        self._first, self._end = 0, count

    def slots(self) -> Integers:
        """Return the slots of all items. Do not write to them."""
        return self._slots[self._first : self._end]

    def times(self) -> Integers:
        """Return how often the user had each of `slots`. Do not write to it."""
        return self._times[self._first : self._end]

    def own_copy(self) -> "Seen":
        """Return an independent copy."""
        return Seen(self.slots().copy(), self.times().copy())


class UserState:
    """One user: attributes as given and the features they stand for, recent history, items had and tried, cached encoding.

    History and items are as they were at the user's last event. Readers skip what became void since (`UserStates.past`), and
    the next event removes it: so the state does not depend on who read it.
    """

    __slots__ = ("as_of", "attributes", "encoded", "features", "recent", "seen", "tried")

    def __init__(
        self,
        attributes: Mapping[str, Any],
        features: Features,
        recent: RecentHistory,
        seen: Seen,
        as_of: int,
        tried: Seen | None = None,
    ) -> None:
        self.attributes = attributes
        self.features = features
        self.recent = recent
        self.seen = seen
        self.tried = Seen() if tried is None else tried
        self.as_of = as_of
        self.encoded: EncodedUser | None = None


def nobody() -> UserState:
    """Return the state of an unknown user, a new one each time: a request may cache its encoding in it."""
    return UserState({}, [], RecentHistory(), Seen(), 0)


class UserStates:
    """The states of all users. They depend on the encoder and the catalogue, and change neither."""

    def __init__(self, encoder: Encoder, catalogue: Catalogue) -> None:
        self._encoder, self._catalogue = encoder, catalogue
        self._packed: dict[str, bytes] = {}  # all users, in order of registration
        self._unpacked: OrderedDict[str, UserState] = OrderedDict()  # some users, the one who came last at the end
        self.use: UserUse | None = None
        """Usefulness of users, where users may be evicted or expire; otherwise None."""
        self.seen = 0
        """Number of items that all users had or tried, as far as they are remembered."""
        self.weight = 0
        """Bytes of all ids and attributes."""
        self.sessions: dict[str, tuple[str, ...]] = {}
        """Sessions merged into each user: their log lines remain under the session's id, and are deleted with the user."""
        self.departures = self.epoch = 0
        """Number of users removed, and the log position from which they are counted. Neither is saved."""

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __contains__(self, user: object) -> bool:
        return user in self._packed

    def __getitem__(self, user: str) -> UserState:
        found = self._find(user)
        if found is None:
            raise KeyError(user)
        return found

    def of(self, user: str | None) -> UserState:
        """Return the state of a user, or that of an unknown user."""
        found = None if user is None else self._find(user)
        return nobody() if found is None else found

    def visitor(self, slots: Iterable[int]) -> UserState:
        """Return the state of an anonymous visitor who had the items of these slots, the latest at the end."""
        recent, seen, history = RecentHistory(), Seen(), self._encoder.history
        for slot in slots:
            recent = history.after(recent, slot, self._catalogue.last_item_features[slot], None)
            seen.add(slot, None)
        return UserState({}, [], recent, seen, self._catalogue.freed)

    # Changes

    def put(self, user: str, attributes: Mapping[str, Any], features: Features) -> None:
        """Add a user, or replace the attributes of one."""
        if not attributes and user not in self._packed:
            self._packed[user] = NOTHING
            self.weight += text_cost(user)
            return
        before = self._find(user)
        own = nobody() if before is None else before
        self.weight += attributes_cost(attributes)
        self.weight += text_cost(user) if before is None else -attributes_cost(before.attributes)
        self._change(user, UserState(attributes, features, own.recent, own.seen, own.as_of, own.tried))

    def forget(self, user: str) -> None:
        """Remove a user."""
        state = self[user]
        self.seen -= len(state.seen) + len(state.tried)
        self.weight -= text_cost(user) + attributes_cost(state.attributes)
        del self._packed[user]
        self.departures += 1
        self._unpacked.pop(user, None)
        self.sessions.pop(user, None)
        if self.use is not None:
            self.use.forget(user)

    def merge(self, session: str, user: str, clock: Clock) -> None:
        """Merge a session into a user, its events after the user's own, and remove the session."""
        gone, own = self[session], self._find(user)
        (recent, seen), tried = self.past(gone), self.tried(gone)
        if own is None:
            features = self._encoder.describe_user(user, gone.attributes)
            own = UserState(gone.attributes, features, RecentHistory(), Seen(), 0)
            self.weight += text_cost(user) + attributes_cost(gone.attributes)
        before = len(own.seen) + len(own.tried)
        (history, own.seen), own.tried = self.past(own), self.tried(own)
        for slot in recent.items:
            history = self._encoder.history.after(history, slot, self._catalogue.last_item_features[slot], recent.time)
        own.recent = history._replace(last_item=recent.last_item) if recent.items else history
        for slot, often in zip(seen.slots().tolist(), seen.times().tolist(), strict=True):
            own.seen.add(slot, self._encoder.admissions.bounds.seen, often)
        for slot, often in zip(tried.slots().tolist(), tried.times().tolist(), strict=True):
            own.tried.add(slot, MOST_TRIED, often)
        own.as_of = self._catalogue.freed
        self.seen += len(own.seen) + len(own.tried) - before
        sessions = (*self.sessions.get(user, ()), *self.sessions.get(session, ()), session)
        self.forget(session)
        self._change(user, own)
        self.sessions[user] = sessions
        self.note_put(user, clock)

    def forget_session(self, session: str) -> None:
        """Forget that a session was merged into a user."""
        for user, own in list(self.sessions.items()):
            if session in own:
                self.sessions[user] = tuple(one for one in own if one != session)
                if not self.sessions[user]:
                    del self.sessions[user]

    def note_use(self, user: str, clock: Clock) -> None:
        """Count the use of a user by an event."""
        if self.use is not None:
            self.use.note(user, clock)

    def note_put(self, user: str, clock: Clock) -> None:
        """Count the use of a user by a put, which makes a user as useful as an event does."""
        if self.use is not None:
            self.use.note(user, clock)

    def follow(self, bounds: Bounds, clock: Clock, last_learned: Callable[[str], int | None] = lambda _: None) -> None:
        """Start or stop tracking how useful users are, as the bounds require.

        Users who are there already count as used once: at the event at which they were learned last, or now if unknown.
        """
        half_life = bounds.half_life_of(bounds.users)
        if bounds.users is None and bounds.expire_users is None and bounds.memory is None:
            self.use = None
        elif self.use is None:
            self.use = UserUse(half_life)
            for user in self._packed:
                event = last_learned(user)
                if event is None:
                    self.use.come(user, clock)
                else:
                    self.use.come_as_learned(user, event, clock)
        else:
            self.use.take_half_life(half_life, clock)

    def checkpoint(self, users: Iterable[str]) -> Callable[[], None]:
        """Copy the states of some users, and return a function that restores them."""
        kept = {user: self._packed_now(user) for user in users if user in self._packed}
        unknown = [user for user in users if user not in self._packed]
        counts, use = (self.seen, self.weight), None if self.use is None else self.use.copy()
        # Where eviction is possible, any user may be removed before the undo.
        everybody = None if use is None else {user: self._packed_now(user) for user in self._packed}

        def undo() -> None:
            (self.seen, self.weight), self.use = counts, use
            if everybody is not None:
                self._packed = everybody
                self._unpacked.clear()
            for user in unknown:
                self._packed.pop(user, None)
                self._unpacked.pop(user, None)
            for user, own in kept.items():
                self._packed[user] = own
                self._unpacked.pop(user, None)

        return undo

    def remember(self, event: Event, slot: int, effect: Feedback = CHOICE) -> None:
        """Add an event to the user's past, as far as its kind counts there."""
        state = self._find(event.user)
        if state is None:
            state = UserState({}, self._encoder.describe_user(event.user, {}), RecentHistory(), Seen(), 0)
            self.weight += text_cost(event.user)
        before = len(state.seen) + len(state.tried)
        (recent, state.seen), state.tried = self.past(state), self.tried(state)
        if effect.history:
            last_item: LastItemFeatures = self._catalogue.last_item_features[slot]
            recent = self._encoder.history.after(recent, slot, last_item, event.time)
        state.recent = recent
        if effect.had:
            state.seen.add(slot, self._encoder.admissions.bounds.seen)
        elif effect.trends:
            state.tried.add(slot, MOST_TRIED)
        state.as_of = self._catalogue.freed
        self.seen += len(state.seen) + len(state.tried) - before
        self._change(event.user, state)

    def _change(self, user: str, state: UserState) -> None:
        self._packed[user] = STALE
        self._keep_unpacked(user, state)

    # How users are kept

    def _find(self, user: str) -> UserState | None:
        """Return the state of a user unpacked, or None for an unknown one."""
        found = self._unpacked.get(user)
        if found is not None:
            self._unpacked.move_to_end(user)
            return found
        own = self._packed.get(user)
        if own is None:
            return None
        state = self._unpack(user, own)
        self._keep_unpacked(user, state)
        return state

    def _keep_unpacked(self, user: str, state: UserState) -> None:
        self._unpacked[user] = state
        if len(self._unpacked) > MOST_UNPACKED:
            oldest, own = self._unpacked.popitem(last=False)
            if self._packed[oldest] == STALE:
                self._packed[oldest] = self._pack(own)

    def _packed_now(self, user: str) -> bytes:
        own = self._packed[user]
        return self._pack(self._unpacked[user]) if own == STALE else own

    def _pack(self, state: UserState) -> bytes:
        recent, seen, tried = state.recent, state.seen, state.tried
        own = (recent.items, recent.time, recent.last_item, state.attributes, seen.slots(), seen.times(), state.as_of)
        return packed(UserParts(*own, tried.slots(), tried.times()))

    def _unpack(self, user: str, own: bytes) -> UserState:
        parts = unpacked(own)
        recent = RecentHistory(tuple(parts.recent), parts.time, parts.last_item)
        features = self._encoder.describe_user(user, parts.attributes)
        seen, tried = Seen(parts.slots, parts.times), Seen(parts.tried, parts.tried_times)
        return UserState(parts.attributes, features, recent, seen, parts.as_of, tried)

    # Queries

    def features(self, user: str) -> Features:
        """Return the features that a user, known or not, brings to an event: the user's own, and those of the history."""
        state = self._find(user)
        if state is None:
            return self._encoder.describe_user(user, {})
        return state.features + self._history_features(state)

    def past(self, state: UserState) -> tuple[RecentHistory, Seen]:
        """Return the recent history and the items seen, without those whose slots were freed since the user's last event."""
        catalogue, recent, seen, as_of = self._catalogue, state.recent, state.seen, state.as_of
        if as_of == catalogue.freed:
            return recent, seen
        void = catalogue.void(recent.items, as_of)
        if void is not None:
            left = tuple(slot for slot, gone in zip(recent.items, void.tolist(), strict=True) if not gone)
            recent = recent._replace(items=left)
        return recent, self._without_void(seen, as_of)

    def tried(self, state: UserState) -> Seen:
        """Return the items of events that count in trends and are not had, without freed slots as in `past`."""
        return self._without_void(state.tried, state.as_of)

    def _without_void(self, items: Seen, as_of: int) -> Seen:
        void = self._catalogue.void(items.slots(), as_of) if as_of != self._catalogue.freed else None
        return items if void is None else Seen(items.slots()[~void], items.times()[~void])

    def _history_features(self, state: UserState) -> Features:
        return self._encoder.history.features(self.past(state)[0], self._catalogue.ids)

    def teaches(self, state: UserState, slot: int, effect: Feedback) -> tuple[float, bool]:
        """Return the weight of a user's next event in the loss, and whether it counts in trends, neighbours and choices.

        `Seen.counts` decides whether a repeat counts. A repeat that does not is still learned from, for the user's sake,
        unless the item is never recommended to the user again: then it could only teach others.
        """
        counts = (self.past(state)[1] if effect.had else self.tried(state)).counts(slot)
        weight = 0.0 if effect.had and not counts and self._encoder.schema.exclude_seen else effect.weight
        return weight, counts and bool(effect.trends)

    def history(self, state: UserState) -> UserHistory:
        """Return the recent items of a user and all items seen, in slots."""
        kept = self.kept(state)
        recent, (_, seen) = self.recent_slots(state) if kept is None else kept.recent, self.past(state)
        return UserHistory(recent, seen.slots(), seen.times())

    def encoded(self, state: UserState) -> EncodedUser:
        """Return the features a user brings to every request, encoded; cached in the state until any input changes."""
        kept = self.kept(state)
        if kept is None:
            fields, release_count = self._encoder.history, self._encoder.vocabulary.release_count
            features = state.features + self._history_features(state)
            x, recent = self._encoder.encode(features), self.recent_slots(state)
            packed, freed = (x.column.tobytes(), x.value.tobytes()), self._catalogue.freed
            complete = len(x.column) == len(features)
            kept = state.encoded = EncodedUser(*packed, recent, state.recent, fields, release_count, freed, complete)
        return kept

    def kept(self, state: UserState) -> EncodedUser | None:
        """Return the cached encoding if still valid. Learning caches none: the event would make it invalid at once."""
        kept, encoder = state.encoded, self._encoder
        if kept is None:
            return None
        made_of = (state.recent, encoder.history, encoder.vocabulary.release_count, self._catalogue.freed)
        return kept if kept.holds(*made_of) else None

    def request(
        self,
        state: UserState,
        user: str,
        context: Mapping[str, Any],
        time: float | None,
        attributes: Mapping[str, Any] | None,
    ) -> Sparse:
        """Encode the known features that a request fixes: of the user, of the user's past, the context and the time."""
        moment = self._encoder.describe_context(context, time)
        if attributes is None:
            return self._encoder.encode_after(self.encoded(state), moment)
        own = self._encoder.describe_user(user, {**state.attributes, **attributes})
        return self._encoder.encode(own + self._history_features(state) + moment)

    def recent_slots(self, state: UserState) -> Integers:
        """Return the slots of a user's last items whose neighbours count, each once, the latest at the end."""
        found = self.recent_items(state)
        return np.array(found, np.int32) if found else _NONE

    def recent_items(self, state: UserState) -> list[int]:
        """Return the list that `recent_slots` makes an array of."""
        window, (recent, _) = self._encoder.history.window, self.past(state)
        if not window or not recent.items:
            return []
        return list(dict.fromkeys(reversed(recent.items[-window:])))[::-1]

    # For snapshots

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the users in order of registration, as ragged arrays of their ids and their packed states."""
        ids, ids_length = joined_texts(self._packed)
        users, users_length = joined([self._packed_now(user) for user in self._packed])
        use = {} if self.use is None else self.use.state(self._packed)
        own: dict[str, NDArray[Any]] = {"id": ids, "id_length": ids_length, "user": users, "user_length": users_length}
        if self.sessions:
            own["sessions"] = np.frombuffer(packed_document(self.sessions), np.uint8)
        return own | {f"use.{name}": array for name, array in use.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Load what `state` returned, into an empty `UserStates`. All users stay packed."""
        content, length = arrays["user"], arrays["user_length"]
        fields = len(self._encoder.vocabulary.fields)
        slots, freed = len(self._catalogue.ids), self._catalogue.freed
        check = partial(self._encoder.check_attributes, "user", memo=set())
        self.seen, self.weight = check_all(content, length, slots, freed, fields, check)
        ids = texts(arrays["id"], arrays["id_length"])
        self.weight += texts_cost(ids)
        self._packed = dict(zip(ids, blobs(content, length), strict=True))
        if len(self._packed) < len(ids):
            raise ValueError("a user is there twice")
        if "sessions" in arrays:
            self.sessions = {user: tuple(own) for user, own in document_of(arrays["sessions"].tobytes()).items()}
            if not all(isinstance(session, str) for own in self.sessions.values() for session in own):
                raise ValueError("a session is no text")
        if self.use is not None:
            use = {name.removeprefix("use."): array for name, array in arrays.items() if name.startswith("use.")}
            self.use.restore(ids, use)
