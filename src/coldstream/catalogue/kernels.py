"""The loops of the catalogue: what candidates bring, negatives, exact scores, the best of them.

Shapes: I slots (one per item ever put), L live items, P signatures, H trends, k factors.
    own, signature (I,)              an item's id column (−1: none) and its signature
    start, length (P,)               a signature's entries in column, value (pool,)
    head (d,), following, owner (n,) linked lists: column → the signatures that contain it
    live, live_own, live_signature (L,)  slots in the order of the scan, and what the scan reads of them
    born (I,)                        the order of registration
"""

import math
from typing import NamedTuple

import numpy as np

from coldstream.arrays import Flags, Floats, Integers, Longs
from coldstream.features.sparse import Sparse
from coldstream.model.compiled import inlined, kernel, scan_inlined, scan_kernel
from coldstream.model.counter import below, hashed
from coldstream.model.kernels import Candidates, Memory, Rule, Theta, learn

HIGHEST, CLOSEST_TO_1 = 0, 1
RANK_RULES = {"highest": HIGHEST, "closest-to-1": CLOSEST_TO_1}

_TRIES = 32  # draws for one negative before it is given up


class Shared(NamedTuple):
    """The signatures: each a set of shared features that one or more items have."""

    start: Integers
    length: Integers
    column: Integers
    value: Floats
    head: Integers
    following: Integers
    owner: Integers


class Trends(NamedTuple):
    """Per slot and half-life, the logarithm of a decaying count, and the clock of its last change."""

    level: Floats  # (I, H): log(count / ε) at that clock, −∞ for no count
    clock: Longs  # (I,)
    rate: Floats  # (H,): what a level loses per event
    column: Integers  # (H,)
    interacting: bool  # whether any trend has factors


class Items(NamedTuple):
    """The catalogue as kernels see it."""

    own: Integers
    signature: Integers
    born: Longs
    live: Integers
    live_own: Integers
    live_signature: Integers
    shared: Shared
    trends: Trends


class Draws(NamedTuple):
    """Where an event's negatives come from."""

    key: np.uint64
    event: int
    negatives: int


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
    clock: int  # of the first event


EPSILON = 0.01
"""ε: counts below a hundredth of one choice are taken as nothing."""
_LOG_EPSILON = math.log(EPSILON)


@inlined
def _level(trends: Trends, slot: int, h: int, clock: int) -> np.float32:
    """log(count / ε) now: decay is a constant rate in the logarithm."""
    return np.float32(trends.level[slot, h] - trends.rate[h] * np.float32(clock - trends.clock[slot]))


@inlined
def trend_value(trends: Trends, slot: int, h: int, clock: int) -> np.float32:
    """log(max(count, ε) / ε) now: the feature's value, 0 for an item that nobody chose lately."""
    return np.float32(max(_level(trends, slot, h, clock), np.float32(0.0)))


@kernel
def count_touch(trends: Trends, slot: int, clock: int) -> None:
    """Count one more choice of an item, at every half-life."""
    for h in range(len(trends.rate)):
        count = math.exp(np.float64(_level(trends, slot, h, clock)) + _LOG_EPSILON)
        trends.level[slot, h] = math.log1p(count) - _LOG_EPSILON
    trends.clock[slot] = clock


@inlined
def _draw(items: Items, draws: Draws, positive: int, had: Integers, slots: Integers) -> int:
    """The positive and its negatives, uniform over the live items without the positive and what the user had."""
    key = hashed(draws.key, draws.event)
    slots[0] = positive
    found = 1
    for j in range(draws.negatives):
        for attempt in range(_TRIES):
            slot = items.live[below(key, j * _TRIES + attempt, len(items.live))]
            barred = slot == positive
            for n in range(len(had)):
                barred |= had[n] == slot
            if not barred:
                slots[found] = slot
                found += 1
                break
    return found


@inlined
def _gather(items: Items, slots: Integers, found: int, levels: Floats) -> Candidates:
    """What each candidate brings: its id, its shared features, and its trends from `levels`."""
    shared, trends = items.shared, items.trends
    H = len(trends.rate)
    room = found * (1 + H)
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
    had: Integers,
    clock: int,
) -> bool:
    """Contrast what happened with drawn negatives and learn. False, and nothing changed, if the update diverged."""
    slots = np.empty(draws.negatives + 1, np.int32)
    found = _draw(items, draws, positive, had, slots)
    levels = np.empty((found, len(items.trends.rate)), np.float32)
    for j in range(found):
        for h in range(levels.shape[1]):
            levels[j, h] = trend_value(items.trends, slots[j], h, clock)
    return learn(theta, memory, rule, x, _gather(items, slots, found, levels), 1.0)


@kernel
def learn_epoch(theta: Theta, memory: Memory, rule: Rule, items: Items, draws: Draws, batch: Batch, order: Integers) -> int:
    """One pass over a batch in the given order; the position of the event that diverged, or −1."""
    trends = items.trends
    slots = np.empty(draws.negatives + 1, np.int32)
    for position in range(len(order)):
        e = order[position]
        user = batch.user[e]
        had = batch.had[batch.had_offset[user] : batch.had_offset[user + 1]]
        found = _draw(items, Draws(draws.key, draws.event + position, draws.negatives), batch.slot[e], had, slots)
        levels = np.empty((found, len(trends.rate)), np.float32)
        if len(trends.rate):
            for j in range(found):
                _levels_before(trends, batch, slots[j], e, levels, j)
        start, stop = batch.offset[e], batch.offset[e + 1]
        x = Sparse(batch.x.column[start:stop], batch.x.value[start:stop])
        if not learn(theta, memory, rule, x, _gather(items, slots, found, levels), 1.0):
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
        if low == first:
            levels[j, h] = trend_value(trends, slot, h, batch.clock + e)
        else:
            last = batch.touch[low - 1]
            value = batch.level[last, h] - trends.rate[h] * np.float32(e - last)
            levels[j, h] = max(value, np.float32(0.0))


@kernel
def replay_touches(trends: Trends, slot: Integers, clock: int, level: Floats) -> None:
    """Count the events of a batch in order, on a copy of the trends, and write down each item's levels after each."""
    for e in range(len(slot)):
        count_touch(trends, slot[e], clock + e)
        for h in range(level.shape[1]):
            level[e, h] = trends.level[slot[e], h]


# Exact scores. These only read Θ; what is folded is a pure function of Θ and the catalogue.


class Folded(NamedTuple):
    """One vector and one bias per signature (G_σ and B_σ) or per slot (z_i and b_i)."""

    vector: Floats
    bias: Floats


class Listed(NamedTuple):
    """The items of each signature, linked both ways."""

    first: Integers  # by signature
    after: Integers  # by slot
    before: Integers
    under: Integers  # the signature under which a slot is listed


@scan_kernel
def fold_signature(theta: Theta, sign: float, shared: Shared, s: int, out: Folded) -> None:
    """Fold one signature."""
    _fold_signature(theta, sign, shared, s, out, np.empty(out.vector.shape[1], np.float32))


@scan_inlined
def _fold_signature(theta: Theta, sign: float, shared: Shared, s: int, out: Folded, room: Floats) -> None:
    """G_σ = Σ x v and B_σ = Σ w x + ½(‖G_σ‖² ∓ Σ x² ‖v‖²), from scratch: nothing accumulates, so nothing drifts."""
    k = out.vector.shape[1]
    for f in range(k):
        room[f] = np.float32(0.0)
    bias = np.float32(0.0)
    squares = np.float32(0.0)
    for n in range(shared.start[s], shared.start[s] + shared.length[s]):
        i, x = shared.column[n], shared.value[n]
        bias += theta.w[i] * x
        square = np.float32(0.0)
        for f in range(k):
            v = theta.V[i, f]
            room[f] += x * v
            square += v * v
        squares += x * x * square
    total = np.float32(0.0)
    for f in range(k):
        total += room[f] * room[f]
    for f in range(k):
        out.vector[s, f] = room[f]
    out.bias[s] = bias + np.float32(0.5) * (total + np.float32(sign) * squares)


@scan_kernel
def fold_item(theta: Theta, sign: float, items: Items, slot: int, signatures: Folded, out: Folded) -> None:
    """Fold one item."""
    _fold_item(theta, sign, items, slot, signatures, out)


@scan_inlined
def _fold_item(theta: Theta, sign: float, items: Items, slot: int, signatures: Folded, out: Folded) -> None:
    """z_i and b_i of one item from its signature and its own parameters."""
    s, i = items.signature[slot], items.own[slot]
    G, Z = signatures.vector, out.vector
    k = G.shape[1]
    for f in range(k):
        Z[slot, f] = G[s, f]
    bias = signatures.bias[s]
    if i >= 0:
        product = np.float32(0.0)
        square = np.float32(0.0)
        for f in range(k):
            product += theta.V[i, f] * G[s, f]
            square += theta.V[i, f] * theta.V[i, f]
            Z[slot, f] += theta.V[i, f]
        bias += theta.w[i] + product + np.float32(0.5) * (np.float32(1.0) + np.float32(sign)) * square
    out.bias[slot] = bias


@scan_kernel
def fold_items_of(
    theta: Theta, sign: float, items: Items, numbers: Integers, listed: Listed, signatures: Folded, out: Folded
) -> None:
    """Fold every item that has one of these signatures."""
    for n in range(len(numbers)):
        slot = listed.first[numbers[n]]
        while slot >= 0:
            _fold_item(theta, sign, items, slot, signatures, out)
            slot = listed.after[slot]


@scan_kernel
def fold_items_owning(
    theta: Theta, sign: float, items: Items, columns: Integers, slot_of: Integers, signatures: Folded, out: Folded
) -> None:
    """Fold every item whose id is one of these columns. A column may have had another owner before: the item tells."""
    for n in range(len(columns)):
        if columns[n] < len(slot_of):
            slot = slot_of[columns[n]]
            if slot >= 0 and items.own[slot] == columns[n]:
                _fold_item(theta, sign, items, slot, signatures, out)


@scan_inlined
def _stale_signatures(shared: Shared, columns: Integers, dirty: Flags, out: Integers) -> int:
    """The signatures that contain any of the columns, each once. Uses and clears `dirty`."""
    found = 0
    for n in range(len(columns)):
        if columns[n] >= len(shared.head):
            continue
        entry = shared.head[columns[n]]
        while entry >= 0:
            s = shared.owner[entry]
            if not dirty[s]:
                dirty[s] = 1
                out[found] = s
                found += 1
            entry = shared.following[entry]
    for n in range(found):
        dirty[out[n]] = 0
    return found


@scan_kernel
def refresh_signatures(
    theta: Theta, sign: float, shared: Shared, columns: Integers, dirty: Flags, out: Integers, folded: Folded
) -> int:
    """Fold again every signature that contains any of the columns; they are left in `out`."""
    found = _stale_signatures(shared, columns, dirty, out)
    room = np.empty(folded.vector.shape[1], np.float32)
    for n in range(found):
        _fold_signature(theta, sign, shared, out[n], folded, room)
    return found


@scan_kernel
def score_signatures(
    theta: Theta, sign: float, items: Items, folded: Folded, c: float, q: Floats, clock: int, out: Floats
) -> None:
    """ŷ_i = [c + B_σ + ⟨q, G_σ⟩] + w_i + ⟨v_i, q + G_σ⟩ for every live item, one query vector per signature."""
    G = folded.vector
    P, k = len(items.shared.start), G.shape[1]
    Q = np.empty((P, k), np.float32)
    base = np.empty(P, np.float32)
    for s in range(P):
        product = np.float32(0.0)
        for f in range(k):
            product += q[f] * G[s, f]
            Q[s, f] = q[f] + G[s, f]
        base[s] = np.float32(c) + folded.bias[s] + product
    diagonal = np.float32(0.5) * (np.float32(1.0) + np.float32(sign))
    for n in range(len(items.live)):
        s, i = items.live_signature[n], items.live_own[n]
        score = base[s]
        if i >= 0:
            score += theta.w[i]
            if diagonal == np.float32(0.0):
                for f in range(k):
                    score += theta.V[i, f] * Q[s, f]
            else:
                for f in range(k):
                    score += theta.V[i, f] * (Q[s, f] + diagonal * theta.V[i, f])
        out[n] = score
    if len(items.trends.rate):
        _add_trends(theta, sign, items, Q, q, items.signature, clock, out)


@scan_kernel
def score_materialised(
    theta: Theta, sign: float, items: Items, folded: Folded, c: float, q: Floats, clock: int, out: Floats
) -> None:
    """ŷ_i = c + b_i + ⟨q, z_i⟩ for every live item."""
    Z = folded.vector
    k = Z.shape[1]
    for n in range(len(items.live)):
        slot = items.live[n]
        score = np.float32(c) + folded.bias[slot]
        for f in range(k):
            score += q[f] * Z[slot, f]
        out[n] = score
    if len(items.trends.rate):
        _add_trends(theta, sign, items, Z, q, items.own[:0], clock, out)


@scan_inlined
def _add_trends(
    theta: Theta, sign: float, items: Items, rest: Floats, q: Floats, row: Integers, clock: int, out: Floats
) -> None:
    """What the trends add: r w, and with factors r ⟨v, all the rest of x⟩ and the pairs among trends.

    `rest` holds, per signature, q + G (then the item's own vector is still to add) or, per slot, z (then q is).
    """
    trends = items.trends
    H, k = len(trends.rate), rest.shape[1]
    for n in range(len(items.live)):
        slot = items.live[n]
        for h in range(H):
            out[n] += trend_value(trends, slot, h, clock) * theta.w[trends.column[h]]
    if not trends.interacting:
        return
    total = np.empty(k, np.float32)
    for n in range(len(items.live)):
        slot = items.live[n]
        square = np.float32(0.0)
        for f in range(k):
            total[f] = np.float32(0.0)
        for h in range(H):
            r = trend_value(trends, slot, h, clock)
            for f in range(k):
                a = r * theta.V[trends.column[h], f]
                total[f] += a
                square += a * a
        score = np.float32(0.0)
        i = items.own[slot]
        for f in range(k):
            score += total[f] * np.float32(0.5) * total[f]
        if len(row):
            for f in range(k):
                score += total[f] * rest[row[slot], f]
            if i >= 0:
                for f in range(k):
                    score += total[f] * theta.V[i, f]
        else:
            for f in range(k):
                score += total[f] * (q[f] + rest[slot, f])
        out[n] += score + np.float32(0.5) * np.float32(sign) * square
