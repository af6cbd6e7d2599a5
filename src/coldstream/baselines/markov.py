"""First-order Markov chain over items."""

import numpy as np

from coldstream.baselines.recent_popularity import DecayedPopularity
from coldstream.baselines.user_past import UserPast
from coldstream.support.arrays import Doubles


class Markov:
    """A scorer by how often an item was chosen right after the user's last item. Recent popularity breaks ties."""

    def __init__(self) -> None:
        self._popularity = DecayedPopularity()
        self._followers: dict[int, dict[int, int]] = {}

    def grow(self, items: int, /) -> None:
        self._popularity.grow(items)

    def scores(self, past: UserPast, /) -> Doubles:
        scores = self._popularity.standings(below=1.0)
        followers = {} if past.last is None else self._followers.get(past.last, {})
        items = np.fromiter(followers.keys(), np.int64, len(followers))
        scores[items] += np.fromiter(followers.values(), np.float64, len(followers))
        return scores

    def learn(self, past: UserPast, item: int, /) -> None:
        if past.last is not None:
            followers = self._followers.setdefault(past.last, {})
            followers[item] = followers.get(item, 0) + 1
        self._popularity.learn(past, item)
