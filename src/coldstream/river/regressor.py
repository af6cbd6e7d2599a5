"""Regressor for River."""

from collections.abc import Collection, Hashable
from typing import Any

from river import base

from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.river.sample_encoder import SampleEncoder
from coldstream.river.target_scale import TargetScale


class FMRegressor(base.Regressor):
    """A factorization machine for regression.

    Strings are categories, numbers are numeric features, and a list of strings is several categories at once. Numbers
    beyond ±10 are divided by a power of ten; a `StandardScaler` before the model scales them better. Targets are
    standardized by their running mean and standard deviation, so they may have any scale.

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
        Names of features that are categories even if their values are whole numbers.
    seed
        Seed of the initial vectors.

    Examples
    --------
    >>> from coldstream.river import FMRegressor
    >>> model = FMRegressor(n_factors=4, ids=["user"])
    >>> for _ in range(50):
    ...     model.learn_one({"user": 1, "film": "Superman"}, 8)
    ...     model.learn_one({"user": 2, "film": "Superman"}, 3)
    >>> round(model.predict_one({"user": 1, "film": "Superman"}))
    8
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
        self.n_factors = n_factors
        self.learning_rate = learning_rate
        self.l2_weight = l2_weight
        self.l2_latent = l2_latent
        self.adagrad_window = adagrad_window
        self.ids = ids
        self.seed = seed
        self._encoder = SampleEncoder(() if ids is None else ids)
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

    def learn_one(self, x: dict[Hashable, Any], y: Any) -> None:
        """Learn the target y of the features x; raise `InvalidInput` unless y is a finite number."""
        scale, powers = self._scale.with_target(y), self._encoder.widened(x)
        self._machine.learn_features(self._encoder.admit(x, powers), scale.scaled(float(y)))
        self._scale = scale
        self._encoder.take(powers)

    def predict_one(self, x: dict[Hashable, Any]) -> float:
        """Predict the target of the features x; unknown features count as absent."""
        return self._scale.target(self._machine.predict_features(self._encoder.encode(x)))
