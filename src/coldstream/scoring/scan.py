"""The exact scan: every live item's score for every request of a batch, block by block.

    ŷ_i = c + [w_i + ⟨q, v_i⟩] + Σ_fields t + Σ_numbers x t + Σ_trends r t + cross features        t_f = w_f + ⟨q, v_f⟩

c and q are what the request folds to. t is worked out once per request for every shared feature, number and trend, so an
item costs one product of its own vector and one addition per attribute field. A block of scores stays in the first-level
cache, and items' vectors are read once for all requests. Nothing here depends on where a block begins or on who else asks:
every sum has one order, so all paths give the same bits. Scores are float32 without c, which is the same for all items and
might be so large that nothing else would be left of them.
"""

from typing import NamedTuple

import numpy as np

from coldstream.arrays import Doubles, Flags, Floats, Integers
from coldstream.catalogue.cross_features import AGAIN, FOLLOWS, TOGETHER, closeness, log_count, scale_of
from coldstream.catalogue.shapes import Combinations, Items
from coldstream.catalogue.trends import trend_value
from coldstream.features.sparse import Sparse
from coldstream.model.compiled import inlined, kernel
from coldstream.model.kernels import fold
from coldstream.model.shapes import Theta
from coldstream.model.vectors import dots
from coldstream.scoring.ranking import Heap, RankRule, drained, key_of_score, offered
from coldstream.scoring.requests import RequestBatch

BLOCK = 512
_EXCLUDED = np.float32(-np.inf)
"""The score of an item that a request may not get; no other score is infinite."""


class ItemVectors(NamedTuple):
    """What items bring to a scan besides trends and cross features."""

    pairs: int
    matrix: Floats  # (rows, k)
    weight: Floats  # (rows,)
    row: Integers  # (L,): of every position
    combination: Integers  # (A, L)
    number: Floats  # (B, L)
    combinations: Combinations
    number_column: Integers  # (B,)
    trend_product: Floats  # (H or 0, L): ⟨v_h, z_i⟩, where trends interact with the rest of the item
    trend_pair: Floats  # (H or 0, H): ⟨v_h, v_g⟩, what counts of it


class Prepared(NamedTuple):
    """What is worked out once per request."""

    own: Doubles  # (B,): c
    q: Floats  # (B, k)
    combination: Floats  # (B, P): Σ x t of each combination
    number: Floats  # (B, numbers): t
    trend: Floats  # (B, H): t
    together: Floats  # (B, L): Σ c/√n over the user's recent items


class Marks(NamedTuple):
    """What a request says of single items, bucketed by block; the entries of one item keep their order."""

    start: Integers  # (blocks + 1,)
    position: Integers
    kind: Flags
    value: Floats


class Room(NamedTuple):
    """Room for one block."""

    score: Floats
    trend: Floats  # (H, BLOCK)
    elapsed: Floats
    choices: Integers
    again: Floats  # all 0 between two uses


@inlined
def _prepared(theta: Theta, items: Items, vectors: ItemVectors, batch: RequestBatch) -> Prepared:
    B, k, table = len(batch.mask), theta.V.shape[1], vectors.combinations
    H, numbers = len(items.trends.rate), len(vectors.number_column)
    own, q = np.empty(B, np.float64), np.empty((B, k), np.float32)
    combination, number = np.zeros((B, table.size), np.float32), np.zeros((B, numbers), np.float32)
    trend, t = np.empty((B, H), np.float32), np.empty(table.features, np.float32)
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
        for n in range(numbers):  # those that no item has had yet have no column, and no item has their value
            if vectors.number_column[n] >= 0:
                number[b, n] = products[at] + theta.w[known[at]]
                at += 1
        dots(theta.V, items.trends.column, 0, H, q[b], trend[b])
        for h in range(H):
            trend[b, h] += theta.w[items.trends.column[h]]
    return Prepared(own, q, combination, number, trend, _together(items, batch))


@inlined
def _together(items: Items, batch: RequestBatch) -> Floats:
    """How often every item was chosen together with the recent ones: most of a small catalogue, little of a large one."""
    neighbours, position = items.neighbours, items.position
    out = np.zeros((len(batch.mask), items.size if neighbours.column[TOGETHER] >= 0 else 0), np.float32)
    if out.shape[1]:
        for b in range(len(batch.mask)):
            own = out[b]
            for n in range(batch.offset[1, b], batch.offset[1, b + 1]):
                start = neighbours.start[batch.recent[n]]
                stop, scale = start + neighbours.length[batch.recent[n]], scale_of(items.choices[batch.recent[n]])
                partner, together = neighbours.partner[start:stop], neighbours.together[start:stop]
                for entry in range(len(partner)):
                    # Unsigned, because it is then not asked whether an index counts from the end.
                    own[np.uint32(position[np.uint32(partner[entry])])] += np.float32(together[entry]) * scale
    return out


# Kinds of marks beside the cross features: the item is excluded.
_OUT = 3


@inlined
def _marks(items: Items, batch: RequestBatch, b: int) -> Marks:
    """What followed the user's last item, and what the user had."""
    neighbours, position = items.neighbours, items.position
    recent = batch.recent[batch.offset[1, b] : batch.offset[1, b + 1]]
    first, stop = batch.offset[2, b], batch.offset[2, b + 1]
    again, out = neighbours.column[AGAIN] >= 0, batch.exclude_seen[b]
    room = (stop - first) * (int(again) + int(out))
    if len(recent):
        room += neighbours.length[recent[-1]]
    at, kind, value = np.empty(room, np.int32), np.empty(room, np.uint8), np.empty(room, np.float32)
    found = 0
    if neighbours.column[FOLLOWS] >= 0 and len(recent):
        begin = neighbours.start[recent[-1]]
        for entry in range(begin, begin + neighbours.length[recent[-1]]):
            if neighbours.follows[entry]:
                at[found], kind[found] = position[neighbours.partner[entry]], FOLLOWS
                value[found] = np.float32(neighbours.follows[entry])
                found += 1
    if (again and len(recent)) or out:
        for n in range(first, stop):
            if position[batch.seen[n]] >= 0:
                if again and len(recent):
                    at[found], kind[found], value[found] = position[batch.seen[n]], AGAIN, np.float32(batch.times[n])
                    found += 1
                if out:
                    at[found], kind[found], value[found] = position[batch.seen[n]], _OUT, np.float32(0.0)
                    found += 1
    return _bucketed(items.size, Marks(np.empty(0, np.int32), at[:found], kind[:found], value[:found]))


@inlined
def _bucketed(count: int, marks: Marks) -> Marks:
    blocks, found = (count + BLOCK - 1) // BLOCK, len(marks.position)
    start = np.zeros(blocks + 2, np.int32)
    for n in range(found):
        start[marks.position[n] // BLOCK + 2] += 1
    for block in range(2, blocks + 2):
        start[block] += start[block - 1]
    position, kind, value = np.empty(found, np.int32), np.empty(found, np.uint8), np.empty(found, np.float32)
    for n in range(found):
        block = marks.position[n] // BLOCK
        to = start[block + 1]
        start[block + 1] += 1
        position[to], kind[to], value[to] = marks.position[n] - block * BLOCK, marks.kind[n], marks.value[n]
    return Marks(start, position, kind, value)


@inlined
def _begin_block(items: Items, start: int, stop: int, clock: int, room: Room) -> None:
    """What a block has that is the same for all requests: the values of its trends, and its choices."""
    trends, rows = items.trends, items.rows
    size, decay = stop - start, np.float32(trends.prior_decay)
    counted_at, unchosen, slot = rows.counted_at[start:stop], rows.unchosen[start:stop], rows.slot[start:stop]
    for n in range(size):
        room.elapsed[n] = np.float32(clock - counted_at[n])
    for h in range(len(trends.rate)):
        level, own, rate, prior = rows.level[h, start:stop], room.trend[h], trends.rate[h], trends.prior[h]
        for n in range(size):
            own[n] = trend_value(level[n], rate, unchosen[n], prior, decay, room.elapsed[n])
    if items.neighbours.column[TOGETHER] >= 0:
        for n in range(size):
            room.choices[n] = items.choices[np.uint32(slot[n])]


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
    """The scores of one block for one request into `room.score`; −∞ for what is excluded."""
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
    for h in range(room.trend.shape[0]):
        trend, t = room.trend[h], prepared.trend[b, h]
        for n in range(size):
            score[n] += trend[n] * t
    for h in range(vectors.trend_product.shape[0]):
        trend, product = room.trend[h], vectors.trend_product[h, start:stop]
        for n in range(size):
            score[n] += trend[n] * product[n]
        for g in range(h + 1):
            other, t = room.trend[g], vectors.trend_pair[h, g]
            for n in range(size):
                score[n] += trend[n] * other[n] * t
    if prepared.together.shape[1]:
        _add_together(theta.w[items.neighbours.column[TOGETHER]], prepared.together[b, start:stop], room)
    _mark_block(theta, items, marks, start, room)
    if batch.mask[b] >= 0:
        excluded, slot = batch.excluded[batch.mask[b]], items.rows.slot[start:stop]
        for n in range(size):
            if excluded[slot[n]]:
                score[n] = _EXCLUDED


@inlined
def _add_together(weight: np.float32, together: Floats, room: Room) -> None:
    """Add the feature `together` to a block of scores."""
    found = 0
    for n in range(len(together)):
        found += int(together[n] > np.float32(0.0))
    if 8 * found > len(together):
        for n in range(len(together)):
            room.score[n] += weight * closeness(together[n], room.choices[n])
    elif found:  # few: one by one instead of all of the block on vectors
        for n in range(len(together)):
            if together[n] > np.float32(0.0):
                room.score[n] += weight * closeness(together[n], room.choices[n])


@inlined
def _mark_block(theta: Theta, items: Items, marks: Marks, start: int, room: Room) -> None:
    """Add the features `follows` and `again` to a block of scores, and exclude what the user had."""
    block, column = start // BLOCK, items.neighbours.column
    first, last = marks.start[block], marks.start[block + 1]
    for entry in range(first, last):
        at, kind = marks.position[entry], marks.kind[entry]
        if kind == FOLLOWS:
            room.score[at] += theta.w[column[FOLLOWS]] * log_count(marks.value[entry])
        elif kind == AGAIN:
            room.again[at] += marks.value[entry]
    for entry in range(first, last):
        at, kind = marks.position[entry], marks.kind[entry]
        if kind == AGAIN and room.again[at] > np.float32(0.0):
            room.score[at] += theta.w[column[AGAIN]] * log_count(room.again[at])
            room.again[at] = np.float32(0.0)
    for entry in range(first, last):
        if marks.kind[entry] == _OUT:
            room.score[marks.position[entry]] = _EXCLUDED


@inlined
def _room(items: Items) -> Room:
    trend, elapsed = np.empty((len(items.trends.rate), BLOCK), np.float32), np.empty(BLOCK, np.float32)
    return Room(np.empty(BLOCK, np.float32), trend, elapsed, np.empty(BLOCK, np.int32), np.zeros(BLOCK, np.float32))


class Answers(NamedTuple):
    """Room for the best items of every request, and how much of it was filled."""

    slot: Integers
    score: Doubles
    found: Integers  # (B,)


@kernel
def top(
    theta: Theta, items: Items, vectors: ItemVectors, batch: RequestBatch, rank_rule: int, clock: int, out: Answers
) -> None:
    """The best items of every request, best first; ties go to the earlier registration."""
    B, room = len(batch.mask), _room(items)
    prepared = _prepared(theta, items, vectors, batch)
    marks = [_marks(items, batch, b) for b in range(B)]
    answers = batch.offset[3]
    heap = Heap(np.empty(answers[B], np.float64), np.empty(answers[B], np.int64), np.empty(answers[B], np.int32), out.score)
    for b in range(B):
        out.found[b] = 0
    for start in range(0, items.size, BLOCK):
        stop = min(start + BLOCK, items.size)
        _begin_block(items, start, stop, clock, room)
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
    """The score of one item, whether it is excluded or not, without the request's own part."""
    room, allowed = _room(items), _all_allowed(batch)
    start = position - position % BLOCK
    _begin_block(items, start, min(start + BLOCK, items.size), clock, room)
    _score_block(theta, items, vectors, prepared, allowed, 0, _marks(items, allowed, 0), start, room)
    return np.float32(room.score[position - start])


@kernel
def score_of(theta: Theta, items: Items, vectors: ItemVectors, batch: RequestBatch, clock: int, position: int) -> float:
    """The score of one item for one request."""
    prepared = _prepared(theta, items, vectors, batch)
    return float(prepared.own[0] + _score_at(theta, items, vectors, prepared, batch, clock, position))


@kernel
def rank_of(
    theta: Theta, items: Items, vectors: ItemVectors, batch: RequestBatch, rank_rule: int, clock: int, position: int
) -> tuple[float, int]:
    """The expected rank of a live item under ties, and the number of candidates; the item itself is never excluded."""
    room, prepared = _room(items), _prepared(theta, items, vectors, batch)
    rule, marks = RankRule(rank_rule, prepared.own[0]), _marks(items, batch, 0)
    wanted = key_of_score(rule, _score_at(theta, items, vectors, prepared, batch, clock, position))
    better = equal = candidates = 0
    for start in range(0, items.size, BLOCK):
        stop = min(start + BLOCK, items.size)
        _begin_block(items, start, stop, clock, room)
        _score_block(theta, items, vectors, prepared, batch, 0, marks, start, room)
        if start <= position < stop:
            room.score[position - start] = _EXCLUDED
        for n in range(stop - start):
            key = key_of_score(rule, room.score[n])
            better += int(key > wanted)
            equal += int(key == wanted)
            candidates += int(room.score[n] != _EXCLUDED)
    return better + 0.5 * equal, candidates + 1


@inlined
def _all_allowed(batch: RequestBatch) -> RequestBatch:
    mask, exclude_seen = np.full_like(batch.mask, -1), np.zeros_like(batch.exclude_seen)
    return RequestBatch(batch.offset, batch.x, batch.recent, batch.seen, batch.times, exclude_seen, batch.excluded, mask)
