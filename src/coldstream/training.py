"""Step 1, batch training: epochs over known events, reshuffled, at the speed of the kernels."""

from collections.abc import Sequence

import numpy as np

from coldstream.arrays import Floats, Integers, Longs
from coldstream.catalogue.contrast import Batch
from coldstream.catalogue.shapes import Items
from coldstream.catalogue.trends import replay_touches
from coldstream.features.sparse import Sparse, joined


def batch_of(
    items: Items, contexts: Sequence[Sparse], slots: Integers, users: Integers, had: Sequence[Integers], clock: int
) -> Batch:
    """Events in order of time, encoded once: contexts, item slots, user numbers, and what each user had in the end."""
    trends = items.trends
    level: Floats = np.zeros((len(slots), len(trends.rate)), np.float32)
    if len(trends.rate):
        copy = trends._replace(level=trends.level.copy(), clock=trends.clock.copy())
        replay_touches(copy, slots, clock, level)
    return Batch(
        offset=_offsets([len(context.column) for context in contexts]),
        x=joined(*contexts),
        slot=slots,
        user=users,
        had_offset=_offsets([len(slots_had) for slots_had in had]),
        had=np.concatenate(had),
        touch_offset=_offsets(np.bincount(slots, minlength=len(items.own)).tolist()),
        touch=np.argsort(slots, kind="stable").astype(np.int32),
        level=level,
        clock=clock,
    )


def _offsets(counts: Sequence[int]) -> Longs:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
