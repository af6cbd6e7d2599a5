"""Recommender for scikit-learn."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted, validate_data

from coldstream.events.arguments import checked_count
from coldstream.events.event import Event
from coldstream.features.frames import events_of, is_frame
from coldstream.features.schema import Schema
from coldstream.recommender import Recommender
from coldstream.support.arrays import Doubles


class ItemRecommender(BaseEstimator):  # type: ignore[misc]
    """A `coldstream.Recommender` with scikit-learn's interface, for use in its model selection.

    X has one row per event, in order of time: a frame with columns `user`, `item`, optionally `time`, and the context
    fields that the schema declares; or an array whose first two columns are user and item. Events are learned one after
    the other, as online, so cross-validation should split by time, with `TimeSeriesSplit`.

    Parameters
    ----------
    schema : Schema or None
        The fields of users, items and contexts; None uses ids only.
    preset : str
        Name of the preset of hyperparameters.
    hyperparameters : mapping or None
        Hyperparameters that differ from the preset.
    n : int
        Number of items to recommend, and the N of recall@N in `score`.
    columns : mapping or None
        Names of the frame's columns where they differ, such as {"user": "customer_id"}.
    random_state : int, RandomState or None
        Seed of all random numbers.

    >>> import pandas as pd
    >>> events = pd.DataFrame({"user": ["u1", "u2", "u1"], "item": ["tea", "tea", "cup"]})
    >>> model = ItemRecommender(n=2, random_state=0).fit(events)
    >>> model.recommend(["u2"])[0][0].item
    'cup'
    """

    def __init__(
        self,
        *,
        schema: Schema | None = None,
        preset: str = "default",
        hyperparameters: Mapping[str, Any] | None = None,
        n: int = 10,
        columns: Mapping[str, str] | None = None,
        random_state: Any = None,
    ) -> None:
        self.schema = schema
        self.preset = preset
        self.hyperparameters = hyperparameters
        self.n = n
        self.columns = columns
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, items: Any = None, users: Any = None) -> "ItemRecommender":
        """Create a new recommender, put `items` and `users` with their attributes, and learn the events of X. Ignore y."""
        del y
        events = self._events(X, reset=True)
        schema = Schema() if self.schema is None else self.schema
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        recommender = Recommender(schema, self.preset, seed, **(self.hyperparameters or {}))
        if items is not None:
            recommender.put_items(items)
        if users is not None:
            recommender.put_users(users)
        recommender.learn(events)
        self.recommender_ = recommender
        return self

    def partial_fit(self, X: Any, y: Any = None) -> "ItemRecommender":
        """Learn the events of X in addition to earlier ones. Ignore y."""
        if not hasattr(self, "recommender_"):
            return self.fit(X, y)
        self.recommender_.learn(self._events(X, reset=False))
        return self

    def predict(self, X: Any) -> Doubles:
        """Return the score of each row's item for its user and context; NaN for an unknown item."""
        check_is_fitted(self)
        recommender = self.recommender_
        return np.array(
            [
                recommender.predict(event.user, event.item, context=event.context, time=event.time)
                if recommender.has_item(event.item)
                else np.nan
                for event in self._events(X, reset=False)
            ]
        )

    def recommend(self, X: Any, n: int | None = None) -> Any:
        """Recommend the best `n` items for each row of a frame, as a frame, or for each user of a list, as a list."""
        check_is_fitted(self)
        return self.recommender_.recommend_many(X, self.n if n is None else n, columns=self.columns if is_frame(X) else None)

    def score(self, X: Any, y: Any = None) -> float:
        """Return recall@n, the share of events whose item ranks among the best n, without learning them. Ignore y."""
        del y
        check_is_fitted(self)
        n, recommender = checked_count("n", self.n), self.recommender_
        hits = [
            recommender.has_item(event.item)
            and recommender.rank(event.user, event.item, context=event.context, time=event.time).position < n
            for event in self._events(X, reset=False)
        ]
        return float(np.mean(hits))

    def _events(self, X: Any, reset: bool) -> list[Event]:
        schema = Schema() if self.schema is None else self.schema
        if is_frame(X):
            _check_feature_names(self, X, reset=reset)
            _check_n_features(self, X, reset=reset)
            return events_of(X, schema, self.columns)
        checked = validate_data(self, X, reset=reset, dtype=None, ensure_min_features=2 if reset else 1)
        return [Event(_id(user), _id(item)) for user, item in checked[:, :2].tolist()]


def _id(value: Any) -> str:
    """Return an id as text; whole floats are written without decimals. Raise `TypeError` for other types."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int | float | bool):
        raise TypeError(f"an id must be a string or a number, got {value!r}; argument must be a string or a number")
    return str(value)
