"""The best N of the live items, and the rank of one of them."""

from typing import NamedTuple

import numpy as np

from coldstream.arrays import Flags, Floats, Integers
from coldstream.catalogue.kernels import CLOSEST_TO_1
from coldstream.model.compiled import inlined, kernel


class Rank(NamedTuple):
    """Where an item stands among the candidates: 0 is best, and ties count half."""

    position: float
    candidates: int


@inlined
def _merit(rank_rule: int, score: np.float32) -> np.float32:
    """The larger the better. In the paper y is 1 for every positive, so the best is the closest to 1."""
    return -abs(score - np.float32(1.0)) if rank_rule == CLOSEST_TO_1 else score


@kernel
def best(scores: Floats, live: Integers, barred: Flags, rank_rule: int, n: int) -> Integers:
    """Positions in `live` of the best n that are not barred, best first; ties go to the earlier registration."""
    merit = np.empty(n, np.float32)
    place = np.empty(n, np.int32)
    size = 0
    # A heap with the worst at the root: smaller merit, or the later of equals.
    for position in range(len(live)):
        m = _merit(rank_rule, scores[position])
        if (size == n and not m > merit[0]) or barred[live[position]]:
            continue
        if size < n:
            hole = size
            size += 1
            while hole > 0 and not m > merit[(hole - 1) // 2]:
                merit[hole], place[hole] = merit[(hole - 1) // 2], place[(hole - 1) // 2]
                hole = (hole - 1) // 2
        else:
            hole = _sink(merit, place, size, m, position)
        merit[hole], place[hole] = m, position
    ordered = np.empty(size, np.int32)
    while size > 0:
        size -= 1
        ordered[size] = place[0]
        m, position = merit[size], place[size]
        hole = _sink(merit, place, size, m, position)
        merit[hole], place[hole] = m, position
    return ordered


@inlined
def _sink(merit: Floats, place: Integers, size: int, m: np.float32, position: int) -> int:
    """Where (m, position) belongs once the root is gone; moves worse children up on the way."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            return hole
        other = child + 1
        if other < size and _worse(merit[other], place[other], merit[child], place[child]):
            child = other
        if not _worse(merit[child], place[child], m, position):
            return hole
        merit[hole], place[hole] = merit[child], place[child]
        hole = child


@inlined
def _worse(m: np.float32, position: int, other: np.float32, other_position: int) -> bool:
    return bool(m < other or (m == other and position > other_position))


@kernel
def rank_of(scores: Floats, live: Integers, barred: Flags, rank_rule: int, slot: int) -> tuple[float, int]:
    """The expected rank of a live item under ties, and the number of candidates; the item itself is never barred."""
    own = np.float32(0.0)
    for position in range(len(live)):
        if live[position] == slot:
            own = _merit(rank_rule, scores[position])
    better = equal = candidates = 0
    for position in range(len(live)):
        if live[position] != slot and not barred[live[position]]:
            m = _merit(rank_rule, scores[position])
            better += int(m > own)
            equal += int(m == own)
            candidates += 1
    return better + 0.5 * equal, candidates + 1
