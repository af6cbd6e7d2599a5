"""The exact scan: the score of every live item for every request of a batch, block by block.

    ŷ_i = c + [w_i + ⟨q, v_i⟩] + Σ_fields t + Σ_numbers x t + Σ_trends r t + cross features        t_f = w_f + ⟨q, v_f⟩

c and q result from folding the request. t is computed once per request for each shared feature, number and trend, so an item
costs one product of its own vector and one addition per attribute field. A block of scores stays in the first-level cache,
and items' vectors are read once for all requests. No score depends on where a block begins or on the other requests of the
batch: every sum has one order, so all paths give the same bits. Scores are float32 without c, which is equal for all items
and might be so large that rounding would erase the differences between them.
"""

from typing import NamedTuple

import numpy as np

from coldstream.catalogue.shapes import Combinations, Items
from coldstream.features.sparse import Sparse
from coldstream.model.kernels import fold
from coldstream.model.shapes import Theta
from coldstream.model.vectors import dots
from coldstream.scoring.blocks import BLOCK, EXCLUDED, Marks, Room, room_of
from coldstream.scoring.derived_features import (
    Derived,
    add_cross_features,
    add_trends,
    begin_block,
    exclude_marked,
    marks_of,
    prepare_derived,
)
from coldstream.scoring.ranking import Heap, RankRule, drained, key_of_score, offered
from coldstream.scoring.requests import RequestBatch
from coldstream.support.arrays import Doubles, Floats, Integers
from coldstream.support.compiled import inlined, kernel


class ItemVectors(NamedTuple):
    """The parts of the items that a scan reads besides trends and cross features."""

    pairs: int
    matrix: Floats  # (rows, k)
    weight: Floats  # (rows,)
    row: Integers  # (L,): row of `matrix` for each position
    combination: Integers  # (A, L)
    number: Floats  # (B, L)
    combinations: Combinations
    number_column: Integers  # (B,)
    trend_product: Floats  # (H or 0, L): ⟨v_h, z_i⟩, where trends interact with other item features
    trend_pair: Floats  # (H or 0, H): ⟨v_h, v_g⟩, for the pairs that count


class Prepared(NamedTuple):
    """The values computed once per request."""

    own: Doubles  # (B,): c
    q: Floats  # (B, k)
    combination: Floats  # (B, P): Σ x t of each combination
    number: Floats  # (B, numbers): t
    derived: Derived


@inlined
def _prepared(theta: Theta, items: Items, vectors: ItemVectors, batch: RequestBatch) -> Prepared:
    B, k, table = len(batch.mask), theta.V.shape[1], vectors.combinations
    numbers = len(vectors.number_column)
    own, q = np.empty(B, np.float64), np.empty((B, k), np.float32)
    combination, number = np.zeros((B, table.size), np.float32), np.zeros((B, numbers), np.float32)
    t = np.empty(table.features, np.float32)
    known, held, products = np.empty(numbers, np.int32), 0, np.empty(numbers, np.float32)
    for n in range(numbers):
        if vectors.number_column[n] >= 0:
            known[held] = vectors.number_column[n]
            held += 1
    for b in range(B):
        start, stop = batch.offset[0, b], batch.offset[0, b + 1]
        x = Sparse(batch.x.column[start:stop], batch.x.value[start:stop])
        own[b] = float(theta.w0[0]) + fold(theta, vectors.pairs, x, q[b])
        dots(theta.V, table.column, 0, table.features, q[b], t)
        for n in range(table.features):
            t[n] += theta.w[table.column[n]]
        out = combination[b]
        for p in range(table.size):
            total = np.float32(0.0)
            for entry in range(table.start[p], table.start[p] + table.length[p]):
                total += table.value[entry] * t[table.feature[entry]]
            out[p] = total
        dots(theta.V, known, 0, held, q[b], products)
        at = 0
        for n in range(numbers):  # a number that no item has had has no column, and adds nothing
            if vectors.number_column[n] >= 0:
                number[b, n] = products[at] + theta.w[known[at]]
                at += 1
    return Prepared(own, q, combination, number, prepare_derived(theta, items, batch, q))


@inlined
def _score_block(
    theta: Theta,
    items: Items,
    vectors: ItemVectors,
    prepared: Prepared,
    batch: RequestBatch,
    b: int,
    marks: Marks,
    start: int,
    room: Room,
) -> None:
    """Write the scores of one block for one request to `room.score`; −∞ for excluded items."""
    stop = min(start + BLOCK, items.size)
    size, score = stop - start, room.score
    dots(vectors.matrix, vectors.row, start, stop, prepared.q[b], score)
    row = vectors.row[start:stop]
    for n in range(size):
        score[n] += vectors.weight[np.uint32(row[n])]
    table = prepared.combination[b]
    for a in range(vectors.combination.shape[0]):
        own = vectors.combination[a, start:stop]
        for n in range(size):
            score[n] += table[np.uint32(own[n])]
    for a in range(vectors.number.shape[0]):
        number, t = vectors.number[a, start:stop], prepared.number[b, a]
        for n in range(size):
            score[n] += number[n] * t
    add_trends(prepared.derived, vectors.trend_product, vectors.trend_pair, b, start, stop, room)
    add_cross_features(theta, items, prepared.derived, b, marks, start, stop, room)
    if batch.rule[b] >= 0:
        added, slot = batch.added[batch.rule[b]], items.rows.slot[start:stop]
        for n in range(size):
            score[n] += added[slot[n]]
    exclude_marked(marks, start, room)
    if batch.mask[b] >= 0:
        excluded, slot = batch.excluded[batch.mask[b]], items.rows.slot[start:stop]
        for n in range(size):
            if excluded[slot[n]]:
                score[n] = EXCLUDED


class Answers(NamedTuple):
    """Output arrays for the best items of every request, and the number found for each."""

    slot: Integers
    score: Doubles
    found: Integers  # (B,)


@kernel
def top(
    theta: Theta, items: Items, vectors: ItemVectors, batch: RequestBatch, rank_rule: int, clock: int, out: Answers
) -> None:
    """Find the best items of every request, best first; ties go to the earlier registration."""
    B, room = len(batch.mask), room_of(items)
    prepared = _prepared(theta, items, vectors, batch)
    marks = [marks_of(items, batch, b) for b in range(B)]
    answers = batch.offset[3]
    heap = Heap(np.empty(answers[B], np.float64), np.empty(answers[B], np.int64), np.empty(answers[B], np.int32), out.score)
    for b in range(B):
        out.found[b] = 0
    for start in range(0, items.size, BLOCK):
        stop = min(start + BLOCK, items.size)
        begin_block(items, start, stop, clock, room)
        for b in range(B):
            _score_block(theta, items, vectors, prepared, batch, b, marks[b], start, room)
            rule = RankRule(rank_rule, prepared.own[b])
            out.found[b] = offered(heap, answers[b], answers[b + 1], out.found[b], rule, items, start, stop, room.score)
    for b in range(B):
        drained(heap, answers[b], out.found[b], prepared.own[b], items.rows.slot, out.slot)


@kernel
def _score_at(
    theta: Theta, items: Items, vectors: ItemVectors, prepared: Prepared, batch: RequestBatch, clock: int, position: int
) -> np.float32:
    """Return the score of one item, excluded or not, without the request's own part."""
    room, allowed = room_of(items), _all_allowed(batch)
    start = position - position % BLOCK
    begin_block(items, start, min(start + BLOCK, items.size), clock, room)
    _score_block(theta, items, vectors, prepared, allowed, 0, marks_of(items, allowed, 0), start, room)
    return np.float32(room.score[position - start])


@kernel
def score_of(theta: Theta, items: Items, vectors: ItemVectors, batch: RequestBatch, clock: int, position: int) -> float:
    """Return the score of one item for one request."""
    prepared = _prepared(theta, items, vectors, batch)
    return float(prepared.own[0] + _score_at(theta, items, vectors, prepared, batch, clock, position))


@kernel
def rank_of(
    theta: Theta, items: Items, vectors: ItemVectors, batch: RequestBatch, rank_rule: int, clock: int, position: int
) -> tuple[float, int]:
    """Return the expected rank of a live item under ties, and the number of candidates; the item is never excluded."""
    room, prepared = room_of(items), _prepared(theta, items, vectors, batch)
    rule, marks = RankRule(rank_rule, prepared.own[0]), marks_of(items, batch, 0)
    wanted = key_of_score(rule, _score_at(theta, items, vectors, prepared, batch, clock, position))
    better = equal = candidates = 0
    for start in range(0, items.size, BLOCK):
        stop = min(start + BLOCK, items.size)
        begin_block(items, start, stop, clock, room)
        _score_block(theta, items, vectors, prepared, batch, 0, marks, start, room)
        if start <= position < stop:
            room.score[position - start] = EXCLUDED
        for n in range(stop - start):
            key = key_of_score(rule, room.score[n])
            better += int(key > wanted)
            equal += int(key == wanted)
            candidates += int(room.score[n] != EXCLUDED)
    return better + 0.5 * equal, candidates + 1


@inlined
def _all_allowed(batch: RequestBatch) -> RequestBatch:
    mask, exclude_seen = np.full_like(batch.mask, -1), np.zeros_like(batch.exclude_seen)
    return RequestBatch(
        batch.offset,
        batch.x,
        batch.recent,
        batch.seen,
        batch.times,
        exclude_seen,
        batch.excluded,
        mask,
        batch.added,
        batch.rule,
    )
