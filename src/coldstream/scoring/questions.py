"""What shards of a catalogue are asked: what a batch of requests comes down to, worked out once by who stands in front.

All shards are asked the same `Question`; what it says of single items goes to the shard that has them, as its `Part`.
Item n of the catalogue's slots is item n // M of shard n % M, of M shards.
"""

from typing import NamedTuple

import numpy as np

from coldstream.arrays import Flags, Floats, Integers
from coldstream.catalogue.cross_features import TOGETHER, scale_of
from coldstream.catalogue.shapes import Items
from coldstream.model.compiled import kernel, unchecked_entry
from coldstream.model.shapes import Theta
from coldstream.scoring.derived_features import found_marks
from coldstream.scoring.requests import RequestBatch
from coldstream.scoring.scan import FoldedRequests, ItemVectors, folded_requests


class Question(NamedTuple):
    """What is the same for all shards."""

    folded: FoldedRequests
    cross: Floats  # (3,): w of `follows`, `together` and `again`
    prior: Floats  # (H,): the level of an unchosen item
    answers: Integers  # (B + 1,): where each request's answers begin
    mask: Integers  # (B,): as in `RequestBatch`
    rule: Integers  # (B,)
    fields: tuple[int, int]
    """How many fields of categories and of numbers items have."""
    rank_rule: int
    clock: int


class SlotMarks(NamedTuple):
    """What a batch says of single items; request b has the entries offset[b] to offset[b + 1], in order."""

    offset: Integers
    slot: Integers
    kind: Flags
    value: Floats


class SlotAddends(NamedTuple):
    """What items get for having been chosen together with a user's recent ones; what one gets is added up in this order."""

    offset: Integers
    slot: Integers
    value: Floats


class Part(NamedTuple):
    """What one shard is asked besides."""

    excluded: Flags  # (masks, bytes): a bit for each of its slots
    slots: int
    """How many slots the masks are of."""
    added: Floats  # (rules, its slots)
    marks: SlotMarks
    together: SlotAddends


@kernel
def _worked_out(
    theta: Theta, items: Items, vectors: ItemVectors, batch: RequestBatch
) -> tuple[FoldedRequests, SlotMarks, SlotAddends]:
    return folded_requests(theta, items, vectors, batch), _marks_by_slot(items, batch), _together_by_slot(items, batch)


@kernel
def _marks_by_slot(items: Items, batch: RequestBatch) -> SlotMarks:
    B = len(batch.mask)
    own = [found_marks(items, batch, b) for b in range(B)]
    offset = np.zeros(B + 1, np.int32)
    for b in range(B):
        offset[b + 1] = offset[b] + len(own[b].position)
    slot, kind, value = np.empty(offset[B], np.int32), np.empty(offset[B], np.uint8), np.empty(offset[B], np.float32)
    for b in range(B):
        for n in range(len(own[b].position)):
            at = offset[b] + n
            slot[at], kind[at], value[at] = items.rows.slot[own[b].position[n]], own[b].kind[n], own[b].value[n]
    return SlotMarks(offset, slot, kind, value)


@kernel
def _together_by_slot(items: Items, batch: RequestBatch) -> SlotAddends:
    """What `together_of` adds up, one by one."""
    neighbours, B = items.neighbours, len(batch.mask)
    offset = np.zeros(B + 1, np.int32)
    if neighbours.column[TOGETHER] >= 0:
        for b in range(B):
            offset[b + 1] = offset[b]
            for n in range(batch.offset[1, b], batch.offset[1, b + 1]):
                offset[b + 1] += neighbours.length[batch.recent[n]]
    slot, value = np.empty(offset[B], np.int32), np.empty(offset[B], np.float32)
    if len(slot):
        at = 0
        for n in range(batch.offset[1, 0], batch.offset[1, B]):
            start, scale = neighbours.start[batch.recent[n]], scale_of(items.choices[batch.recent[n]])
            for entry in range(start, start + neighbours.length[batch.recent[n]]):
                slot[at], value[at] = neighbours.partner[entry], np.float32(neighbours.together[entry]) * scale
                at += 1
    return SlotAddends(offset, slot, value)


_work_out = unchecked_entry(_worked_out)


class WorkedOut(NamedTuple):
    """What a batch comes down to, before it is parted by shards."""

    question: Question
    batch: RequestBatch
    marks: SlotMarks
    together: SlotAddends

    def part(self, shard: int, shards: int) -> Part:
        """What one of so many shards is asked besides the question."""
        own = np.ascontiguousarray(self.batch.excluded[:, shard::shards])
        added = np.ascontiguousarray(self.batch.added[:, shard::shards])
        slots, kinds, values = own.shape[1], self.marks.kind, self.marks.value
        entries, offset = _own(self.marks.slot, self.marks.offset, shard, shards)
        marks = SlotMarks(offset, self.marks.slot[entries] // shards, kinds[entries], values[entries])
        entries, offset = _own(self.together.slot, self.together.offset, shard, shards)
        together = SlotAddends(offset, self.together.slot[entries] // shards, self.together.value[entries])
        return Part(np.packbits(own, axis=1), slots, added, marks, together)


def _own(slot: Integers, offset: Integers, shard: int, shards: int) -> tuple[Integers, Integers]:
    """Which entries are of a shard's items, and where each request's begin among them."""
    entries = np.flatnonzero(slot % shards == shard).astype(np.int32)
    return entries, np.searchsorted(entries, offset).astype(np.int32)


def worked_out(
    theta: Theta, items: Items, vectors: ItemVectors, batch: RequestBatch, rank_rule: int, clock: int
) -> WorkedOut:
    """What a batch of requests comes down to."""
    folded, marks, together = _work_out(theta, items, vectors, batch)
    column = items.neighbours.column
    cross = np.zeros(len(column), np.float32)
    cross[column >= 0] = theta.w[column[column >= 0]]
    fields = (len(vectors.combination), len(vectors.number))
    answers = batch.offset[3].copy()
    question = Question(folded, cross, items.trends.prior.copy(), answers, batch.mask, batch.rule, fields, rank_rule, clock)
    return WorkedOut(question, batch, marks, together)
