"""Items ranked for a user, by the reward that is expected of each."""

from collections.abc import Collection, Hashable, Iterable
from typing import Any

from river.reco.base import Ranker

from coldstream.model.factorization_machine import FactorizationMachine, NamedFeature
from coldstream.river.sample_encoder import SampleEncoder
from coldstream.river.target_scale import TargetScale


class FMRanker(Ranker):
    """Ranks items by the reward that a factorization machine of user, item and context expects.

    A context is a dictionary of features, as `FMRegressor` takes them. Where a whole catalogue is to be ranked, with
    attributes of items and with history, use `coldstream.Recommender`.

    Parameters
    ----------
    n_factors
        Length of every feature's vector; 0 leaves a linear model.
    learning_rate
        Step of AdaGrad, which gives every coordinate a rate of its own.
    l2_weight
        Where the penalty of weights begins. Penalties adapt to the stream, one for every field.
    l2_latent
        Where the penalty of vectors begins.
    adagrad_window
        How many updates of a parameter AdaGrad remembers, the older the less; 0 is all of them.
    ids
        Names of features of the context that are categories, also where their values are whole numbers.
    seed
        What all first vectors follow from.

    Examples
    --------
    >>> from coldstream.river import FMRanker
    >>> model = FMRanker(n_factors=4)
    >>> for _ in range(50):
    ...     model.learn_one(user="Tom", item="music", y=True)
    ...     model.learn_one(user="Tom", item="sports", y=False)
    >>> model.rank("Tom", {"sports", "music"})
    ['music', 'sports']
    """

    def __init__(
        self,
        n_factors: int = 10,
        learning_rate: float = 0.15,
        l2_weight: float = 0.01,
        l2_latent: float = 0.02,
        adagrad_window: float = 0.0,
        ids: Collection[Hashable] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.n_factors = n_factors
        self.learning_rate = learning_rate
        self.l2_weight = l2_weight
        self.l2_latent = l2_latent
        self.adagrad_window = adagrad_window
        self.ids = ids
        self._context = SampleEncoder(() if ids is None else ids)
        self._pair = SampleEncoder(("user", "item"))
        self._scale = TargetScale()
        self._machine = FactorizationMachine(
            "predictor",
            seed=seed,
            factors=n_factors,
            learning_rate=learning_rate,
            linear_penalty=l2_weight,
            factor_penalty=l2_latent,
            adagrad_window=adagrad_window,
        )

    @property
    def is_contextual(self) -> bool:
        """That it learns from a context."""
        return True

    def learn_one(self, user: Hashable, item: Hashable, y: Any, x: dict[Hashable, Any] | None = None) -> None:
        """Learn that an item brought the reward y from a user in a context x."""
        context = {} if x is None else x
        scale, powers = self._scale.with_target(y), self._context.widened(context)
        features = self._pair.encode({"user": user, "item": item}) + _renamed(self._context.admit(context, powers))
        self._machine.learn_features(features, scale.scaled(float(y)))
        self._scale = scale
        self._context.take(powers)

    def predict_one(self, user: Hashable, item: Hashable, x: dict[Hashable, Any] | None = None) -> float:  # type: ignore[override]
        """The reward that is expected of an item for a user in a context x."""
        features = self._pair.encode({"user": user, "item": item}) + _renamed(self._context.encode({} if x is None else x))
        return self._scale.target(self._machine.predict_features(features))

    def rank(self, user: Hashable, items: Iterable[Hashable], x: dict[Hashable, Any] | None = None) -> list[Hashable]:
        """The items, best first; equals in the order of their names, so that the order of a set makes no difference."""
        context = _renamed(self._context.encode({} if x is None else x))
        expected = {
            item: self._machine.predict_features(self._pair.encode({"user": user, "item": item}) + context) for item in items
        }
        return sorted(expected, key=lambda item: (-expected[item], str(item)))


def _renamed(features: list[NamedFeature]) -> list[NamedFeature]:
    """Features of a context under names that neither the user nor the item has."""
    return [(f"context.{name}", value, weight) for name, value, weight in features]
