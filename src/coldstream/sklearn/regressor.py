"""Regressor for scikit-learn."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from coldstream.sklearn.estimator import TableEstimator
from coldstream.sklearn.running_scale import RunningScale
from coldstream.support.arrays import Doubles


class FMRegressor(RegressorMixin, TableEstimator):  # type: ignore[misc]
    """A factorization machine for regression. Targets may have any scale, because they are standardized.

    Parameters are those of `TableEstimator`; `n_factors`, `max_iter` and `learning_rate` matter most.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = FMRegressor(max_iter=200, random_state=0).fit(X, [1000, 2000, 3000, 4000])
    >>> float(np.round(model.predict([[1.5]])[0], -2))
    2500.0
    """

    def fit(self, X: Any, y: Any) -> "FMRegressor":
        """Learn the targets y of the rows of X from scratch."""
        return self._fit(X, y, reset=True, passes=self.max_iter, shuffle=self.shuffle)

    def partial_fit(self, X: Any, y: Any) -> "FMRegressor":
        """Learn the targets y of the rows of X in order, in addition to what was learned before."""
        return self._fit(X, y, reset=not hasattr(self, "n_iter_"), passes=1, shuffle=False)

    def predict(self, X: Any) -> Doubles:
        """Predict the target of each row of X."""
        samples = self._encoded(X)
        scale: RunningScale = self._targets
        return np.asarray(scale.mean[0] + scale.deviation[0] * self._machines[0].predict_samples(samples))

    def _fit(self, X: Any, y: Any, reset: bool, passes: int, shuffle: bool) -> "FMRegressor":
        targets = _checked_targets(self, y)
        check_consistent_length(X, targets)
        samples = self._admitted(X, reset)
        before: RunningScale = RunningScale.of(1) if reset else self._targets
        scale = before.with_rows(targets[:, None])
        self._learn(samples, [scale.scaled(targets[:, None])[:, 0]], passes, shuffle)
        self._targets: RunningScale = scale
        return self


def _checked_targets(estimator: Any, y: Any) -> Doubles:
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    checked = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", ensure_min_samples=0)
    return np.asarray(column_or_1d(checked, warn=True))
