"""Learning (step 3): the changes of state that one event makes, and learning from many events in one batch.

The events of a batch are encoded one by one, then learned and counted by one call of compiled code. What an event finds of
its user and of the catalogue depends on the events before it, and not on what was learned from them. So a batch can be
encoded ahead, as long as no new item arrives: negatives must be drawn from the items that were there at the event.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

import numpy as np

from coldstream.catalogue.contrast import EventBatch
from coldstream.catalogue.slot_table import Place
from coldstream.engine.eviction import evict, is_due, settle
from coldstream.engine.shared_model import SharedModel
from coldstream.errors import Diverged
from coldstream.events.clock import Clock
from coldstream.events.event import Event
from coldstream.features.feedback import Feedback
from coldstream.features.sparse import sparse
from coldstream.support.arrays import Integers
from coldstream.users.states import UserState, UserStates

MOST = 256
"""Most events of one batch: enough to share the cost of a call, few enough to stay in the CPU's cache."""

NOBODY = ("", 0)
"""Stand-in for the user of an event that is only counted, and so needs no seen items."""


def learn_one(shared: SharedModel, users: UserStates, event: Event, clock: Clock) -> Clock:
    """Learn from one event at its clock, and return the clock after it; raise `Diverged` with nothing changed."""
    effect = shared.effect_of(event)
    transaction, state = shared.begin(event), users.of(event.user)
    kept = users.kept(state)
    x, slot = shared.admit_event(event, kept, [] if kept is not None else users.features(event.user), clock)
    passed_over = shared.passed_over(event, effect)
    history, (weight, counted) = users.history(state), users.teaches(state, slot, effect)
    if not shared.learn(x, slot, history, weight, counted, passed_over, clock.moment(event.time), clock):
        shared.rollback(transaction, clock)
        raise Diverged(_divergence(shared, event.user, event.item))
    users.remember(event, slot, effect)
    after = clock.after(event.time)
    _note_use(shared, users, event, x.column, slot, after)
    if transaction != (shared.encoder.schema, None) or shared.uncommitted:
        shared.commit()
    settle(shared, users, clock, after)
    return after


def observe_one(shared: SharedModel, users: UserStates, event: Event, clock: Clock) -> Clock:
    """Count and remember an event at its clock, without learning from it, and return the clock after it."""
    effect, state = shared.effect_of(event), users.of(event.user)
    columns, _, slot = shared.admit_columns(event, users.features(event.user), clock)
    _, counted = users.teaches(state, slot, effect)
    shared.catalogue.count(slot, users.recent_slots(state), counted, clock.events)
    users.remember(event, slot, effect)
    after = clock.after(event.time)
    _note_use(shared, users, event, columns, slot, after)
    shared.commit()
    settle(shared, users, clock, after)
    return after


def _note_use(
    shared: SharedModel, users: UserStates, event: Event, columns: Sequence[int] | Integers, slot: int, after: Clock
) -> None:
    shared.note_use(columns, slot, after)
    users.note_use(event.user, after)


def _divergence(shared: SharedModel, user: str, item: str) -> str:
    return shared.machine.divergence(f"event of user {user!r} with item {item!r}")


def learn_or_observe(
    shared: SharedModel, users: UserStates, lines: Iterable[tuple[int, Event]], clock: Clock
) -> tuple[Clock, list[Place]]:
    """Learn from events with their positions, and observe those whose update diverges; return the clock and items' places.

    The resulting bits equal those of learning one by one.
    """
    pending = Pending(shared, users, clock, observe=True)
    places: list[Place] = []
    for position, event in lines:
        places.append(pending.add(event, position))
        shared.encoder.vocabulary.commit()
    pending.learn()
    return pending.clock, places


def observe_all(
    shared: SharedModel, users: UserStates, lines: Iterable[tuple[int, Event]], clock: Clock
) -> tuple[Clock, list[Place]]:
    """Observe events with their positions, as if one by one; return the clock after them and their items' places."""
    pending = Pending(shared, users, clock, observe=True)
    places: list[Place] = []
    for position, event in lines:
        places.append(pending.observe(event, position))
        shared.encoder.vocabulary.commit()
    pending.learn()
    return pending.clock, places


def learn_all(shared: SharedModel, users: UserStates, events: Sequence[Event], clock: Clock) -> Clock:
    """Learn from events in their order, all of them or none, and return the clock after them.

    An update may diverge late, so the state that learning can write to is copied first.
    """
    schema = shared.encoder.schema
    undo_users = users.checkpoint(dict.fromkeys(event.user for event in events))
    undo_catalogue, undo_parameters = shared.catalogue.checkpoint(), shared.machine.parameters.checkpoint()
    undo_bounds = shared.checkpoint_bounds()
    pending = Pending(shared, users, clock, observe=False)
    try:
        for position, event in enumerate(events, clock.position + 1):
            pending.add(event, position)
        pending.learn()
    except BaseException:
        undo_users()
        undo_catalogue()
        undo_bounds()
        shared.machine.undo(shared.encoder.return_to(schema))
        undo_parameters()
        raise
    shared.encoder.vocabulary.commit()
    return pending.clock


class Pending:
    """A batch of events that were admitted and remembered, and are not learned yet."""

    def __init__(self, shared: SharedModel, users: UserStates, clock: Clock, observe: bool) -> None:
        self.clock = clock
        """The clock after the last event that was added."""
        self._shared, self._users, self._observe = shared, users, observe
        self._empty()

    def _empty(self) -> None:
        self._first = self.clock
        self._columns: list[int] = []
        self._values: list[float] = []
        self._lengths: list[int] = []
        self._slots: list[int] = []
        self._positions: list[int] = []
        self._times: list[float] = []
        self._weights: list[float] = []
        self._counted: list[bool] = []
        self._recent: list[Sequence[int]] = []
        self._learned: list[bool] = []
        self._passed_over: list[list[int]] = []
        self._seen: dict[str, tuple[Integers, Integers, list[int]]] = {}
        self._seen_by: list[tuple[str, int]] = []

    def add(self, event: Event, position: int) -> Place:
        """Add an event to learn from, now or with a later batch, and return where its item is kept."""
        if self._has_forgotten(event.user):
            self.learn()
        return self._take(event, position, True)

    def observe(self, event: Event, position: int) -> Place:
        """Add an event that is counted and remembered but not learned from, and return where its item is kept."""
        return self._take(event, position, False)

    def _take(self, event: Event, position: int, learned: bool) -> Place:
        shared, users, effect = self._shared, self._users, self._shared.effect_of(event)
        comes, clock = self._begin(event, position)
        state = users.of(event.user)
        columns, values, slot = shared.admit_columns(event, users.features(event.user), clock)
        place = shared.catalogue.place(slot)
        if learned:
            self._columns += columns
            self._values += values
        self._append(len(columns) if learned else 0, slot, clock, event.time, users.recent_items(state))
        weight, counted = users.teaches(state, slot, effect)
        self._weights.append(weight)
        self._counted.append(counted)
        self._learned.append(learned)
        self._passed_over.append(shared.passed_over(event, effect) if learned else [])
        if learned:
            self._note_seen(event.user, state, slot, effect)
        else:
            self._seen_by.append(NOBODY)
        users.remember(event, slot, effect)
        self.clock = clock.after(event.time)
        shared.admissions.commit()
        _note_use(shared, users, event, columns, slot, self.clock)
        due = is_due(shared, users, clock, self.clock)
        if comes or due:
            self.learn()
        if comes:
            shared.catalogue.settle()
        if due:
            evict(shared, users, clock, self.clock)
        return place

    def _note_seen(self, user: str, state: UserState, slot: int, effect: Feedback) -> None:
        if user not in self._seen:
            _, seen = self._users.past(state)
            self._seen[user] = (seen.slots(), seen.times(), [])
        before, _, since = self._seen[user]
        self._seen_by.append((user, len(before) + len(since)))
        if effect.had:
            since.append(slot)

    def _begin(self, event: Event, position: int) -> tuple[bool, Clock]:
        """Return whether an event's item is new, and the event's clock; learn the waiting events first where necessary."""
        comes = event.item not in self._shared.catalogue
        if comes or len(self._slots) >= MOST:
            self.learn()
        return comes, self.clock.at(position)

    def _append(self, length: int, slot: int, clock: Clock, time: float | None, recent: Sequence[int]) -> None:
        self._lengths.append(length)
        self._slots.append(slot)
        self._positions.append(clock.position)
        self._times.append(clock.moment(time))
        self._recent.append(recent)

    def _has_forgotten(self, user: str) -> bool:
        """Return whether a user's bounded history may have dropped items seen before the waiting events."""
        most = self._shared.bounds.seen
        if most is None or user not in self._seen:
            return False
        before, _, since = self._seen[user]
        return len(before) + len(since) > most

    def learn(self) -> None:
        """Learn from the waiting events."""
        if not self._slots:
            return
        batch, clock, done = self._batch(), self._first.events, 0
        while done < len(self._slots):
            done = self._shared.learn_batch(batch, done, max(self._lengths), clock)
            if done < len(self._slots):
                if not self._observe:
                    user, item = self._seen_by[done][0], self._shared.catalogue.ids[self._slots[done]]
                    raise Diverged(_divergence(self._shared, user, item))
                # An event whose update diverged still happened, so it is counted.
                recent = np.array(self._recent[done], np.int32)
                self._shared.catalogue.count(self._slots[done], recent, self._counted[done], clock + done)
                done += 1
        self._empty()

    def _batch(self) -> EventBatch:
        start, seen, times = {NOBODY[0]: 0}, [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        at = 0
        for user, (slots, often, since) in self._seen.items():
            start[user] = at
            seen += [slots, np.array(since, np.int32)]
            times += [often, np.ones(len(since), np.int32)]
            at += len(slots) + len(since)
        starts = [start[user] for user, _ in self._seen_by]
        return EventBatch(
            np.array(list(accumulate(self._lengths, initial=0)), np.int64),
            sparse(self._columns, self._values),
            np.array(self._slots, np.int32),
            np.array(self._positions, np.int64),
            np.array(self._times, np.float64),
            np.array(self._weights, np.float64),
            np.array(self._counted, np.uint8),
            np.array(list(accumulate(map(len, self._recent), initial=0)), np.int64),
            np.array(list(chain.from_iterable(self._recent)), np.int32),
            np.array(starts, np.int64),
            np.array([first + count for first, (_, count) in zip(starts, self._seen_by, strict=True)], np.int64),
            np.concatenate(seen),
            np.concatenate(times),
            np.array(self._learned, np.uint8),
            np.array(list(accumulate(map(len, self._passed_over), initial=0)), np.int64),
            np.array(list(chain.from_iterable(self._passed_over)), np.int32),
        )
