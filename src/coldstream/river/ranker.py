"""Contextual ranker of items for River."""

from collections.abc import Collection, Hashable, Iterable
from typing import Any

from river.reco.base import Ranker

from coldstream.model.factorization_machine import FactorizationMachine, NamedFeature
from coldstream.river.sample_encoder import SampleEncoder
from coldstream.river.target_scale import TargetScale


class FMRanker(Ranker):
    """A ranker of items by the reward that a factorization machine predicts from user, item and context.

    A context is a dictionary of features of the kinds that `FMRegressor` takes. To rank a whole catalogue, with attributes
    of items and histories of users, use `coldstream.Recommender`.

    Parameters
    ----------
    n_factors
        Length of each feature's embedding vector; 0 gives a linear model.
    learning_rate
        Step size of AdaGrad, which adapts the rate of each coordinate.
    l2_weight
        Initial L2 penalty of the linear weights. Penalties adapt to the stream, one per field.
    l2_latent
        Initial L2 penalty of the embedding vectors.
    adagrad_window
        Number of updates of a parameter that AdaGrad remembers, with decay; 0 remembers all updates.
    ids
        Names of context features that are categories even if their values are whole numbers.
    seed
        Seed of the initial vectors.

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
        """Always True: the ranker learns from a context."""
        return True

    def learn_one(self, user: Hashable, item: Hashable, y: Any, x: dict[Hashable, Any] | None = None) -> None:
        """Learn that a user gave the reward y for an item in the context x."""
        context = {} if x is None else x
        scale, powers = self._scale.with_target(y), self._context.widened(context)
        features = self._pair.encode({"user": user, "item": item}) + _renamed(self._context.admit(context, powers))
        self._machine.learn_features(features, scale.scaled(float(y)))
        self._scale = scale
        self._context.take(powers)

    def predict_one(self, user: Hashable, item: Hashable, x: dict[Hashable, Any] | None = None) -> float:  # type: ignore[override]
        """Predict the reward of an item for a user in the context x."""
        features = self._pair.encode({"user": user, "item": item}) + _renamed(self._context.encode({} if x is None else x))
        return self._scale.target(self._machine.predict_features(features))

    def rank(self, user: Hashable, items: Iterable[Hashable], x: dict[Hashable, Any] | None = None) -> list[Hashable]:
        """Sort items by predicted reward, best first; ties by name, so that the order of a set has no effect."""
        context = _renamed(self._context.encode({} if x is None else x))
        expected = {
            item: self._machine.predict_features(self._pair.encode({"user": user, "item": item}) + context) for item in items
        }
        return sorted(expected, key=lambda item: (-expected[item], str(item)))


def _renamed(features: list[NamedFeature]) -> list[NamedFeature]:
    """Prefix the names of context features, so that none is `user` or `item`."""
    return [(f"context.{name}", value, weight) for name, value, weight in features]
