"""Derived features as a scan adds them: trends and cross features.

Callers do not give their values; they follow from the choices. Each kind of them is implemented in three places: the value
for one item (`catalogue/trends.py` `value_at`, `catalogue/cross_features.py` `features_of`), what it adds to a block of
scores (here), and what a choice counts (`catalogue/contrast.py` `count_choice`). The first two give the same bits.
"""

from typing import NamedTuple

import numpy as np

from coldstream.catalogue.cross_features import AGAIN, FOLLOWS, TOGETHER, closeness, log_count, scale_of
from coldstream.catalogue.shapes import Items
from coldstream.catalogue.trends import trend_value
from coldstream.model.shapes import Theta
from coldstream.model.vectors import dots
from coldstream.scoring.blocks import BLOCK, EXCLUDED, Marks, Room, bucketed
from coldstream.scoring.requests import RequestBatch
from coldstream.support.arrays import Floats
from coldstream.support.compiled import inlined


class Derived(NamedTuple):
    """Values for the derived features that are computed once per request."""

    trend: Floats  # (B, H): t = w + ⟨q, v⟩ of each trend
    together: Floats  # (B, L): Σ c/√n over the user's recent items


@inlined
def prepare_derived(theta: Theta, items: Items, batch: RequestBatch, q: Floats) -> Derived:
    """Compute the values that each request needs for the derived features of all items."""
    H = len(items.trends.rate)
    trend = np.empty((len(batch.mask), H), np.float32)
    for b in range(len(batch.mask)):
        dots(theta.V, items.trends.column, 0, H, q[b], trend[b])
        for h in range(H):
            trend[b, h] += theta.w[items.trends.column[h]]
    return Derived(trend, _together(items, batch))


@inlined
def _together(items: Items, batch: RequestBatch) -> Floats:
    """Return how often each item was chosen together with the recent ones; dense for small catalogues, sparse for large."""
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
                    # Unsigned, which saves the check whether an index counts from the end.
                    own[np.uint32(position[np.uint32(partner[entry])])] += np.float32(together[entry]) * scale
    return out


# A kind of mark beside the cross features: the item is excluded.
OUT = 3


@inlined
def marks_of(items: Items, batch: RequestBatch, b: int) -> Marks:
    """Return marks for the items that followed the user's last item, and for those that the user had."""
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
                    at[found], kind[found], value[found] = position[batch.seen[n]], OUT, np.float32(0.0)
                    found += 1
    return bucketed(items.size, Marks(np.empty(0, np.int32), at[:found], kind[:found], value[:found]))


@inlined
def begin_block(items: Items, start: int, stop: int, clock: int, room: Room) -> None:
    """Compute what all requests share in a block: the values of its trends, and its items' choices."""
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
def add_trends(
    derived: Derived, trend_product: Floats, trend_pair: Floats, b: int, start: int, stop: int, room: Room
) -> None:
    """Add the trends to a block of scores, and their pairs with other item features where those count."""
    size, score = stop - start, room.score
    for h in range(room.trend.shape[0]):
        trend, t = room.trend[h], derived.trend[b, h]
        for n in range(size):
            score[n] += trend[n] * t
    for h in range(trend_product.shape[0]):
        trend, product = room.trend[h], trend_product[h, start:stop]
        for n in range(size):
            score[n] += trend[n] * product[n]
        for g in range(h + 1):
            other, t = room.trend[g], trend_pair[h, g]
            for n in range(size):
                score[n] += trend[n] * other[n] * t


@inlined
def add_cross_features(
    theta: Theta, items: Items, derived: Derived, b: int, marks: Marks, start: int, stop: int, room: Room
) -> None:
    """Add the features `together`, `follows` and `again` to a block of scores."""
    if derived.together.shape[1]:
        _add_together(theta.w[items.neighbours.column[TOGETHER]], derived.together[b, start:stop], room)
    _add_marked(theta, items, marks, start, room)


@inlined
def _add_together(weight: np.float32, together: Floats, room: Room) -> None:
    """Add the feature `together` to a block of scores."""
    found = 0
    for n in range(len(together)):
        found += int(together[n] > np.float32(0.0))
    if 8 * found > len(together):
        for n in range(len(together)):
            room.score[n] += weight * closeness(together[n], room.choices[n])
    elif found:  # few items: one by one is faster than the whole block on vectors
        for n in range(len(together)):
            if together[n] > np.float32(0.0):
                room.score[n] += weight * closeness(together[n], room.choices[n])


@inlined
def _add_marked(theta: Theta, items: Items, marks: Marks, start: int, room: Room) -> None:
    """Add the features `follows` and `again` to a block of scores."""
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


@inlined
def exclude_marked(marks: Marks, start: int, room: Room) -> None:
    """Exclude the items that the user had from a block."""
    block = start // BLOCK
    for entry in range(marks.start[block], marks.start[block + 1]):
        if marks.kind[entry] == OUT:
            room.score[marks.position[entry]] = EXCLUDED
