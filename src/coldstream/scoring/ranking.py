"""The best N of all candidates, and the rank of one of them."""

from typing import NamedTuple

import numpy as np

from coldstream.catalogue.shapes import Items
from coldstream.support.arrays import Doubles, Floats, Integers, Longs
from coldstream.support.compiled import inlined, kernel

HIGHEST, CLOSEST_TO_1 = 0, 1
RANK_RULES = {"highest": HIGHEST, "closest-to-1": CLOSEST_TO_1}


class Rank(NamedTuple):
    """The rank of an item: its `position` among the `candidates`. 0 is best, and ties count half."""

    position: float
    candidates: int


class RankRule(NamedTuple):
    """The rule that turns a score into a ranking key; `own` is the request's part of the score, equal for all items."""

    code: int
    own: float


@inlined
def key_of_score(rule: RankRule, score: np.float32) -> float:
    """Return the ranking key of a score; larger is better. In the paper y is 1 for positives: the closest to 1 is best."""
    return float(-abs(rule.own + score - 1.0) if rule.code == CLOSEST_TO_1 else np.float64(score))


class Heap(NamedTuple):
    """The best candidates so far of all requests, one heap per request with the worst candidate at the root."""

    key: Doubles
    registered_at: Longs
    position: Integers
    score: Doubles


@inlined
def offered(
    heap: Heap, first: int, end: int, size: int, rule: RankRule, items: Items, start: int, stop: int, scores: Floats
) -> int:
    """Offer a block of scores to a request's heap, with room from `first` to `end`; return the heap's new size.

    A score of −∞ marks an excluded item.
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
    """Return how many scores of a block could enter the heap: in most blocks none, which vectorized code finds out fast."""
    found = 0
    if rule.code == HIGHEST:
        least = np.float32(worst)  # exact, because the key of this rule is a float32 score
        for n in range(size):
            found += int(scores[n] >= least)
    else:
        for n in range(size):
            found += int(key_of_score(rule, scores[n]) >= worst)
    return found


@inlined
def drained(heap: Heap, first: int, size: int, own: float, slot_of: Integers, slots: Integers) -> None:
    """Sort a request's heap, best first, and write slots and complete scores."""
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
    """Put a candidate into the hole at the end, and move it up above every better parent."""
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
    """Replace the root by a candidate, and move it down below every worse child."""
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
    """Return the rank of a live item by scores per slot, of which the highest is best, and the number of candidates.

    Slots with `choices` of 0 or more are live. `excluded` holds other slots, each once; the item itself is never excluded.
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
