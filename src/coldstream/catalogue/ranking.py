"""The best N of the live items, and the rank of one of them."""

from typing import NamedTuple

import numpy as np

from coldstream.arrays import Doubles, Flags, Floats, Integers, Longs
from coldstream.catalogue.shapes import Items
from coldstream.model.compiled import inlined, kernel

HIGHEST, CLOSEST_TO_1 = 0, 1
RANK_RULES = {"highest": HIGHEST, "closest-to-1": CLOSEST_TO_1}


class Rank(NamedTuple):
    """Where an item stands among the candidates: 0 is best, and ties count half."""

    position: float
    candidates: int


class Merit(NamedTuple):
    """How a score becomes a merit; the offset is the request's own part of it, the same for every item."""

    rank_rule: int
    offset: float


@inlined
def _merit(rule: Merit, score: float) -> float:
    """The larger the better. In the paper y is 1 for every positive, so the best is the closest to 1."""
    return -abs(rule.offset + score - 1.0) if rule.rank_rule == CLOSEST_TO_1 else np.float64(score)


@kernel
def best(
    scores: Floats,
    live: Integers,
    born: Longs,
    barred: Flags,
    had: Integers,
    rule: Merit,
    slots: Integers,
    totals: Doubles,
) -> int:
    """Slots and whole scores of the best of all that are neither barred nor had, best first, as many as there is room for.

    Ties go to the earlier registration. Where `barred` is empty, nothing is.
    """
    out = barred.copy() if len(barred) else np.zeros(len(born), np.uint8)
    for entry in range(len(had)):
        out[had[entry]] = 1
    n = len(slots)
    merit = np.empty(n, np.float64)
    place = np.empty(n, np.int32)
    birth = np.empty(n, np.int64)
    heap = Heap(merit, birth, place)  # with the worst at the root
    size, worst = 0, -np.inf
    for position in range(len(live)):
        m = _merit(rule, scores[position])
        if m < worst or out[live[position]]:
            continue
        b = born[live[position]]
        if size < n:
            _rise(heap, size, m, b, position)
            size += 1
        elif _worse(merit[0], birth[0], m, b):
            _sink(heap, size, m, b, position)
        if size == n:
            worst = merit[0]
    found = size
    while size > 0:
        size -= 1
        slots[size] = live[place[0]]
        totals[size] = rule.offset + scores[place[0]]
        _sink(heap, size, merit[size], birth[size], place[size])
    return found


class Heap(NamedTuple):
    """The candidates kept so far."""

    merit: Doubles
    birth: Longs
    place: Integers


@inlined
def _worse(m: float, birth: int, other: float, other_birth: int) -> bool:
    return bool(m < other or (m == other and birth > other_birth))


@inlined
def _write(heap: Heap, hole: int, m: float, birth: int, position: int) -> None:
    heap.merit[hole], heap.birth[hole], heap.place[hole] = m, birth, position


@inlined
def _rise(heap: Heap, hole: int, m: float, birth: int, position: int) -> None:
    """Put a candidate into the hole at the end, or above every parent that is better than it."""
    while hole > 0:
        parent = (hole - 1) // 2
        if not _worse(m, birth, heap.merit[parent], heap.birth[parent]):
            break
        _write(heap, hole, heap.merit[parent], heap.birth[parent], heap.place[parent])
        hole = parent
    _write(heap, hole, m, birth, position)


@inlined
def _sink(heap: Heap, size: int, m: float, birth: int, position: int) -> None:
    """Put a candidate in place of the root, below every child that is worse than it."""
    hole = 0
    while 2 * hole + 1 < size:
        child, other = 2 * hole + 1, 2 * hole + 2
        if other < size and _worse(heap.merit[other], heap.birth[other], heap.merit[child], heap.birth[child]):
            child = other
        if not _worse(heap.merit[child], heap.birth[child], m, birth):
            break
        _write(heap, hole, heap.merit[child], heap.birth[child], heap.place[child])
        hole = child
    _write(heap, hole, m, birth, position)


@kernel
def rank_of(scores: Floats, items: Items, barred: Flags, rule: Merit, slot: int) -> tuple[float, int]:
    """The expected rank of a live item under ties, and the number of candidates; the item itself is never barred."""
    live, own = items.live, 0.0
    for position in range(len(live)):
        if live[position] == slot:
            own = _merit(rule, scores[position])
    better = equal = candidates = 0
    for position in range(len(live)):
        if live[position] != slot and not barred[live[position]]:
            m = _merit(rule, scores[position])
            better += int(m > own)
            equal += int(m == own)
            candidates += 1
    return better + 0.5 * equal, candidates + 1


@kernel
def rank_by(scores: Doubles, live: Integers, barred: Flags, slot: int) -> tuple[float, int]:
    """What `rank_of` answers, for numbers per slot of which the highest is the best."""
    better = equal = candidates = 0
    for position in range(len(live)):
        other = live[position]
        if other != slot and not barred[other]:
            better += int(scores[other] > scores[slot])
            equal += int(scores[other] == scores[slot])
            candidates += 1
    return better + 0.5 * equal, candidates + 1
