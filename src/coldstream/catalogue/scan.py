"""Exact scores of every live item at the price of matrix factorization.

These kernels only read Θ. What is folded here is a pure function of Θ and the catalogue. Scores are what the item adds to
the context's own part c of ŷ = c + b_i + ⟨q, z_i⟩: c is the same for all, and might be so large that nothing else is left
of them in float32.
"""

from typing import NamedTuple

import numpy as np

from coldstream.arrays import Flags, Floats, Integers
from coldstream.catalogue.shapes import Items, Live, Shared, Trends
from coldstream.model.compiled import scan_inlined, scan_kernel
from coldstream.model.shapes import Theta


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
    """G_σ = Σ x v and B_σ = Σ w x + its pairs, from scratch: nothing accumulates, so nothing drifts."""
    k = out.vector.shape[1]
    for f in range(k):
        room[f] = np.float32(0.0)
    itself = np.float32(0.5 + 0.5 * sign)
    bias = np.float32(0.0)
    for n in range(shared.start[s], shared.start[s] + shared.length[s]):
        i, x = shared.column[n], shared.value[n]
        product = np.float32(0.0)  # with the sum of those before it: ½(S² − Q) without its cancellation
        own = itself * x
        for f in range(k):
            v, before = theta.V[i, f], room[f]
            product += v * (before + own * v)
            room[f] = before + x * v
        bias += x * (theta.w[i] + product)
    for f in range(k):
        out.vector[s, f] = room[f]
    out.bias[s] = bias


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
        bias += theta.w[i] + product + np.float32(0.5 + 0.5 * sign) * square
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
    theta: Theta, sign: float, trends: Trends, live: Live, folded: Folded, q: Floats, clock: int, out: Floats
) -> None:
    """What every live item adds to a request that folds to q, where one vector is folded per signature."""
    start_with_trends(theta, trends, live, clock, out)
    add_signatures(theta, sign, trends, live, folded, q, clock, out)


@scan_kernel
def score_materialised(
    theta: Theta, sign: float, trends: Trends, live: Live, folded: Folded, q: Floats, clock: int, out: Floats
) -> None:
    """The same where one vector is folded per item."""
    start_with_trends(theta, trends, live, clock, out)
    add_materialised(theta, sign, trends, live, folded, q, clock, out)


@scan_inlined
def add_signatures(
    theta: Theta, sign: float, trends: Trends, live: Live, folded: Folded, q: Floats, clock: int, out: Floats
) -> None:
    """Add [B_σ + ⟨q, G_σ⟩] + w_i + ⟨v_i, q + G_σ⟩ for every live item, with one query vector per signature."""
    G = folded.vector
    P, k = len(folded.bias), G.shape[1]
    Q = np.empty((P, k), np.float32)
    base = np.empty(P, np.float32)
    for s in range(P):
        product = np.float32(0.0)
        for f in range(k):
            product += q[f] * G[s, f]
            Q[s, f] = q[f] + G[s, f]
        base[s] = folded.bias[s] + product
    diagonal = np.float32(0.5 + 0.5 * sign)
    for n in range(len(out)):
        s, i = live.signature[n], live.own[n]
        score = base[s]
        if i >= 0:
            score += theta.w[i]
            if diagonal == np.float32(0.0):
                for f in range(k):
                    score += theta.V[i, f] * Q[s, f]
            else:
                for f in range(k):
                    score += theta.V[i, f] * (Q[s, f] + diagonal * theta.V[i, f])
        out[n] += score
    if trends.interacting:
        _add_interacting(theta, sign, trends, live, Q, q, live.signature, clock, out)


@scan_inlined
def add_materialised(
    theta: Theta, sign: float, trends: Trends, live: Live, folded: Folded, q: Floats, clock: int, out: Floats
) -> None:
    """Add b_i + ⟨q, z_i⟩ for every live item."""
    Z = folded.vector
    k = Z.shape[1]
    for n in range(len(out)):
        slot = live.slot[n]
        score = folded.bias[slot]
        for f in range(k):
            score += q[f] * Z[slot, f]
        out[n] += score
    if trends.interacting:
        _add_interacting(theta, sign, trends, live, Z, q, live.signature[:0], clock, out)


@scan_inlined
def start_with_trends(theta: Theta, trends: Trends, live: Live, clock: int, out: Floats) -> None:
    """Write what the trends add by themselves, Σ r w; without a branch, so that it runs on vectors."""
    elapsed = np.empty(len(out), np.float32)
    for n in range(len(out)):
        elapsed[n] = np.float32(clock - live.clock[n])
        out[n] = np.float32(0.0)
    for h in range(len(trends.rate)):
        w, rate, fade, guess = theta.w[trends.column[h]], trends.rate[h], np.float32(trends.fade), trends.guess[h]
        level = live.level[h]
        for n in range(len(out)):
            out[n] += w * _heat(level[n], rate, live.untried[n], guess, fade, elapsed[n])


@scan_inlined
def _heat(
    level: np.float32, rate: np.float32, untried: np.float32, guess: np.float32, fade: np.float32, elapsed: np.float32
) -> np.float32:
    """A trend's value: that of the count, and where there is none, that of the guess. Without a count the level is −∞."""
    counted, guessed = level - rate * elapsed, guess - fade * elapsed
    return np.float32(max(counted, np.float32(0.0)) + untried * max(guessed, np.float32(0.0)))


@scan_inlined
def _add_interacting(
    theta: Theta,
    sign: float,
    trends: Trends,
    live: Live,
    rest: Floats,
    q: Floats,
    row: Integers,
    clock: int,
    out: Floats,
) -> None:
    """What trends with factors add to that: r ⟨v, all the rest of x⟩ and the pairs among trends.

    `rest` holds, per signature, q + G (then the item's own vector is still to add) or, per slot, z (then q is).
    """
    H, k = len(trends.rate), rest.shape[1]
    fade = np.float32(trends.fade)
    total = np.empty(k, np.float32)
    itself = np.float32(0.5 + 0.5 * sign)
    for n in range(len(out)):
        i = live.own[n]
        elapsed = np.float32(clock - live.clock[n])
        score = np.float32(0.0)
        for f in range(k):
            total[f] = np.float32(0.0)
        for h in range(H):
            r = _heat(live.level[h, n], trends.rate[h], live.untried[n], trends.guess[h], fade, elapsed)
            for f in range(k):
                a = r * theta.V[trends.column[h], f]
                score += a * (total[f] + itself * a)
                total[f] += a
        if len(row):
            for f in range(k):
                score += total[f] * rest[row[n], f]
            if i >= 0:
                for f in range(k):
                    score += total[f] * theta.V[i, f]
        else:
            for f in range(k):
                score += total[f] * (q[f] + rest[live.slot[n], f])
        out[n] += score
