"""The incremental factorization machine."""

import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coldstream.config import Hyperparameters, preset
from coldstream.errors import Diverged, InvalidInput, InvalidSnapshot, shown
from coldstream.features.fields import Categories, Category, Number
from coldstream.features.sparse import Sparse, sparse
from coldstream.features.vocabulary import Admission, Vocabulary
from coldstream.model import losses
from coldstream.model.kernels import fold, learn, predict
from coldstream.model.keyed_random import keys_of
from coldstream.model.parameters import Parameters
from coldstream.model.samples import Samples, learn_samples, predict_samples
from coldstream.model.shapes import OPTIMIZERS, PAIRS, REGULARIZATIONS, Candidates, UpdateRule
from coldstream.snapshots.archive import NOT_WHAT_IT_SHOULD_BE, read_snapshot, write_snapshot
from coldstream.support.arrays import Doubles, Floats, Longs, plain, saved_count
from coldstream.support.compiled import unchecked_entry

LARGEST_NUMBER = 10.0
"""Largest absolute value of a numeric feature in `learn_one`. Two features of 10 make a pair 100 times as large as two of
1."""
LARGEST_TARGET = 100.0
"""Largest absolute target. A step of AdaGrad moves a prediction by tenths, so larger targets would not be reached."""

NamedFeature: TypeAlias = tuple[str, str, float]
"""A feature of a plain sample: field, value, weight. The value is "" for a number; for a category it is "=" and the name."""

_NAMES_OF_IDS = re.compile(r"(?:^|_)(?:id|user|item)$|[a-z](?:Id|ID)$")
_NOTHING = Candidates(np.zeros(2, np.int32), sparse([], []))
_learn, _predict = unchecked_entry(learn), unchecked_entry(predict)


class FactorizationMachine:
    """Incremental factorization machine: regression, classification and ranking on sparse features, one sample at a time.

    Static and incremental matrix factorization and factorization machines are configurations of it: a `preset` with some
    `hyperparameters` changed. The initial vectors follow from the `seed`. A `vocabulary` may be shared with other objects.

    Numbers are quantities and should be scaled to about 1; a number beyond ±10 or a target beyond ±100 raises
    `InvalidInput`. Give ids as strings, even if they consist of digits.

    >>> machine = FactorizationMachine("predictor", seed=7, factors=4, learning_rate=0.2)
    >>> for _ in range(100):
    ...     machine.learn_one({"city": "Kyoto", "rooms": 2.0}, 1.5)
    ...     machine.learn_one({"city": "Osaka", "rooms": 2.0}, 0.5)
    >>> round(machine.predict_one({"city": "Kyoto", "rooms": 2.0}), 1)
    1.5
    """

    def __init__(
        self,
        preset: str | Hyperparameters = "predictor",
        seed: int = 0,
        vocabulary: Vocabulary | None = None,
        **hyperparameters: Any,
    ) -> None:
        self.hyperparameters = resolve_hyperparameters(preset, **hyperparameters)
        self.seed = checked_seed(seed)
        self.vocabulary = Vocabulary() if vocabulary is None else vocabulary
        self.parameters = Parameters(self.hyperparameters)
        self.rule = rule_of(self.hyperparameters)
        self.samples = 0
        """Number of samples learned."""

    def __repr__(self) -> str:
        h, vocabulary = self.hyperparameters, self.vocabulary
        known = f"{self.samples:,} samples, {vocabulary.features():,} features in {len(vocabulary.fields):,} fields"
        return f"<FactorizationMachine: {known}; loss={h.loss!r}, factors={h.factors}, seed={self.seed}>"

    # Samples as dictionaries of features

    def predict_one(self, x: Mapping[str, Any]) -> float:
        """Return the expected target of `x`: a number, or a probability under the logistic loss.

        Unknown features count as absent.
        """
        return self.predict_features(_described(x))

    def learn_one(self, x: Mapping[str, Any], y: float) -> None:
        """Learn the sample `x` with target `y`: numbers are weights, strings are one-hot, lists of strings multi-hot."""
        self.learn_features(_described(x), y)

    def predict_features(self, features: Sequence[NamedFeature]) -> float:
        """Return the prediction of `predict_one` for encoded `features`, each given once, without validating them."""
        self._require_samples()
        columns = self.vocabulary.find_named(features)
        weights = [weight for _, _, weight in features]
        if None in columns:
            known = [n for n, column in enumerate(columns) if column is not None]
            columns, weights = [columns[n] for n in known], [weights[n] for n in known]
        score = float(_predict(self.parameters.theta, self.rule.pairs, sparse(columns, weights)))  # type: ignore[arg-type]
        return losses.sigmoid(score) if self.hyperparameters.loss == "logistic" else score

    def learn_features(self, features: Sequence[NamedFeature], y: float) -> None:
        """Learn `features` that are already encoded, each given once, with target `y`. Only `y` is validated."""
        self._require_samples()
        target, vocabulary = self._checked_target(y), self.vocabulary
        weights = [weight for _, _, weight in features]
        columns = vocabulary.find_named(features)
        if None not in columns and not vocabulary.uncommitted:
            self._learn(sparse(columns, weights), target)  # type: ignore[arg-type]
        else:
            admitted = [vocabulary.admit(vocabulary.admit_field(name), value) for name, value, _ in features]
            self.start(self.samples)
            try:
                self._learn(sparse(admitted, weights), target)
            except Diverged:
                self.undo(vocabulary.rollback())
                raise
            vocabulary.commit()
        self.samples += 1

    def save(self, path: str | Path) -> None:
        """Write the machine and its vocabulary to a file at `path`."""
        parts = {"hyperparameters": self.hyperparameters.document(), "vocabulary": self.vocabulary.document()}
        write_snapshot(path, parts | {"machine": True, "seed": self.seed, "samples": self.samples}, self.parameters.view())

    @classmethod
    def load(cls, path: str | Path) -> "FactorizationMachine":
        """Load a machine that `save` wrote to `path`. Raise `InvalidSnapshot` if the file holds something else."""
        document, arrays = read_snapshot(path)
        if "schema" in document:
            raise InvalidSnapshot(f"snapshot {str(path)!r} holds a Recommender; load it with Recommender.load")
        try:
            hyperparameters = Hyperparameters.from_document(document["hyperparameters"])
            machine = cls(hyperparameters, document["seed"], Vocabulary.from_document(document["vocabulary"]))
            machine.restore(arrays)
            if machine.parameters.columns != len(machine.vocabulary):
                raise ValueError("the vocabulary and the parameters have not the same columns")
            machine.samples = saved_count("samples", document["samples"])
        except NOT_WHAT_IT_SHOULD_BE as error:
            message = f"snapshot {str(path)!r} does not hold a machine ({error!r}); use an older one"
            raise InvalidSnapshot(message) from error
        return machine

    # Samples as sparse vectors of columns

    def start(self, at: int) -> list[Admission]:
        """Initialize the rows of newly admitted features, and return these.

        `at` is the position stored as their last touch.
        """
        vocabulary = self.vocabulary
        self.parameters.grow(len(vocabulary), len(vocabulary.fields))
        admitted = sorted(vocabulary.unstarted(), key=lambda one: one.field)
        for field, group in groupby(admitted, lambda one: one.field):
            own = list(group)
            keys = keys_of(self.seed, vocabulary.fields[field], [one.value for one in own])
            self.parameters.start([one.column for one in own], field, keys, at)
        return admitted

    def undo(self, columns: Iterable[int]) -> None:
        """Undo `start` for columns whose admission the vocabulary rolled back."""
        self.parameters.release(columns)
        self.parameters.truncate(len(self.vocabulary), len(self.vocabulary.fields))

    def grow(self, columns: int) -> None:
        """Allocate rows for at least this many `columns`."""
        self.parameters.grow(columns, max(1, self.parameters.fields))

    def fold(self, x: Sparse) -> tuple[float, Floats]:
        """Return one side `x` as one bias and one vector. A score is the sum of biases plus the products of vectors."""
        x = self._checked_vector(x)
        total = np.empty(self.hyperparameters.factors, np.float32)
        return fold(self.parameters.theta, self.rule.pairs, x, total), total

    def predict(self, x: Sparse) -> float:
        """Return ŷ(x), the score of a plain sample."""
        return float(predict(self.parameters.theta, self.rule.pairs, self._checked_vector(x)))

    def learn(self, x: Sparse, y: float = 1.0) -> None:
        """Learn sample `x` with target `y`: predict, adapt λ, update Θ.

        If the result is not finite, change nothing, raise `Diverged`.
        """
        self._learn(self._checked_vector(x), float(y))

    def _learn(self, x: Sparse, y: float) -> None:
        own = self.parameters
        own.make_room(len(x.column))
        if not _learn(own.rows, own.optimizer, self.rule, x, _NOTHING, y, 1.0, self.samples):
            raise Diverged(self.divergence(f"sample with target {y:g}"))
        own.changes += 1

    def predict_samples(self, samples: Samples) -> Doubles:
        """Return ŷ of many `samples`, whose columns must exist."""
        return predict_samples(self.parameters.theta, self.rule.pairs, samples)

    def learn_samples(self, samples: Samples, targets: Doubles, order: Longs) -> None:
        """Learn `samples` with their `targets` in the given `order`, with the same bits as one by one.

        All are learned, or none and `Diverged` is raised. Nothing is validated: columns must exist and be started.
        """
        own = self.parameters
        own.make_room(int(np.diff(samples.offset).max(initial=0)))
        undo = own.checkpoint()
        failed = learn_samples(own.rows, own.optimizer, self.rule, samples, _NOTHING, targets, order, self.samples)
        if failed >= 0:
            undo()
            raise Diverged(self.divergence(f"sample {order[failed]} with target {targets[order[failed]]:g}"))
        own.changes += 1
        self.samples += len(order)

    def divergence(self, what: str) -> str:
        """Return the error message for an update that was not applied: `what` it was about, and the remedy."""
        h = self.hyperparameters
        remedy = f"lower learning_rate (now {h.learning_rate:g}) or scale the numbers among the features"
        return f"{what}: the update is not finite and was not applied; {remedy}"

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of all arrays."""
        return {name: array.copy() for name, array in self.parameters.view().items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a `state` of a machine with the same configuration. Raise `ValueError` if an array does not fit."""
        self.parameters.restore(state)

    def _require_samples(self) -> None:
        if self.hyperparameters.pairs == "across":
            message = "pairs must be 'j>i' or 'j>=i' for plain samples, got 'across'"
            raise InvalidInput(f"{message}, which needs the two sides of a recommendation")

    def _checked_vector(self, x: object) -> Sparse:
        """Return x if it is a sparse vector of existing columns, else raise `InvalidInput`: kernels do not check indices."""
        if not isinstance(x, Sparse):
            raise InvalidInput(f"x must be a sparse vector of columns, got {shown(x)}; features by name go to predict_one")
        if len(x.column) and not 0 <= x.column.min() <= x.column.max() < self.parameters.columns:
            raise InvalidInput(f"x must have columns below {self.parameters.columns}, got {shown(x.column.tolist())}")
        return x

    def _checked_target(self, y: object) -> float:
        loss = self.hyperparameters.loss
        if loss in ("softmax", "bpr"):
            raise InvalidInput(f"loss must be 'squared' or 'logistic' to learn a target, got {loss!r}")
        if type(y) is not float:
            y = plain(y)
        if not isinstance(y, int | float) or not abs(y) < 1e18:
            raise InvalidInput(f"y must be a finite number, got {shown(y)}")
        if loss == "logistic" and not 0 <= y <= 1:
            raise InvalidInput(f"y must be between 0 and 1 under the logistic loss, got {shown(y)}; map classes to 0 and 1")
        if abs(y) > LARGEST_TARGET:
            message = f"y must be from -{LARGEST_TARGET:g} to {LARGEST_TARGET:g}, got {shown(y)}"
            size = f"{_power_of_ten(y):g}"
            raise InvalidInput(f"{message}; learn y / {size}, and multiply what predict_one returns by {size}")
        return float(y)


def resolve_hyperparameters(base: str | Hyperparameters, **changes: Any) -> Hyperparameters:
    """Return hyperparameters, from a preset's name or from others, with some values changed."""
    return base.with_(**changes) if isinstance(base, Hyperparameters) else preset(base, **changes)


def checked_seed(seed: object) -> int:
    """Return a seed as an integer of 64 bits. Raise `InvalidInput` if it is not one."""
    number = plain(seed)
    if isinstance(number, bool) or not isinstance(number, int) or not -(2**63) <= number < 2**63:
        raise InvalidInput(f"seed must be a whole number of at most 64 bits, got {shown(seed)}")
    return number


def rule_of(hyperparameters: Hyperparameters) -> UpdateRule:
    """Return hyperparameters in the form that kernels take."""
    h = hyperparameters
    return UpdateRule(
        loss=losses.CODES[h.loss],
        optimizer=OPTIMIZERS[h.optimizer],
        regularization=REGULARIZATIONS[h.regularization],
        pairs=PAIRS[h.pairs],
        eta=float(h.learning_rate),
        epsilon=float(h.adagrad_floor),
        kept=1.0 - 1.0 / h.adagrad_window if h.adagrad_window else 1.0,
        renewal=float(h.renewal) if h.optimizer == "adagrad" and h.loss in ("softmax", "bpr") else 0.0,
        rho=float(h.penalty_rate),
        intercept=h.intercept,
        linear=h.linear,
        adapt=True,
    )


def _check_quantity(name: str, value: float) -> None:
    if abs(value) > LARGEST_NUMBER and value not in (math.inf, -math.inf):
        message = f"x: {name} must be a number from -{LARGEST_NUMBER:g} to {LARGEST_NUMBER:g}, got {shown(value)}"
        remedy = f"scale a quantity to about 1, as in value / {_power_of_ten(value):g}, and give an id as a string"
        raise InvalidInput(f"{message}; {remedy}")
    if _named_like_an_id(name) and value == round(value):
        message = f"x: {name} is a number and so a quantity; if it is an id, give it as a string, str(value)"
        warnings.warn(message, UserWarning, stacklevel=4)


def _power_of_ten(value: float) -> float:
    """Return the power of ten that scales a number to about 1."""
    return float(10 ** math.floor(math.log10(abs(value))))


@lru_cache(maxsize=1024)
def _named_like_an_id(name: str) -> bool:
    return _NAMES_OF_IDS.search(name) is not None


def _described(x: object) -> list[NamedFeature]:
    if not isinstance(x, Mapping):
        raise InvalidInput(f"x must be a mapping from feature to value, got {shown(x)}")
    described: list[NamedFeature] = []
    for name, raw in x.items():
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"x: a feature's name must be a string that is not empty, got {shown(name)}")
        if type(raw) is str and raw.isascii() and name.isascii():
            described.append((name, "=" + raw, 1.0))  # a fast path for most features; the result is that of Category
            continue
        value = plain(raw)
        kind: type[Category | Categories | Number] = Number
        if isinstance(value, str):
            kind = Category
        elif isinstance(value, list):
            kind = Categories
        elif isinstance(value, bool):
            value = float(value)
        elif isinstance(value, int | float):
            _check_quantity(name, value)
        # A number's feature has the value ""; "=" keeps the empty category distinct from it.
        mark = "" if kind is Number else "="
        described += [(name, mark + label, weight) for label, weight in kind(name).features("x", value)]
    return described
