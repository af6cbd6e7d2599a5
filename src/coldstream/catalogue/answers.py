"""The best items of many requests in one call: what does not depend on who asks is worked out once."""

from typing import NamedTuple

import numpy as np

from coldstream.arrays import Doubles, Floats, Integers
from coldstream.catalogue.ranking import Merit, best
from coldstream.catalogue.scan import Folded, add_materialised, add_signatures, start_with_trends
from coldstream.catalogue.shapes import Items, Live, Person
from coldstream.catalogue.ties import add_ties
from coldstream.features.sparse import Sparse
from coldstream.model.compiled import kernel, scan_kernel
from coldstream.model.kernels import fold
from coldstream.model.shapes import Theta


class Questions(NamedTuple):
    """Requests, one behind the other: request b has the entries offset[b] to offset[b + 1] of each part."""

    offset: Integers  # (4, B + 1): of x, past, had and the answers
    x: Sparse
    past: Integers
    had: Integers
    times: Integers
    left_out: Integers  # (B,): 1 where what the user had is left out


class Answers(NamedTuple):
    """Room for the best items of every request, and how many of it was filled."""

    slot: Integers
    total: Doubles
    found: Integers  # (B,)


class Scan(NamedTuple):
    """What a scan reads besides Θ and the items."""

    live: Live
    position: Integers
    folded: Folded
    materialised: bool
    sign: float
    rank_rule: int


@kernel
def answer(theta: Theta, items: Items, scan: Scan, clock: int, asked: Questions, out: Answers) -> None:
    """Fold, score, tie and choose, for one request after the other."""
    live, k = scan.live, theta.V.shape[1]
    constant, scores = np.empty(len(live.slot), np.float32), np.empty(len(live.slot), np.float32)
    shared, factors = np.empty(len(scan.folded.bias), np.float32), np.empty(k, np.float32)
    none, nothing_barred = np.empty(0, np.int32), np.empty(0, np.uint8)
    start_with_trends(theta, items.trends, live, clock, constant)
    plain = not items.trends.interacting
    if plain:
        add_constants(theta, scan, constant)
    for b in range(len(out.found)):
        start, stop = asked.offset[0, b], asked.offset[0, b + 1]
        x = Sparse(asked.x.column[start:stop], asked.x.value[start:stop])
        own = float(theta.w0[0]) + fold(theta, scan.sign, x, factors)
        scores[:] = constant
        if plain:
            add_products(theta, scan, factors, shared, scores)
        elif scan.materialised:
            add_materialised(theta, scan.sign, items.trends, live, scan.folded, factors, clock, scores)
        else:
            add_signatures(theta, scan.sign, items.trends, live, scan.folded, factors, clock, scores)
        past = asked.past[asked.offset[1, b] : asked.offset[1, b + 1]]
        start, stop = asked.offset[2, b], asked.offset[2, b + 1]
        had = asked.had[start:stop]
        if len(past):
            add_ties(theta, items.neighbours, Person(past, had, asked.times[start:stop]), items.live, scan.position, scores)
        left_out = had if asked.left_out[b] else none
        start, stop = asked.offset[3, b], asked.offset[3, b + 1]
        slots, totals = out.slot[start:stop], out.total[start:stop]
        rule = Merit(scan.rank_rule, own)
        out.found[b] = best(scores, items.live, items.born, nothing_barred, left_out, rule, slots, totals)


@scan_kernel
def add_constants(theta: Theta, scan: Scan, out: Floats) -> None:
    """Add what an item scores whoever asks: B_σ + w_i + ⟨v_i, G_σ⟩, or b_i."""
    live, folded, k = scan.live, scan.folded, theta.V.shape[1]
    diagonal = np.float32(0.5 + 0.5 * scan.sign)
    for n in range(len(out)):
        if scan.materialised:
            out[n] += folded.bias[live.slot[n]]
            continue
        s, i = live.signature[n], live.own[n]
        score = folded.bias[s]
        if i >= 0:
            score += theta.w[i]
            for f in range(k):
                score += theta.V[i, f] * (folded.vector[s, f] + diagonal * theta.V[i, f])
        out[n] += score


@scan_kernel
def add_products(theta: Theta, scan: Scan, q: Floats, shared: Floats, out: Floats) -> None:
    """Add what depends on who asks: ⟨q, G_σ⟩ + ⟨q, v_i⟩, or ⟨q, z_i⟩. Every vector is read once, and q stays at hand."""
    live, G, k = scan.live, scan.folded.vector, theta.V.shape[1]
    if scan.materialised:
        for n in range(len(out)):
            product = np.float32(0.0)
            for f in range(k):
                product += q[f] * G[live.slot[n], f]
            out[n] += product
        return
    for s in range(len(shared)):
        product = np.float32(0.0)
        for f in range(k):
            product += q[f] * G[s, f]
        shared[s] = product
    for n in range(len(out)):
        i = live.own[n]
        product = shared[live.signature[n]]
        if i >= 0:
            for f in range(k):
                product += q[f] * theta.V[i, f]
        out[n] += product
