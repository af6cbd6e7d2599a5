"""Random scores, the baseline of chance."""

import numpy as np

from coldstream.baselines.user_past import UserPast
from coldstream.model.factorization_machine import checked_seed
from coldstream.model.keyed_random import hashed, key_of
from coldstream.support.arrays import Doubles
from coldstream.support.compiled import kernel


class Random:
    """A scorer with random scores, redrawn after each event: a function of the seed, the event's number and the item."""

    def __init__(self, seed: int) -> None:
        self._key = key_of(checked_seed(seed), "random")
        self._items = 0
        self._events = 0

    def grow(self, items: int, /) -> None:
        self._items = items

    def scores(self, _: UserPast, /) -> Doubles:
        return _drawn(self._key, self._events, self._items)

    def learn(self, _: UserPast, __: int, /) -> None:
        self._events += 1


@kernel
def _drawn(key: np.uint64, event: int, items: int) -> Doubles:
    own = hashed(key, event)
    drawn = np.empty(items, np.float64)
    for item in range(items):
        drawn[item] = hashed(own, item)
    return drawn
