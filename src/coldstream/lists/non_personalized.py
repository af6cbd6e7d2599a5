"""Lists that are the same for all users: similar items, trending items, and the newest items."""

import math

import numpy as np

from coldstream.catalogue.trends import EPSILON
from coldstream.engine.shared_model import SharedModel
from coldstream.errors import InvalidInput, shown
from coldstream.scoring.folding import fold_items
from coldstream.support.arrays import Doubles, Flags, Floats, Integers

EVIDENCE = 10.0
"""Choices of an item at which co-occurrence weighs as much as the similarity of vectors."""


def similar(shared: SharedModel, slot: int, n: int, excluded: Flags) -> list[tuple[int, float]]:
    """Return the items most similar to one, best first: often chosen together with it, or with a similar vector.

    The weight of co-occurrence grows with the number of choices of the item. A new item is compared by its attributes.
    """
    catalogue = shared.catalogue
    items, position = catalogue.items, int(catalogue.items.position[slot])
    choices = max(int(items.choices[slot]), 0)
    together, share = _together(shared, slot), choices / (choices + EVIDENCE)
    score = share * together + (1.0 - share) * _alike(shared, position)
    out = excluded[catalogue.live()] > 0 if len(excluded) else np.zeros(len(score), np.bool_)
    out[position] = True
    return _best(shared, np.where(out, -np.inf, score), n)


def _together(shared: SharedModel, slot: int) -> Doubles:
    """Return by position the cosine of an item's co-occurrence with one: c / √(n m)."""
    items = shared.catalogue.items
    rows, cosine = items.neighbours, np.zeros(items.size)
    if not shared.catalogue.has_neighbours:
        return cosine
    first = int(rows.start[slot])
    entries = slice(first, first + int(rows.length[slot]))
    partner = rows.partner[entries]
    scale = np.sqrt(np.maximum(items.choices[partner], 1) * float(max(items.choices[slot], 1)))
    cosine[items.position[partner]] = np.minimum(rows.together[entries] / scale, 1.0)
    return cosine


def _alike(shared: SharedModel, position: int) -> Doubles:
    """Return by position the cosine of an item's vector with that of one, each summed over id and attributes."""
    Z = item_vectors(shared)
    length = np.sqrt(np.einsum("ij,ij->i", Z, Z))
    cosine: Doubles = (Z @ Z[position]).astype(np.float64) / np.maximum(length * length[position], 1e-12)
    return cosine


def item_vectors(shared: SharedModel) -> Floats:
    """Return by position the sum of the vectors of an item's id and attributes; without the id where it was never chosen."""
    theta, items = shared.machine.parameters.theta, shared.catalogue.items
    Z = np.empty((items.size, theta.V.shape[1]), np.float32)
    fold_items(theta, items, shared.machine.rule.pairs, Z, np.empty(items.size, np.float32))
    unchosen = np.flatnonzero((items.rows.unchosen[: items.size] > 0) & (items.rows.id_column[: items.size] >= 0))
    Z[unchosen] -= theta.V[items.rows.id_column[unchosen]]
    return Z


def trending(shared: SharedModel, half_life: float | None, n: int, excluded: Flags, events: int) -> list[tuple[int, float]]:
    """Return the items chosen most lately with their decaying counts, by the trend whose half-life is nearest."""
    items = shared.catalogue.items
    half_lives = np.log(2.0) / items.trends.rate.astype(np.float64)
    h = _nearest(half_lives, half_life)
    elapsed = (events - items.rows.counted_at[: items.size]).astype(np.float64)
    level = items.rows.level[h, : items.size].astype(np.float64) - items.trends.rate[h] * elapsed
    out = items.rows.unchosen[: items.size] > 0
    if len(excluded):
        out |= excluded[shared.catalogue.live()] > 0
    best = _best(shared, np.where(out, -np.inf, level), n)
    return [(slot, EPSILON * math.exp(own)) for slot, own in best]


def _nearest(half_lives: Doubles, wanted: float | None) -> int:
    """Return the place of the half-life nearest to the wanted one, or of the shortest if none is wanted."""
    if not len(half_lives):
        raise InvalidInput("trending must have a trend to go by, got a schema without any; declare one in it")
    if wanted is None:
        return int(np.argmin(half_lives))
    if isinstance(wanted, bool) or not isinstance(wanted, int | float) or not 0 < wanted < math.inf:
        error = InvalidInput(f"half_life must be a number of events above 0, got {shown(wanted)}")
        error.field = "half_life"
        raise error
    return int(np.argmin(np.abs(np.log(half_lives) - math.log(wanted))))


def newest(shared: SharedModel, n: int, excluded: Flags) -> list[tuple[int, float]]:
    """Return the items that arrived last, the latest first, with their arrival numbers."""
    live, items = shared.catalogue.live(), shared.catalogue.items
    arrival = items.registered_at[live].astype(np.float64)
    return _best(shared, np.where(excluded[live] > 0, -np.inf, arrival) if len(excluded) else arrival, n)


def _best(shared: SharedModel, score: Doubles, n: int) -> list[tuple[int, float]]:
    """Return the slots of the n highest scores, highest first, ties by registration. Scores of −∞ are left out."""
    live = shared.catalogue.live()
    if n < len(score):
        least = np.partition(score, len(score) - n)[len(score) - n]
        place = np.flatnonzero((score >= least) & (score > -np.inf))
    else:
        place = np.flatnonzero(score > -np.inf)
    slots: Integers = live[place]
    order = np.lexsort((shared.catalogue.items.registered_at[slots], -score[place]))[:n]
    return [(int(slots[at]), float(score[place[at]])) for at in order.tolist()]
