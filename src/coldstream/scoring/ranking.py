"""The best N of all candidates, and the rank of one of them."""

from typing import NamedTuple

import numpy as np

from coldstream.catalogue.shapes import Items
from coldstream.support.arrays import Doubles, Floats, Integers, Longs
from coldstream.support.compiled import inlined, kernel

HIGHEST, CLOSEST_TO_1 = 0, 1
RANK_RULES = {"highest": HIGHEST, "closest-to-1": CLOSEST_TO_1}


class Rank(NamedTuple):
    """The `position` at which an item stands among the candidates: 0 is best, and ties count half."""

    position: float
    candidates: int


class RankRule(NamedTuple):
    """How a score becomes the key that items are ranked by; `own` is the request's part of it, the same for every item."""

    code: int
    own: float


@inlined
def key_of_score(rule: RankRule, score: np.float32) -> float:
    """The larger the better. In the paper y is 1 for every positive, so the best is the closest to 1."""
    return float(-abs(rule.own + score - 1.0) if rule.code == CLOSEST_TO_1 else np.float64(score))


class Heap(NamedTuple):
    """The candidates kept so far of every request, each request's with the worst at the root."""

    key: Doubles
    registered_at: Longs
    position: Integers
    score: Doubles


@inlined
def offered(
    heap: Heap, first: int, end: int, size: int, rule: RankRule, items: Items, start: int, stop: int, scores: Floats
) -> int:
    """Offer a block of scores to a request's heap, which has room from `first` to `end`; how many are in it now.

    A score of −∞ is that of an excluded item.
    """
    full = size == end - first
    worst = heap.key[first] if full and size else -np.inf
    if end == first:
        return 0
    if not _promising(rule, scores, stop - start, worst):
        return size
    for n in range(stop - start):
        key = key_of_score(rule, scores[n])
        if key < worst or scores[n] == np.float32(-np.inf):
            continue
        registered_at = items.registered_at[items.rows.slot[start + n]]
        if size < end - first:
            _rise(heap, first, size, key, registered_at, start + n, scores[n])
            size += 1
        elif _worse(heap.key[first], heap.registered_at[first], key, registered_at):
            _sink(heap, first, size, key, registered_at, start + n, scores[n])
        if size == end - first:
            worst = heap.key[first]
    return size


@inlined
def _promising(rule: RankRule, scores: Floats, size: int, worst: float) -> int:
    """How many of a block could be kept: most blocks have none, which vectors find out fast."""
    found = 0
    if rule.code == HIGHEST:
        least = np.float32(worst)  # it was a score, so nothing is lost
        for n in range(size):
            found += int(scores[n] >= least)
    else:
        for n in range(size):
            found += int(key_of_score(rule, scores[n]) >= worst)
    return found


@inlined
def drained(heap: Heap, first: int, size: int, own: float, slot_of: Integers, slots: Integers) -> None:
    """Sort a request's heap, best first, and leave the slots beside the whole scores."""
    for last in range(first + size - 1, first - 1, -1):
        key, registered_at, position, score = heap.key[last], heap.registered_at[last], heap.position[last], heap.score[last]
        best, total = heap.position[first], own + heap.score[first]
        _sink(heap, first, last - first, key, registered_at, position, score)
        slots[last], heap.score[last] = slot_of[best], total


@inlined
def _worse(key: float, registered_at: int, other: float, other_registered_at: int) -> bool:
    return bool(key < other or (key == other and registered_at > other_registered_at))


@inlined
def _write(heap: Heap, at: int, key: float, registered_at: int, position: int, score: float) -> None:
    heap.key[at], heap.registered_at[at], heap.position[at], heap.score[at] = key, registered_at, position, score


@inlined
def _rise(heap: Heap, first: int, hole: int, key: float, registered_at: int, position: int, score: float) -> None:
    """Put a candidate into the hole at the end, or above every parent that is better than it."""
    while hole > 0:
        parent = (hole - 1) // 2
        at = first + parent
        if not _worse(key, registered_at, heap.key[at], heap.registered_at[at]):
            break
        _write(heap, first + hole, heap.key[at], heap.registered_at[at], heap.position[at], heap.score[at])
        hole = parent
    _write(heap, first + hole, key, registered_at, position, score)


@inlined
def _sink(heap: Heap, first: int, size: int, key: float, registered_at: int, position: int, score: float) -> None:
    """Put a candidate in place of the root, below every child that is worse than it."""
    hole = 0
    while 2 * hole + 1 < size:
        child = first + 2 * hole + 1
        if 2 * hole + 2 < size and _worse(
            heap.key[child + 1], heap.registered_at[child + 1], heap.key[child], heap.registered_at[child]
        ):
            child += 1
        if not _worse(heap.key[child], heap.registered_at[child], key, registered_at):
            break
        _write(heap, first + hole, heap.key[child], heap.registered_at[child], heap.position[child], heap.score[child])
        hole = child - first
    _write(heap, first + hole, key, registered_at, position, score)


@kernel
def rank_by(scores: Doubles, choices: Integers, excluded: Integers, slot: int) -> tuple[float, int]:
    """The rank of a live item by numbers per slot of which the highest is the best; itself it is never excluded.

    Live are the slots whose choices are counted. `excluded` has slots of others, each once.
    """
    own, better, equal, candidates = scores[slot], 0, 0, 0
    for other in range(len(scores)):
        live = choices[other] >= 0
        candidates += int(live)
        better += int(live and scores[other] > own)
        equal += int(live and scores[other] == own)
    for n in range(len(excluded)):
        other = excluded[n]
        if choices[other] >= 0 and other != slot:
            candidates -= 1
            better -= int(scores[other] > own)
            equal -= int(scores[other] == own)
    return better + 0.5 * (equal - 1), candidates
