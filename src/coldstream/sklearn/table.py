"""Reading of scikit-learn's input X, a frame or an array, as numeric and categorical columns."""

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_feature_names, _check_n_features, validate_data

from coldstream.support.arrays import Doubles


class Table(NamedTuple):
    """The numeric and the categorical columns of a table."""

    numbers: Doubles
    """Numbers of shape (n, numeric columns); NaN where a value is missing."""
    categories: list[list[str | None]]
    """Labels of each row, by categorical column; None where a label is missing."""
    number_names: list[str]
    category_names: list[str]


def read(estimator: Any, X: Any, categorical: Any, reset: bool) -> Table:
    """Read X as a table. With `reset` the estimator remembers its columns, else X must have the same columns.

    `categorical` selects the categorical columns: names, positions or flags; or "from_dtype", the columns of a frame that
    are neither numeric nor temporal. Raise `ValueError` for wrong columns, no rows, or infinite numbers.
    """
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame) or not all(isinstance(name, str) for name in frame.columns):
        return _of_array(estimator, X, categorical, reset)
    _check_feature_names(estimator, X, reset=reset)
    _check_n_features(estimator, X, reset=reset)
    if not len(frame):
        raise ValueError(f"Found array with 0 sample(s) (shape={frame.shape}) while a minimum of 1 is required.")
    named = _named(frame.columns, categorical)
    if named is None:
        named = [name for name, kind in frame.schema.items() if not (kind.is_numeric() or kind.is_temporal())]
    numeric = [name for name in frame.columns if name not in named]
    columns = [frame[name].cast(nw.Float64).to_numpy() for name in numeric]
    numbers = np.column_stack(columns).astype(float) if columns else np.zeros((len(frame), 0))
    if np.isinf(numbers).any():
        raise ValueError("Input X contains infinity or a value too large for dtype('float64').")
    return Table(numbers, [list(map(_label, frame[name].to_list())) for name in named], numeric, named)


def _of_array(estimator: Any, X: Any, categorical: Any, reset: bool) -> Table:
    checked = validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
    names = [f"x{n}" for n in range(checked.shape[1])]
    named = _named(names, categorical) or []
    numeric = [name for name in names if name not in named]
    places = {name: n for n, name in enumerate(names)}
    numbers: NDArray[Any] = checked[:, [places[name] for name in numeric]]
    return Table(numbers, [list(map(_label, checked[:, places[name]].tolist())) for name in named], numeric, named)


def _named(names: list[str], categorical: Any) -> list[str] | None:
    """Return the names of the selected categorical columns; None for "from_dtype"."""
    if categorical is None:
        return []
    if isinstance(categorical, str):
        if categorical == "from_dtype":
            return None
        raise ValueError(f"categorical_features must be 'from_dtype', or names, places or flags, got {categorical!r}")
    given = list(categorical)
    if given and all(isinstance(one, bool | np.bool_) for one in given):
        if len(given) != len(names):
            raise ValueError(f"categorical_features must have a flag for each of {len(names)} columns, got {len(given)}")
        return [name for name, flag in zip(names, given, strict=True) if flag]
    chosen = [one if isinstance(one, str) else names[one] for one in given]
    if unknown := [name for name in chosen if name not in names]:
        raise ValueError(f"categorical_features names {unknown}, but the columns are {names}")
    return chosen


def _label(value: Any) -> str | None:
    """Return the label of a category, equal for a whole float and its whole number; None for a missing value."""
    if value is None or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)
