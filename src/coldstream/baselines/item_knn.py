"""Item-based k-nearest neighbours: items score by their similarity to those that the user had."""

import math

import numpy as np

from coldstream.baselines.pair_counts import PairCounts, PairRows
from coldstream.baselines.parameter import checked_number
from coldstream.baselines.recent_popularity import DecayedPopularity
from coldstream.baselines.user_past import UserPast
from coldstream.support.arrays import Doubles, Longs, grown
from coldstream.support.compiled import kernel

TIE = 1e-7
"""Upper bound of the tie-breaking term: scores differ by less only through rounding, never through counts."""


class ItemKnn:
    """A scorer by the sum of an item's similarities to all items that the user had. Recent popularity breaks ties.

    If nᵢ users had item i, nⱼ had item j and nᵢⱼ had both, the similarity is nᵢⱼ / (√(nᵢnⱼ) + shrinkage). The r-th latest
    item of the user has the weight r^−recency. With shrinkage 0 and recency 0 the score is the plain sum of cosines.
    """

    def __init__(self, shrinkage: float = 20.0, recency: float = 1.0) -> None:
        self._shrinkage = checked_number("shrinkage", shrinkage)
        self._recency = checked_number("recency", recency)
        self._popularity = DecayedPopularity()
        self._counts = PairCounts()
        self._roots: Doubles = np.empty(0, np.float64)
        self._items = 0

    def grow(self, items: int, /) -> None:
        self._counts.grow(items)
        # An item without users has no similarities, so its root may be any number but 0.
        self._roots = grown(self._roots, items, 1.0)
        self._popularity.grow(items)
        self._items = items

    def scores(self, past: UserPast, /) -> Doubles:
        roots = self._roots[: self._items]
        scores = _similarities(self._counts.rows, roots, past.distinct, past.weights(self._recency), self._shrinkage)
        scores += self._popularity.standings(below=TIE)
        return scores

    def learn(self, past: UserPast, item: int, /) -> None:
        if item not in past:
            self._roots[item] = math.sqrt(self._counts.add(past.distinct, item))
        self._popularity.learn(past, item)


@kernel
def _similarities(counts: PairRows, roots: Doubles, had: Longs, weights: Doubles, shrinkage: float) -> Doubles:
    """Sum weighted similarities, in the order of the user's items, so that the bits are those of a dense matrix."""
    total = np.zeros(len(roots), np.float64)
    for h in range(len(had)):
        root, weight, start = roots[had[h]], weights[h], counts.start[had[h]]
        for place in range(start, start + counts.length[had[h]]):
            item = counts.item[place]
            total[item] += weight * counts.users[place] / (root * roots[item] + shrinkage)
    return total
