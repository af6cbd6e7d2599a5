"""Classifier for scikit-learn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_consistent_length, column_or_1d

from coldstream.sklearn.estimator import TableEstimator
from coldstream.support.arrays import Doubles


class FMClassifier(ClassifierMixin, TableEstimator):  # type: ignore[misc]
    """A factorization machine for classification; with more than two classes, one machine per class against the rest.

    Parameters are those of `TableEstimator`; `n_factors`, `max_iter` and `learning_rate` matter most.

    >>> model = FMClassifier(max_iter=50, random_state=0)
    >>> model.fit([[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]).predict([[0.2], [2.8]]).tolist()
    ['low', 'high']
    """

    _loss = "logistic"

    def fit(self, X: Any, y: Any) -> "FMClassifier":
        """Learn the classes y of the rows of X from scratch."""
        labels = _checked_labels(self, y)
        check_consistent_length(X, labels)
        self.classes_ = np.unique(labels)
        return self._fit(X, labels, reset=True, passes=self.max_iter, shuffle=self.shuffle)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> "FMClassifier":
        """Learn the classes y of the rows of X in order, in addition to what was learned before.

        The first call must pass all `classes`. Raise `ValueError` if it does not, or if y has a class not among them.
        """
        reset, labels = not hasattr(self, "n_iter_"), _checked_labels(self, y)
        check_consistent_length(X, labels)
        if reset:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the first call, {self.classes_}, got {classes}")
        if not np.isin(labels, self.classes_).all():
            raise ValueError(f"y has classes that are not among {self.classes_}: {np.setdiff1d(labels, self.classes_)}")
        return self._fit(X, labels, reset, passes=1, shuffle=False)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row of X."""
        likely = self.predict_proba(X)
        return np.asarray(self.classes_[likely.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Doubles:
        """Return the probability of each class for each row of X, in the order of `classes_`."""
        samples = self._encoded(X)
        if len(self.classes_) == 1:
            return np.ones((len(samples.offset) - 1, 1))
        scores = np.column_stack([machine.predict_samples(samples) for machine in self._machines])
        likely = 1.0 / (1.0 + np.exp(-np.clip(scores, -500.0, 500.0)))
        if len(self.classes_) == 2:
            return np.column_stack([1.0 - likely[:, 0], likely[:, 0]])
        return np.asarray(likely / likely.sum(axis=1, keepdims=True))

    def _fit(self, X: Any, labels: NDArray[Any], reset: bool, passes: int, shuffle: bool) -> "FMClassifier":
        samples, positive = self._admitted(X, reset), self.classes_[1:] if len(self.classes_) <= 2 else self.classes_
        self._learn(samples, [(labels == one).astype(np.float64) for one in positive], passes, shuffle)
        return self


def _checked_labels(estimator: Any, y: Any) -> NDArray[Any]:
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    _num_samples(y)
    labels = np.asarray(column_or_1d(y, warn=True))
    check_classification_targets(labels)
    return labels
