"""Regression."""

from collections.abc import Collection, Hashable
from typing import Any

from river import base

from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.river.sample_encoder import SampleEncoder
from coldstream.river.target_scale import TargetScale


class FMRegressor(base.Regressor):
    """A factorization machine for regression.

    Strings are categories, numbers are numbers, and lists of strings several categories at once. Numbers beyond 10 are
    divided by a power of ten; better put a `StandardScaler` before it. Targets are learned as deviations from their running
    mean, so they may be of any size.

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
        Names of features that are categories, also where their values are whole numbers.
    seed
        What all first vectors follow from.

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
        """Learn that x came with the target y."""
        scale, powers = self._scale.with_target(y), self._encoder.widened(x)
        self._machine.learn_features(self._encoder.admit(x, powers), scale.scaled(float(y)))
        self._scale = scale
        self._encoder.take(powers)

    def predict_one(self, x: dict[Hashable, Any]) -> float:
        """The expected target of x; features that are not known count as absent."""
        return self._scale.target(self._machine.predict_features(self._encoder.encode(x)))
