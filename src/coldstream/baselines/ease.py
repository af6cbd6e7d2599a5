"""EASE (Steck 2019), updated exactly with each event."""

from collections.abc import Sequence

from coldstream.baselines.inverse import GramInverse
from coldstream.baselines.parameter import checked_number
from coldstream.baselines.recent_popularity import DecayedPopularity
from coldstream.baselines.user_past import UserPast
from coldstream.support.arrays import Doubles

TIE = 1e-10
"""Upper bound of the tie-breaking term: scores that differ by less may differ by rounding only, and count as equal."""


class Ease:
    """The linear model that predicts each item from all others, in closed form. Recent popularity breaks ties.

    With P = (XᵀX + penalty·I)⁻¹ for the users × items matrix X of zeros and ones, item i adds Bᵢⱼ = −Pᵢⱼ / Pⱼⱼ to the score
    of item j, and 0 to its own. The r-th latest item of the user has the weight r^−recency; the published EASE has recency
    0, so that all items weigh the same.
    """

    def __init__(self, penalty: float = 300.0, recency: float = 0.0) -> None:
        self._recency = checked_number("recency", recency)
        self._inverse = GramInverse(checked_number("penalty", penalty, lowest=1e-3))
        self._popularity = DecayedPopularity()

    def grow(self, items: int, /) -> None:
        self._inverse.grow(items)
        self._popularity.grow(items)

    def train(self, choices: Sequence[tuple[UserPast, int]], /) -> None:
        self._inverse.start({id(past): past.distinct for past, _ in choices}.values())
        for past, item in choices:
            self._popularity.learn(past, item)

    def scores(self, past: UserPast, /) -> Doubles:
        weights = past.weights(self._recency)
        scores = self._popularity.standings(below=TIE)
        scores -= self._inverse.times(past.distinct, weights) / self._inverse.diagonal
        scores[past.distinct] += weights
        return scores

    def learn(self, past: UserPast, item: int, /) -> None:
        if item not in past:
            self._inverse.gain(past.distinct, item)
        self._popularity.learn(past, item)
