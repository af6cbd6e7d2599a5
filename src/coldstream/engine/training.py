"""Batch training (step 1): several reshuffled epochs over known events, in compiled kernels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coldstream.catalogue.catalogue import Catalogue
from coldstream.catalogue.contrast import CrossFeatures, TrainingBatch, cross_features_before, learn_epoch
from coldstream.catalogue.cross_features import CROSS_FEATURES
from coldstream.catalogue.negative_sampling import NegativeDraw
from coldstream.catalogue.neighbours import count_neighbours
from coldstream.catalogue.shapes import Items, ScanRows, Trends, UserHistory
from coldstream.catalogue.trends import replay_choices
from coldstream.engine.shared_model import SharedModel
from coldstream.errors import Diverged
from coldstream.events.clock import Clock
from coldstream.events.event import Event
from coldstream.features.feedback import Feedback
from coldstream.features.sparse import Sparse, joined
from coldstream.model.keyed_random import key_of, shuffled
from coldstream.support.arrays import Doubles, Flags, Floats, Integers, Longs
from coldstream.support.compiled import unchecked_entry
from coldstream.users.states import Seen, UserStates

_cross_features_before = unchecked_entry(cross_features_before)


class Epochs(NamedTuple):
    """Input of the epochs over a batch, and the trends and the clock after them."""

    batch: TrainingBatch
    orders: list[Integers]
    draws: list[NegativeDraw]
    cross_features: list[CrossFeatures]
    replay: "Replay"
    clock: Clock


def train(shared: SharedModel, users: UserStates, events: Sequence[Event], epochs: int, clock: Clock) -> Clock:
    """Train for some epochs on events in order of time, and return the clock after them. On errors, the caller restores."""
    encoded = collected(shared, users, events, epochs, clock)
    machine, own, items = shared.machine, shared.machine.parameters, shared.catalogue.items
    # The paper adapts the regularization λ in the stream only; a per-field λ has no start worth keeping.
    rule = machine.rule._replace(adapt=shared.hyperparameters.regularization != "paper")
    for order, drawn, cross in zip(encoded.orders, encoded.draws, encoded.cross_features, strict=True):
        failed = learn_epoch(own.rows, own.optimizer, rule, items, drawn, encoded.batch, cross, order)
        if failed >= 0:
            event = events[order[failed]]
            raise Diverged(machine.divergence(f"training on event of user {event.user!r} with item {event.item!r}"))
    last = encoded.clock.position
    own.rows.touched_at[own.rows.touched_at > last] = last  # later epochs draw negatives by positions beyond it
    own.changes += 1
    shared.catalogue.adopt(encoded.replay.trends, encoded.replay.rows)
    return encoded.clock


def collected(shared: SharedModel, users: UserStates, events: Sequence[Event], epochs: int, clock: Clock) -> Epochs:
    """Admit, remember and count events in order of time; return the input of the epochs that learn from them."""
    batch = _Collected(shared, users)
    start, total = clock, shared.catalogue.items.trends.unchosen_total.copy()
    for event in events:  # in order of time: an event's context is the state before it
        clock = clock.at(None)
        batch.add(event, clock)
        clock = clock.after(event.time)
    items, machine = shared.catalogue.items, shared.machine
    machine.parameters.make_room(shared.most_touched(max(len(x.column) for x in batch.contexts)))
    # The newcomers of before are kept: the replay makes items enter again, at their time.
    before = _copied(items, total)
    slots, came = np.array(batch.slots, np.int32), np.array(batch.came, np.uint8)
    counted = np.array(batch.counted, np.uint8)
    replay = replayed(before, slots, came, counted, start.events)
    times, numbers = np.array(batch.times, np.float64), np.array(batch.users, np.int32)
    weights = np.array(batch.weights, np.float64)
    encoded = batch_of(items, batch.contexts, slots, times, weights, counted, numbers, batch.seen(), replay)
    key, n = key_of(machine.seed, "training"), len(events)
    orders = [shuffled(key_of(machine.seed, "epoch", str(start.position), str(epoch)), n) for epoch in range(epochs)]
    draws = [shared.draw(start.position + 1 + epoch * n, 0.0)._replace(key=key) for epoch in range(epochs)]
    crossed = count_in_order(shared.catalogue, encoded, slots, batch, came, orders, draws, shared.bounds.seen)
    return Epochs(encoded, orders, draws, crossed, replay, clock)


class _Collected:
    """Events of a batch, collected as they are admitted one after another."""

    def __init__(self, shared: SharedModel, users: UserStates) -> None:
        self._shared, self._states = shared, users
        self.contexts: list[Sparse] = []
        self.slots: list[int] = []
        self.times: list[float] = []
        self.effects: list[Feedback] = []
        self.weights: list[float] = []
        self.counted: list[bool] = []
        """Whether each event counts in trends, neighbours and choices."""
        self.came: list[bool] = []
        self.recent: list[Integers] = []
        self.users: list[int] = []
        self.before: list[Seen] = []
        """Items that each user had before the batch, by user number."""
        self._numbers: dict[str, int] = {}

    def add(self, event: Event, clock: Clock) -> None:
        shared, users = self._shared, self._states
        effect = shared.effect_of(event)
        self.came.append(event.item not in shared.catalogue)
        state = users.of(event.user)
        if event.user not in self._numbers:
            self._numbers[event.user] = len(self.before)
            self.before.append(users.past(state)[1].own_copy())
        x, slot = shared.admit_event(event, None, users.features(event.user), clock)
        shared.commit()
        shared.note_use(x.column, slot, clock.after(event.time))
        users.note_use(event.user, clock.after(event.time))
        self.contexts.append(x)
        self.slots.append(slot)
        self.times.append(clock.moment(event.time))
        self.effects.append(effect)
        weight, counted = users.teaches(state, slot, effect)
        self.weights.append(weight)
        self.counted.append(counted)
        self.users.append(self._numbers[event.user])
        self.recent.append(users.recent_slots(state))
        users.remember(event, slot, effect)

    def seen(self) -> list[Integers]:
        """Return the slots of the items that each user had after the batch, by user number."""
        return [self._states[user].seen.slots() for user in self._numbers]


class Replay(NamedTuple):
    """Trends during a batch, and after it."""

    trends: Trends
    rows: ScanRows
    level: Floats  # (n, H): the level of the event's item, after each event
    prior: Floats  # (n, H): the prior of a newcomer, before each event
    clock: int  # the count of events at the first event


def _copied(items: Items, unchosen_total: Doubles) -> Items:
    """Return the items with copies of their trends, which can be counted without changing the originals."""
    own = {name: getattr(items.rows, name).copy() for name in ("level", "counted_at", "unchosen")}
    trends = items.trends
    counted = trends._replace(unchosen_total=unchosen_total, newcomers=trends.newcomers.copy(), prior=trends.prior.copy())
    return items._replace(rows=items.rows._replace(**own), trends=counted)


def replayed(items: Items, slots: Integers, came: Flags, counted: Flags, clock: int) -> Replay:
    """Count a batch in the trends of these items, in order of time.

    `came` tells which items arrived with their event, `counted` which events count.
    """
    trends, rows = items.trends, items.rows
    level, prior = (np.zeros((len(slots), len(trends.rate)), np.float32) for _ in range(2))
    replay_choices(trends, rows, items.position[slots], came, counted, clock, level, prior)
    return Replay(trends, rows, level, prior, clock)


def batch_of(
    items: Items,
    contexts: Sequence[Sparse],
    slots: Integers,
    times: Doubles,
    weights: Doubles,
    counted: Flags,
    users: Integers,
    seen: Sequence[Integers],
    replay: Replay,
) -> TrainingBatch:
    """Build a batch, encoded once, of events in order of time; `seen` holds the items each user had after the batch."""
    positions, touching = items.position[slots], np.flatnonzero(counted)
    touched = positions[touching]
    return TrainingBatch(
        offset=_offsets([len(context.column) for context in contexts]),
        x=joined(*contexts),
        position=positions,
        time=times,
        weight=weights,
        user=users,
        seen_offset=_offsets([len(own) for own in seen]),
        seen=np.concatenate(seen),
        touch_offset=_offsets(np.bincount(touched, minlength=items.size).tolist()),
        touch=touching[np.argsort(touched, kind="stable")].astype(np.int32),
        level=replay.level,
        prior=replay.prior,
        clock=replay.clock,
    )


def count_in_order(
    catalogue: Catalogue,
    batch: TrainingBatch,
    slots: Integers,
    collected: _Collected,
    came: Flags,
    orders: Sequence[Integers],
    draws: Sequence[NegativeDraw],
    most_seen: int | None,
) -> list[CrossFeatures]:
    """Count a batch in order of time, and return each epoch's cross features of candidates as they were at each event.

    Whatever the order of an epoch, no event sees its own future. Draws of negatives are keyed, so they are known in advance.
    """
    found, neighbours = [_Found() for _ in orders], catalogue.has_neighbours
    choices = catalogue.items.choices
    choices[slots[came > 0]] = -1  # not live before their event, though users may have had them before an earlier removal
    places = [np.argsort(order).tolist() for order in orders] if neighbours else []
    for e, (slot, user) in enumerate(zip(slots.tolist(), batch.user.tolist(), strict=True)):
        if came[e]:
            choices[slot] = 0
        recent, seen, counted = collected.recent[e], collected.before[user], collected.counted[e]
        if neighbours:
            excluded = batch.seen[batch.seen_offset[user] : batch.seen_offset[user + 1]]
            history = UserHistory(recent, seen.slots(), seen.times())
            catalogue.make_room(len(recent))
            items, position = catalogue.items, int(batch.position[e])
            for epoch, drawn in enumerate(draws):
                own = drawn._replace(position=drawn.position + places[epoch][e], time=float(batch.time[e]))
                found[epoch].add(*_cross_features_before(items, own, position, excluded, history))
            if counted:
                count_neighbours(items.neighbours, choices, slot, recent)
        choices[slot] += counted
        if collected.effects[e].had:
            seen.add(slot, most_seen)
    return [own.all(len(slots)) for own in found]


class _Found:
    """Cross features collected event by event. Small arrays are joined from time to time, as each one takes much memory."""

    _MANY = 1024

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._candidates = [np.zeros(0, np.int32)]
        self._values = [np.zeros((0, CROSS_FEATURES), np.float32)]

    def add(self, candidate: Integers, value: Floats) -> None:
        """Append the cross features of the next event."""
        self._counts.append(len(candidate))
        self._candidates.append(candidate)
        self._values.append(value)
        if len(self._counts) % self._MANY == 0:
            last = len(self._candidates) - self._MANY
            self._candidates[last:] = [np.concatenate(self._candidates[last:])]
            self._values[last:] = [np.concatenate(self._values[last:])]

    def all(self, events: int) -> CrossFeatures:
        """Return the cross features of all events."""
        counts = self._counts or [0] * events
        return CrossFeatures(_offsets(counts), np.concatenate(self._candidates), np.concatenate(self._values))


def _offsets(counts: Sequence[int]) -> Longs:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
