"""The scan of one shard: the blocks of `scan.py` over its own items, with what was worked out of a request elsewhere.

Scores are without the request's own part, as float32 gives them: who merges compares them with those of other shards, and
adds that part to those that are left.
"""

import numpy as np

from coldstream.arrays import Floats
from coldstream.catalogue.cross_features import TOGETHER
from coldstream.catalogue.shapes import Items
from coldstream.model.compiled import inlined, kernel
from coldstream.model.shapes import Theta
from coldstream.scoring.blocks import Marks, bucketed
from coldstream.scoring.questions import SlotAddends, SlotMarks
from coldstream.scoring.ranking import drained
from coldstream.scoring.requests import RequestBatch
from coldstream.scoring.scan import (
    Answers,
    FoldedRequests,
    ItemVectors,
    Standing,
    best_kept,
    prepared_of,
    score_at,
    standing_of,
)


@inlined
def _together_at(items: Items, together: SlotAddends) -> Floats:
    """What `together_of` gives, of this shard's items."""
    B = len(together.offset) - 1
    out = np.zeros((B, items.size if items.neighbours.column[TOGETHER] >= 0 else 0), np.float32)
    if out.shape[1]:
        for b in range(B):
            for n in range(together.offset[b], together.offset[b + 1]):
                out[b, items.position[together.slot[n]]] += together.value[n]
    return out


@inlined
def _marks_at(items: Items, marks: SlotMarks, b: int) -> Marks:
    """What `marks_of` gives, of this shard's items."""
    first, last = marks.offset[b], marks.offset[b + 1]
    position = np.empty(last - first, np.int32)
    for n in range(last - first):
        position[n] = items.position[marks.slot[first + n]]
    return bucketed(items.size, Marks(np.empty(0, np.int32), position, marks.kind[first:last], marks.value[first:last]))


@kernel
def best_of_shard(
    theta: Theta,
    items: Items,
    vectors: ItemVectors,
    batch: RequestBatch,
    folded: FoldedRequests,
    marks: SlotMarks,
    together: SlotAddends,
    rank_rule: int,
    clock: int,
    out: Answers,
) -> None:
    """The best of the shard's items for every request, best first."""
    B, prepared = len(batch.mask), prepared_of(folded, _together_at(items, together))
    own = [_marks_at(items, marks, b) for b in range(B)]
    heap = best_kept(theta, items, vectors, prepared, batch, own, rank_rule, clock, out)
    for b in range(B):  # −0 is what may be added to any number without a change of a bit
        drained(heap, batch.offset[3, b], out.found[b], -0.0, items.rows.slot, out.slot)


@kernel
def standing_in_shard(
    theta: Theta,
    items: Items,
    vectors: ItemVectors,
    batch: RequestBatch,
    folded: FoldedRequests,
    marks: SlotMarks,
    together: SlotAddends,
    rank_rule: int,
    clock: int,
    score: float,
    position: int,
) -> Standing:
    """Where a score stands among the shard's items, but for the one at a position; −1 for none."""
    prepared, own = prepared_of(folded, _together_at(items, together)), _marks_at(items, marks, 0)
    return standing_of(theta, items, vectors, prepared, batch, own, rank_rule, clock, np.float32(score), position)


@kernel
def score_in_shard(
    theta: Theta,
    items: Items,
    vectors: ItemVectors,
    batch: RequestBatch,
    folded: FoldedRequests,
    marks: SlotMarks,
    together: SlotAddends,
    clock: int,
    position: int,
) -> float:
    """The score of one of the shard's items for a request that excludes nothing."""
    prepared, own = prepared_of(folded, _together_at(items, together)), _marks_at(items, marks, 0)
    return float(score_at(theta, items, vectors, prepared, batch, own, clock, position))
