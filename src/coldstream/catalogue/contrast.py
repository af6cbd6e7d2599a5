"""Learning from a choice among items: what happened against drawn negatives, one event or a whole epoch."""

from typing import NamedTuple

import numpy as np

from coldstream.arrays import Floats, Integers, Longs
from coldstream.catalogue.shapes import Items, Person, Trends
from coldstream.catalogue.ties import TIES, tally_of, ties_of
from coldstream.catalogue.trends import guessed, trend_value
from coldstream.features.sparse import Sparse
from coldstream.model.compiled import inlined, kernel
from coldstream.model.counter import below, hashed
from coldstream.model.kernels import learn
from coldstream.model.shapes import Candidates, Memory, Rule, Theta

_TRIES = 32  # draws for one negative before it is given up


class Draws(NamedTuple):
    """Where an event's negatives come from."""

    key: np.uint64
    event: int
    negatives: int
    avoids: bool  # whether what the user had is no negative


class Batch(NamedTuple):
    """Events of batch training: their contexts one after the other, their items, and what their users had."""

    offset: Longs  # (n + 1,)
    x: Sparse
    slot: Integers  # (n,)
    user: Integers  # (n,)
    had_offset: Longs  # (users + 1,)
    had: Integers
    touch_offset: Longs  # (I + 1,): the events of each slot, in order …
    touch: Integers
    level: Floats  # (n, H): … and its trend levels right after each
    guess: Floats  # (n, H): the level of a newcomer right before each event
    clock: int  # of the first event


class Ties(NamedTuple):
    """What ties the candidates of one epoch to the pasts of its events: few are neighbours, so only those are kept."""

    offset: Longs  # (n + 1,), by event
    candidate: Integers
    value: Floats  # (entries, TIES)


@inlined
def _draw(items: Items, draws: Draws, positive: int, had: Integers, slots: Integers) -> int:
    """The positive and its negatives, uniform over the live items without the positive and what the user is to avoid."""
    key = hashed(draws.key, draws.event)
    avoided = len(had) if draws.avoids else 0
    slots[0] = positive
    found = 1
    for j in range(draws.negatives):
        for attempt in range(_TRIES):
            slot = items.live[below(key, j * _TRIES + attempt, len(items.live))]
            barred = slot == positive
            for n in range(avoided):
                barred |= had[n] == slot
            if not barred:
                slots[found] = slot
                found += 1
                break
    return found


@inlined
def _gather(items: Items, slots: Integers, found: int, levels: Floats, ties: Floats) -> Candidates:
    """What each candidate brings: its id, its shared features, its trends from `levels` and its ties to the user."""
    shared, trends = items.shared, items.trends
    H = len(trends.rate)
    room = found * (1 + H + ties.shape[1])
    for j in range(found):
        room += shared.length[items.signature[slots[j]]]
    offset = np.empty(found + 1, np.int32)
    column = np.empty(room, np.int32)
    x = np.empty(room, np.float32)
    n = 0
    for j in range(found):
        offset[j] = n
        slot = slots[j]
        if items.own[slot] >= 0:
            column[n] = items.own[slot]
            x[n] = np.float32(1.0)
            n += 1
        s = items.signature[slot]
        for entry in range(shared.start[s], shared.start[s] + shared.length[s]):
            column[n] = shared.column[entry]
            x[n] = shared.value[entry]
            n += 1
        for h in range(H):
            if levels[j, h] > 0.0:
                column[n] = trends.column[h]
                x[n] = levels[j, h]
                n += 1
        for h in range(ties.shape[1]):
            if ties[j, h] > 0.0 and items.neighbours.column[h] >= 0:
                column[n] = items.neighbours.column[h]
                x[n] = ties[j, h]
                n += 1
    offset[found] = n
    return Candidates(offset, Sparse(column[:n], x[:n]))


@kernel
def learn_event(
    theta: Theta,
    memory: Memory,
    rule: Rule,
    items: Items,
    draws: Draws,
    x: Sparse,
    positive: int,
    person: Person,
    clock: int,
) -> bool:
    """Contrast what happened with drawn negatives and learn. False, and nothing changed, if the update diverged."""
    slots = np.empty(draws.negatives + 1, np.int32)
    found = _draw(items, draws, positive, person.had, slots)
    levels = np.empty((found, len(items.trends.rate)), np.float32)
    for j in range(found):
        for h in range(levels.shape[1]):
            levels[j, h] = trend_value(items.trends, slots[j], h, clock)
    ties = np.empty((found, TIES if len(person.past) else 0), np.float32)
    if len(person.past):
        tally = tally_of(items.neighbours, person, slots[:found])
        for j in range(found):
            ties_of(items.neighbours, tally, slots[j], ties, j)
    return learn(theta, memory, rule, x, _gather(items, slots, found, levels, ties), 1.0)


@kernel
def ties_before(items: Items, draws: Draws, positive: int, avoided: Integers, person: Person) -> tuple[Integers, Floats]:
    """Which of an event's candidates anything ties to the user, as both are now, and what does."""
    slots = np.empty(draws.negatives + 1, np.int32)
    found = _draw(items, draws, positive, avoided, slots)
    tally = tally_of(items.neighbours, person, slots[:found])
    candidate, ties = np.empty(found, np.int32), np.empty((found, TIES), np.float32)
    n = 0
    for j in range(found):
        ties_of(items.neighbours, tally, slots[j], ties, n)
        if ties[n, 0] > 0.0 or ties[n, 1] > 0.0 or ties[n, 2] > 0.0:
            candidate[n] = j
            n += 1
    return candidate[:n].copy(), ties[:n].copy()


@kernel
def learn_epoch(
    theta: Theta, memory: Memory, rule: Rule, items: Items, draws: Draws, batch: Batch, tied: Ties, order: Integers
) -> int:
    """One pass over a batch in the given order; the position of the event that diverged, or −1."""
    trends = items.trends
    slots = np.empty(draws.negatives + 1, np.int32)
    for position in range(len(order)):
        e = order[position]
        user = batch.user[e]
        had = batch.had[batch.had_offset[user] : batch.had_offset[user + 1]]
        own = Draws(draws.key, draws.event + position, draws.negatives, draws.avoids)
        found = _draw(items, own, batch.slot[e], had, slots)
        levels = np.empty((found, len(trends.rate)), np.float32)
        if len(trends.rate):
            for j in range(found):
                _levels_before(trends, batch, slots[j], e, levels, j)
        ties = np.zeros((found, TIES), np.float32)
        for n in range(tied.offset[e], tied.offset[e + 1]):
            for h in range(TIES):
                ties[tied.candidate[n], h] = tied.value[n, h]
        start, stop = batch.offset[e], batch.offset[e + 1]
        x = Sparse(batch.x.column[start:stop], batch.x.value[start:stop])
        if not learn(theta, memory, rule, x, _gather(items, slots, found, levels, ties), 1.0):
            return position
    return -1


@inlined
def _levels_before(trends: Trends, batch: Batch, slot: int, e: int, levels: Floats, j: int) -> None:
    """An item's trends as they were just before event e of the batch, whatever order the epoch runs in."""
    low, high = batch.touch_offset[slot], batch.touch_offset[slot + 1]
    first = low
    while low < high:  # the number of touches before e
        middle = (low + high) // 2
        if batch.touch[middle] < e:
            low = middle + 1
        else:
            high = middle
    for h in range(levels.shape[1]):
        if low == first and trends.times[slot] == 0:
            levels[j, h] = max(guessed(trends, slot, batch.clock + e, batch.guess[e, h]), np.float32(0.0))
        elif low == first:
            levels[j, h] = trend_value(trends, slot, h, batch.clock + e)
        else:
            last = batch.touch[low - 1]
            value = batch.level[last, h] - trends.rate[h] * np.float32(e - last)
            levels[j, h] = max(value, np.float32(0.0))
