"""The estimators for scikit-learn, by its own checks and in its model selection."""

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from coldstream import Event, Recommender, Schema
from coldstream.sklearn import FMClassifier, FMRegressor, ItemRecommender
from coldstream.sklearn.running_scale import RunningScale


@pytest.mark.parametrize("estimator", [FMRegressor(), FMClassifier(), ItemRecommender()], ids=lambda one: type(one).__name__)
def test_its_own_checks_pass(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 40
    bad = [(one["check_name"], one["exception"]) for one in results if one["status"] == "failed"]
    assert not bad, bad
    # That one asks for a setting of scikit-learn, whoever the estimator is of.
    assert [one["check_name"] for one in results if one["status"] != "passed"] in ([], ["check_array_api_input"])


def test_regression_of_numbers() -> None:
    X, y = load_diabetes(return_X_y=True)
    scores = cross_val_score(FMRegressor(n_factors=2, max_iter=20, random_state=0), X, y, cv=5)
    assert scores.mean() > 0.4


def test_two_classes_and_three() -> None:
    for load in (load_breast_cancer, load_iris):
        X, y = load(return_X_y=True)
        model = make_pipeline(StandardScaler(), FMClassifier(random_state=0))
        assert cross_val_score(model, X, y, cv=5).mean() > 0.93


def frame(n: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "shape": pd.Categorical(rng.choice(["cube", "ball"], n)),
            "colour": rng.choice(["red", "blue"], n),
            "size": rng.normal(1000, 300, n),
            "code": rng.integers(0, 3, n),
        }
    )
    match = (X["shape"] == "cube").to_numpy() == (X["colour"] == "red").to_numpy()
    return X, 50_000 * match + 10 * X["size"].to_numpy() + 7000 * (X["code"] == 1).to_numpy()


@pytest.mark.parametrize("make", [lambda X: X, pl.from_pandas], ids=["pandas", "polars"])
def test_a_frame_of_mixed_columns_and_an_interaction_that_no_linear_model_knows(make: Any) -> None:
    X, y = frame()
    model = FMRegressor(n_factors=4, max_iter=30, random_state=0, categorical_features=["shape", "colour", "code"])
    assert model.fit(make(X), y).score(make(X), y) > 0.95
    linear = FMRegressor(n_factors=0, max_iter=30, random_state=0).fit(make(X), y)
    assert linear.score(make(X), y) < 0.5
    missing = X.astype({"colour": object}).assign(size=np.nan)
    missing.loc[0, "colour"] = None
    missing.loc[1, "colour"] = "never seen"
    assert np.isfinite(model.predict(make(missing))).all()


@pytest.mark.parametrize("categorical", [[1], [False, True], np.array([False, True])])
def test_columns_of_an_array_may_be_categories(categorical: Any) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.integers(0, 5, 300)])
    y = np.array([3.0, -1.0, 4.0, -1.0, 5.0])[X[:, 1].astype(int)]
    model = FMRegressor(max_iter=30, random_state=0, categorical_features=categorical)
    assert model.fit(X, y).score(X, y) > 0.95
    assert FMRegressor(max_iter=30, random_state=0).fit(X, y).score(X, y) < 0.6


@pytest.mark.parametrize(
    ("categorical", "said"),
    [
        ("auto", "must be 'from_dtype'"),
        (["colours"], "but the columns are"),
        ([True], "a flag for each of 4 columns, got 1"),
    ],
)
def test_categories_that_are_not_there_are_refused(categorical: Any, said: str) -> None:
    X, y = frame(20)
    with pytest.raises(ValueError, match=said):
        FMRegressor(categorical_features=categorical).fit(X, y)


def test_partial_fit_learns_on_and_one_pass_of_fit_is_the_same() -> None:
    X, y = frame()
    whole = FMRegressor(max_iter=1, shuffle=False, random_state=0).fit(X, y)
    again = FMRegressor(max_iter=1, shuffle=False, random_state=0).partial_fit(X, y)
    assert whole.predict(X).tolist() == again.predict(X).tolist()
    before = again.score(X, y)
    for _ in range(20):
        again.partial_fit(X, y)
    assert again.score(X, y) > before
    copied = pickle.loads(pickle.dumps(again))
    assert copied.partial_fit(X, y).predict(X).tolist() == again.partial_fit(X, y).predict(X).tolist()


def test_classes_are_known_from_the_first_batch_on() -> None:
    model = FMClassifier(random_state=0)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit([[0.0]], ["a"])
    model.partial_fit([[0.0]], ["a"], classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit([[0.0]], ["a"], classes=["a", "b"])
    with pytest.raises(ValueError, match="y has classes that are not among"):
        model.partial_fit([[0.0]], ["d"])
    assert model.predict_proba([[1.0]]).shape == (1, 3)


def test_a_grid_search_over_time() -> None:
    X, y = frame()
    grid = {"fmregressor__n_factors": [0, 4], "fmregressor__max_iter": [20]}
    search = GridSearchCV(make_pipeline(FMRegressor(random_state=0)), grid, cv=TimeSeriesSplit(3)).fit(X, y)
    assert search.best_params_["fmregressor__n_factors"] == 4
    assert TransformedTargetRegressor(FMRegressor(random_state=0), func=np.log1p, inverse_func=np.expm1).fit(X, y)


def test_running_scales_of_pieces_are_those_of_the_whole() -> None:
    rows = np.random.default_rng(0).normal(5, 3, (100, 4))
    rows[::7, 1] = np.nan
    rows[:, 2] = 0.1
    pieces = RunningScale.of(4)
    for piece in np.split(rows, [3, 50]):
        pieces = pieces.with_rows(piece)
    assert pieces.mean == pytest.approx(np.nanmean(rows, axis=0))
    assert pieces.deviation[[0, 1, 3]] == pytest.approx(np.nanstd(rows, axis=0)[[0, 1, 3]])
    assert pieces.deviation[2] == 1.0


def events(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    user = rng.integers(0, 12, n)
    return pd.DataFrame({"user": user, "item": (user % 3) * 10 + rng.integers(0, 6, n), "time": 1.7e9 + np.arange(n)})


def test_a_recommender_is_selected_over_time() -> None:
    schema = Schema(exclude_seen=False)
    small = {"factors": 4, "negatives": 10, "neighbours": 0, "trends": ()}
    grid = {"hyperparameters": [small | {"learning_rate": rate} for rate in (1e-9, 0.2)]}
    model = ItemRecommender(schema=schema, n=6, random_state=0)
    search = GridSearchCV(model, grid, cv=TimeSeriesSplit(3)).fit(events())
    assert search.best_params_["hyperparameters"]["learning_rate"] == 0.2
    assert search.best_score_ > 0.6


def test_it_is_the_recommender_bit_for_bit() -> None:
    data = events(60)
    model = ItemRecommender(random_state=3, hyperparameters={"factors": 4}).fit(data[:40]).partial_fit(data[40:])
    seed = model.recommender_.seed
    wanted = Recommender(Schema(), seed=seed, factors=4)
    wanted.learn([Event(str(u), str(i), t) for u, i, t in data.itertuples(index=False)])
    assert model.recommend(["1", "2"], 3) == [wanted.recommend(user, 3) for user in ("1", "2")]
    assert model.predict(data[:2]).tolist() == [
        wanted.predict(str(u), str(i), time=t) for u, i, t in data[:2].itertuples(index=False)
    ]
    assert np.isnan(model.predict(data[:1].assign(item=99))).all()
    assert list(model.recommend(data[:2], 2).columns) == ["request", "user", "rank", "item", "score"]
