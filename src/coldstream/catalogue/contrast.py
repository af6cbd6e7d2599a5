"""Learning from a choice among items against drawn negatives: of one event, of several, or of a whole epoch."""

from typing import NamedTuple

import numpy as np

from coldstream.catalogue.cross_features import CROSS_FEATURES, features_of, tally_of
from coldstream.catalogue.negative_sampling import NegativeDraw, draw, room_for
from coldstream.catalogue.neighbours import count_neighbours
from coldstream.catalogue.shapes import MOST_COUNTED, Items, UserHistory
from coldstream.catalogue.trends import count_trend, pass_by, trend_value, value_at
from coldstream.features.sparse import Sparse
from coldstream.model.kernels import learn
from coldstream.model.renewal import notice
from coldstream.model.shapes import Candidates, OptimizerState, Rows, UpdateRule
from coldstream.model.vectors import prefetch
from coldstream.support.arrays import Doubles, Flags, Floats, Integers, Longs
from coldstream.support.compiled import inlined, kernel


class EventBatch(NamedTuple):
    """Events in the order of the log: their contexts one after another, and the history of each user before the event."""

    offset: Longs  # (n + 1,): where each context begins in `x`
    x: Sparse
    slot: Integers  # (n,): the items chosen
    position: Longs  # (n,): positions in the log
    time: Doubles  # (n,): the time of each event, or that of the stream before it
    weight: Doubles  # (n,): factors of the losses; negative ones speak against the item
    counted: Flags  # (n,): whether each event counts in trends and neighbours
    recent_offset: Longs  # (n + 1,)
    recent: Integers
    seen_start: Longs  # (n,): a user's seen items grow from event to event, so one slice of `seen` serves them all
    seen_stop: Longs  # (n,)
    seen: Integers
    times: Integers
    learned: Flags  # (n,): 0 where an event is counted and not learned from
    passed_offset: Longs  # (n + 1,)
    passed_over: Integers  # items shown above those chosen and not taken, one event after another


def batch_of_one(
    x: Sparse,
    slot: int,
    position: int,
    time: float,
    weight: float,
    counted: bool,
    history: UserHistory,
    passed_over: Integers,
) -> EventBatch:
    """Build a batch of one event, so that learning at once and in batches share one kernel."""
    longs = np.array(
        [0, len(x.column), position, 0, len(history.recent), 0, len(history.seen), 0, len(passed_over)], np.int64
    )
    doubles, flags = np.array([time, weight]), np.array([counted, 1], np.uint8)
    return EventBatch(
        longs[:2],
        x,
        np.array([slot], np.int32),
        longs[2:3],
        doubles[:1],
        doubles[1:],
        flags[:1],
        longs[3:5],
        history.recent,
        longs[5:6],
        longs[6:7],
        history.seen,
        history.times,
        flags[1:],
        longs[7:],
        passed_over,
    )


class TrainingBatch(NamedTuple):
    """Events of batch training: their contexts one after another, their items, and the items that users had."""

    offset: Longs  # (n + 1,)
    x: Sparse
    position: Integers  # (n,): scan positions of the items chosen
    time: Doubles  # (n,): the time of each event, or that of the stream before it
    weight: Doubles  # (n,): as in `EventBatch`
    user: Integers  # (n,)
    seen_offset: Longs  # (users + 1,)
    seen: Integers
    touch_offset: Longs  # (L + 1,): where the counted events of each position begin in `touch`, in order
    touch: Integers
    level: Floats  # (n, H): trend levels of the event's item right after it
    prior: Floats  # (n, H): level of a newcomer right before each event
    clock: int  # the count of events at the first event


class CrossFeatures(NamedTuple):
    """Cross features of one epoch's candidates, stored sparsely: few candidates are neighbours."""

    offset: Longs  # (n + 1,): where the entries of each event begin
    candidate: Integers
    value: Floats  # (entries, CROSS_FEATURES)


@inlined
def _ask_for_items(items: Items, positions: Integers, found: int) -> None:
    """Prefetch the memory that `_gather` reads: drawn items of a large catalogue are in no cache."""
    rows = items.rows
    room = len(rows.slot)
    for j in range(found):
        position = positions[j]
        prefetch(rows.id_column, position, 1)
        prefetch(rows.counted_at, position, 1)
        prefetch(rows.unchosen, position, 1)
        for a in range(rows.combination.shape[0]):
            prefetch(rows.combination, a * room + position, 1)
        for b in range(rows.number.shape[0]):
            prefetch(rows.number, b * room + position, 1)
        for h in range(rows.level.shape[0]):
            prefetch(rows.level, h * room + position, 1)


@inlined
def _gather(items: Items, positions: Integers, found: int, trend: Floats, cross: Floats) -> Candidates:
    """Collect the features of each candidate: its id, its attributes, its trends and its cross features."""
    rows, combinations = items.rows, items.combinations
    fields, numbers, H = rows.combination.shape[0], rows.number.shape[0], trend.shape[1]
    room = found * (1 + numbers + H + cross.shape[1])
    for j in range(found):
        for a in range(fields):
            room += combinations.length[rows.combination[a, positions[j]]]
    offset = np.empty(found + 1, np.int32)
    column, x = np.empty(room, np.int32), np.empty(room, np.float32)
    n = 0
    for j in range(found):
        offset[j] = n
        position = positions[j]
        if rows.id_column[position] >= 0:
            column[n], x[n] = rows.id_column[position], 1.0
            n += 1
        for a in range(fields):
            number = rows.combination[a, position]
            first = combinations.start[number]
            for entry in range(first, first + combinations.length[number]):
                column[n], x[n] = combinations.column[combinations.feature[entry]], combinations.value[entry]
                n += 1
        for b in range(numbers):
            if rows.number[b, position] != 0.0:
                column[n], x[n] = items.number_column[b], rows.number[b, position]
                n += 1
        for h in range(H):
            if trend[j, h] > 0.0:
                column[n], x[n] = items.trends.column[h], trend[j, h]
                n += 1
        for h in range(cross.shape[1]):
            if cross[j, h] > 0.0 and items.neighbours.column[h] >= 0:
                column[n], x[n] = items.neighbours.column[h], cross[j, h]
                n += 1
    offset[found] = n
    return Candidates(offset, Sparse(column[:n], x[:n]))


@inlined
def _learn_one(
    rows: Rows,
    state: OptimizerState,
    rule: UpdateRule,
    items: Items,
    drawn: NegativeDraw,
    x: Sparse,
    slot: int,
    history: UserHistory,
    weight: float,
    counted: bool,
    clock: int,
) -> bool:
    """Learn from an event against drawn negatives, then count it; return False, changing nothing, if it diverged."""
    if weight != 0.0 and not _contrasted(rows, state, rule, items, drawn, x, slot, history, weight, clock):
        return False
    _count_one(items, slot, history.recent, counted, clock)
    return True


@inlined
def _contrasted(
    rows: Rows,
    state: OptimizerState,
    rule: UpdateRule,
    items: Items,
    drawn: NegativeDraw,
    x: Sparse,
    slot: int,
    history: UserHistory,
    weight: float,
    clock: int,
) -> bool:
    """Learn from an event against drawn negatives; return False, changing nothing, if it diverged."""
    positions = np.empty(room_for(drawn), np.int32)
    positive = items.position[slot]
    found = draw(items, drawn, positive, history.seen, positions)
    _ask_for_items(items, positions, found)
    trend = np.empty((found, len(items.trends.rate)), np.float32)
    for j in range(found):
        for h in range(trend.shape[1]):
            trend[j, h] = value_at(items.trends, items.rows, positions[j], h, clock)
    cross = np.empty((found, CROSS_FEATURES if len(history.recent) else 0), np.float32)
    if len(history.recent):
        slots = np.empty(found, np.int32)
        for j in range(found):
            slots[j] = items.rows.slot[positions[j]]
        tally = tally_of(items, history, slots)
        for j in range(found):
            features_of(tally, items.choices, slots[j], cross, j)
    candidates = _gather(items, positions, found, trend, cross)
    for n in range(len(candidates.x.column)):
        prefetch(state.place, candidates.x.column[n], 1)
    if not learn(rows, state, rule, x, candidates, 1.0, weight, drawn.position):
        return False
    if weight > 0.0:
        notice(state, rule, drawn.position)
    return True


@inlined
def _count_one(items: Items, slot: int, recent: Integers, counted: bool, clock: int) -> None:
    if not counted:
        pass_by(items.trends)
        return
    count_trend(items.trends, items.rows, items.position[slot], clock)
    if items.neighbours.column.max() >= 0:
        count_neighbours(items.neighbours, items.choices, slot, recent)
    items.choices[slot] += items.choices[slot] < MOST_COUNTED


@kernel
def count_choice(items: Items, slot: int, recent: Integers, counted: bool, clock: int) -> None:
    """Count the choice of an item after the `recent` ones in trends, neighbours and choices, if it is `counted`."""
    _count_one(items, slot, recent, counted, clock)


@kernel
def learn_events(
    rows: Rows,
    state: OptimizerState,
    rule: UpdateRule,
    items: Items,
    drawn: NegativeDraw,
    batch: EventBatch,
    first: int,
    clock: int,
) -> int:
    """Learn from events in order, from `first` on; return the number of the one that diverged, or of all."""
    for e in range(first, len(batch.slot)):
        recent = batch.recent[batch.recent_offset[e] : batch.recent_offset[e + 1]]
        if not batch.learned[e]:
            _count_one(items, batch.slot[e], recent, batch.counted[e] > 0, clock + e)
            continue
        start, stop = batch.offset[e], batch.offset[e + 1]
        x = Sparse(batch.x.column[start:stop], batch.x.value[start:stop])
        start, stop = batch.seen_start[e], batch.seen_stop[e]
        history = UserHistory(recent, batch.seen[start:stop], batch.times[start:stop])
        passed_over = batch.passed_over[batch.passed_offset[e] : batch.passed_offset[e + 1]]
        own = NegativeDraw(drawn.key, batch.position[e], drawn.negatives, drawn.exclude_seen, batch.time[e], passed_over)
        weight, counted = batch.weight[e], batch.counted[e] > 0
        if not _learn_one(rows, state, rule, items, own, x, batch.slot[e], history, weight, counted, clock + e):
            return e
    return len(batch.slot)


@kernel
def cross_features_before(
    items: Items, drawn: NegativeDraw, positive: int, excluded: Integers, history: UserHistory
) -> tuple[Integers, Floats]:
    """Return which of an event's candidates have cross features in the present state, and their values."""
    positions = np.empty(room_for(drawn), np.int32)
    found = draw(items, drawn, positive, excluded, positions)
    slots = np.empty(found, np.int32)
    for j in range(found):
        slots[j] = items.rows.slot[positions[j]]
    tally = tally_of(items, history, slots)
    candidate, value = np.empty(found, np.int32), np.empty((found, CROSS_FEATURES), np.float32)
    n = 0
    for j in range(found):
        features_of(tally, items.choices, slots[j], value, n)
        if value[n, 0] > 0.0 or value[n, 1] > 0.0 or value[n, 2] > 0.0:
            candidate[n] = j
            n += 1
    return candidate[:n].copy(), value[:n].copy()


@kernel
def learn_epoch(
    rows: Rows,
    state: OptimizerState,
    rule: UpdateRule,
    items: Items,
    drawn: NegativeDraw,
    batch: TrainingBatch,
    cross_features: CrossFeatures,
    order: Integers,
) -> int:
    """Learn from a batch once, in the given order; return the place in it of the event that diverged, or −1."""
    H = len(items.trends.rate)
    positions = np.empty(room_for(drawn), np.int32)
    for place in range(len(order)):
        e = order[place]
        user = batch.user[e]
        seen = batch.seen[batch.seen_offset[user] : batch.seen_offset[user + 1]]
        position, nothing = drawn.position + place, drawn.passed_over
        own = NegativeDraw(drawn.key, position, drawn.negatives, drawn.exclude_seen, batch.time[e], nothing)
        found = draw(items, own, batch.position[e], seen, positions)
        trend = np.empty((found, H), np.float32)
        if H:
            for j in range(found):
                _trends_before(items, batch, positions[j], e, trend, j)
        cross = np.zeros((found, CROSS_FEATURES), np.float32)
        for n in range(cross_features.offset[e], cross_features.offset[e + 1]):
            for h in range(CROSS_FEATURES):
                cross[cross_features.candidate[n], h] = cross_features.value[n, h]
        start, stop = batch.offset[e], batch.offset[e + 1]
        x = Sparse(batch.x.column[start:stop], batch.x.value[start:stop])
        if batch.weight[e] != 0.0:
            candidates = _gather(items, positions, found, trend, cross)
            if not learn(rows, state, rule, x, candidates, 1.0, batch.weight[e], own.position):
                return place
    return -1


@inlined
def _trends_before(items: Items, batch: TrainingBatch, position: int, e: int, out: Floats, j: int) -> None:
    """Write an item's trends as they were just before event `e` of the batch, whatever order the epoch runs in."""
    trends, rows = items.trends, items.rows
    low, high = batch.touch_offset[position], batch.touch_offset[position + 1]
    first = low
    while low < high:  # a binary search for the number of touches before e
        middle = (low + high) // 2
        if batch.touch[middle] < e:
            low = middle + 1
        else:
            high = middle
    unchosen, since = np.float32(0.0), np.float32(0.0)
    if low == first:
        unchosen = rows.unchosen[position]
        # An item that arrived later than this event counts as if it had just arrived.
        since = np.float32(max(batch.clock + e - rows.counted_at[position], 0))
    for h in range(out.shape[1]):
        level = rows.level[h, position]
        if low > first:
            last = batch.touch[low - 1]
            level, since = batch.level[last, h], np.float32(e - last)
        decay = np.float32(trends.prior_decay)
        out[j, h] = trend_value(level, trends.rate[h], unchosen, batch.prior[e, h], decay, since)
