"""The recommender as an estimator of events."""

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
    """A `coldstream.Recommender` as scikit-learn's model selection takes it.

    X has one row for every event, in order of time: a frame with columns `user`, `item`, perhaps `time`, and the fields of
    the context that the schema declares; or an array whose first two columns are user and item. Events are learned one after
    the other, as they would be online, so cross-validation should split by time: `TimeSeriesSplit`.

    Parameters
    ----------
    schema : Schema or None
        The fields of users, items and contexts; ids only, if left out.
    preset : str
        The preset that hyperparameters begin with.
    hyperparameters : mapping or None
        Those that are to be changed.
    n : int
        How many items are recommended, and the N of recall@N, which `score` gives.
    columns : mapping or None
        What the frame calls its columns: {"user": "customer_id"}.
    random_state : int, RandomState or None
        What all random numbers follow from.

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
        """Forget all, put `items` and `users` with their attributes, and learn the events of X. y is not read."""
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
        """Learn the events of X as well. y is not read."""
        if not hasattr(self, "recommender_"):
            return self.fit(X, y)
        self.recommender_.learn(self._events(X, reset=False))
        return self

    def predict(self, X: Any) -> Doubles:
        """The score of every row's item for its user in its context; NaN for an item that is not known."""
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
        """The best `n` items for every row of a frame, as a frame, or for every user of a list, as a list."""
        check_is_fitted(self)
        return self.recommender_.recommend_many(X, self.n if n is None else n, columns=self.columns if is_frame(X) else None)

    def score(self, X: Any, y: Any = None) -> float:
        """recall@n: the share of the events whose item is among the best n, by what was known before them. y is not read."""
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
    """An id: a text as it is, a whole float in the digits of its whole number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int | float | bool):
        raise TypeError(f"an id must be a string or a number, got {value!r}; argument must be a string or a number")
    return str(value)
