"""Binary classifier for River."""

from collections.abc import Collection, Hashable
from typing import Any

from river import base

from coldstream.errors import InvalidInput, shown
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.river.sample_encoder import SampleEncoder
from coldstream.support.arrays import plain


class FMClassifier(base.Classifier):
    """A factorization machine for two classes, True and False; for more there is River's `OneVsRestClassifier`.

    Features and parameters are those of `FMRegressor`.

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
    >>> from coldstream.river import FMClassifier
    >>> model = FMClassifier(n_factors=4)
    >>> for _ in range(50):
    ...     model.learn_one({"user": "Alice", "film": "Superman"}, True)
    ...     model.learn_one({"user": "Alice", "film": "Notting Hill"}, False)
    >>> model.predict_one({"user": "Alice", "film": "Superman"})
    True
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
        self._machine = FactorizationMachine(
            "predictor",
            seed=seed,
            loss="logistic",
            factors=n_factors,
            learning_rate=learning_rate,
            linear_penalty=l2_weight,
            factor_penalty=l2_latent,
            adagrad_window=adagrad_window,
        )

    def learn_one(self, x: dict[Hashable, Any], y: Any) -> None:
        """Learn that x has the class y, which is True, False, 1 or 0; raise `InvalidInput` for another y."""
        label = plain(y)
        if not isinstance(label, bool | int | float) or label not in (0, 1):
            remedy = "wrap it in river.multiclass.OneVsRestClassifier for other classes"
            raise InvalidInput(f"y must be True or False, got {shown(y)}; {remedy}")
        powers = self._encoder.widened(x)
        self._machine.learn_features(self._encoder.admit(x, powers), float(label))
        self._encoder.take(powers)

    def predict_proba_one(self, x: dict[Hashable, Any], **kwargs: Any) -> dict[Any, float]:  # noqa: ARG002
        """Return the probabilities of False and True for x; unknown features count as absent, and `kwargs` are ignored."""
        likely = self._machine.predict_features(self._encoder.encode(x))
        return {False: 1.0 - likely, True: likely}
