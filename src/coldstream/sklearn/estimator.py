"""Base class of the regressor and the classifier: their parameters, and factorization machines with one encoder."""

from itertools import groupby
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.model.keyed_random import key_of, keys_of, shuffled
from coldstream.model.samples import Samples
from coldstream.sklearn.table import read
from coldstream.sklearn.table_encoder import TableEncoder
from coldstream.support.arrays import Doubles, Longs


class TableEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator for tables of numbers and categories, with one factorization machine per target.

    Numbers are standardized by their running mean and standard deviation; missing values count as absent.

    Parameters
    ----------
    n_factors : int
        Length of each feature's embedding vector; 0 gives a linear model.
    max_iter : int
        Number of passes of `fit` over the data; `partial_fit` makes one, in the order given.
    learning_rate : float
        Step size of AdaGrad, which adapts the rate of each coordinate.
    l2_weight, l2_latent : float
        Initial L2 penalties of the linear weights and of the embedding vectors. They adapt to the data, one per column.
    shuffle : bool
        Whether `fit` shuffles the rows before each pass.
    categorical_features : "from_dtype", or a list of names, positions or flags, or None
        The categorical columns; "from_dtype" takes the columns of a frame that are neither numeric nor temporal.
    random_state : int, RandomState or None
        Seed of the initial vectors and of the shuffles.
    """

    _loss = "squared"

    def __init__(
        self,
        *,
        n_factors: int = 10,
        max_iter: int = 10,
        learning_rate: float = 0.15,
        l2_weight: float = 0.01,
        l2_latent: float = 0.02,
        shuffle: bool = True,
        categorical_features: Any = "from_dtype",
        random_state: Any = None,
    ) -> None:
        self.n_factors = n_factors
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.l2_weight = l2_weight
        self.l2_latent = l2_latent
        self.shuffle = shuffle
        self.categorical_features = categorical_features
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _admitted(self, X: Any, reset: bool) -> Samples:
        """Encode a table and admit its new values; with `reset`, discard the encoder and all machines first."""
        table = read(self, X, self.categorical_features, reset)
        if reset:
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            self._encoder = TableEncoder(table.numbers.shape[1])
            self._machines: list[FactorizationMachine] = []
            self.n_iter_ = 0
        return self._encoder.admit(table)

    def _encoded(self, X: Any) -> Samples:
        check_is_fitted(self)
        return self._encoder.encode(read(self, X, self.categorical_features, reset=False))

    def _learn(self, samples: Samples, targets: list[Doubles], passes: int, shuffle: bool) -> None:
        """Learn samples with one array of targets per machine, creating machines that do not exist yet."""
        while len(self._machines) < len(targets):
            self._machines.append(self._machine())
        self._start()
        for machine, own in zip(self._machines, targets, strict=True):
            for one in range(passes):
                machine.learn_samples(samples, own, self._order(len(own), self.n_iter_ + one, shuffle))
        self.n_iter_ += passes

    def _start(self) -> None:
        """Initialize the parameters of new features in all machines."""
        vocabulary = self._encoder.vocabulary
        new = sorted(vocabulary.unstarted(), key=lambda one: one.field)
        vocabulary.commit()
        for machine in self._machines:
            machine.parameters.grow(len(vocabulary), len(vocabulary.fields))
            for field, group in groupby(new, lambda one: one.field):
                own = list(group)
                keys = keys_of(self._seed, vocabulary.fields[field], [one.value for one in own])
                machine.parameters.start([one.column for one in own], field, keys, machine.samples)

    def _machine(self) -> FactorizationMachine:
        return FactorizationMachine(
            "predictor",
            seed=self._seed,
            vocabulary=self._encoder.vocabulary,
            loss=self._loss,
            factors=self.n_factors,
            learning_rate=self.learning_rate,
            linear_penalty=self.l2_weight,
            factor_penalty=self.l2_latent,
        )

    def _order(self, samples: int, number: int, shuffle: bool) -> Longs:
        if not shuffle:
            return np.arange(samples)
        return shuffled(key_of(self._seed, "pass", str(number)), samples).astype(np.int64)
