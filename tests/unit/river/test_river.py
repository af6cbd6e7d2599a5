"""The estimators for River, by River's own checks and beside River's own models."""

import pickle
import random
from typing import Any

import numpy as np
import pytest
from river import checks, compose, datasets, evaluate, metrics, multiclass, preprocessing, reco, stream

from coldstream import InvalidInput
from coldstream.river import FMClassifier, FMRanker, FMRegressor

MODELS = [FMRegressor(), FMClassifier(), FMRanker()]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_rivers_own_checks_pass_and_none_is_skipped(model: Any) -> None:
    ours = type(model)._unit_test_skips
    assert ours is (reco.base.Ranker if isinstance(model, FMRanker) else type(model).__mro__[1])._unit_test_skips
    names = [check.__name__ for check in checks.yield_checks(model)]
    assert "check_reco_routine" in names or "check_bounded_memory_growth" in names
    random.seed(0)
    checks.check_estimator(model)


def test_a_pipeline_with_a_scaler_learns_a_stream() -> None:
    model = preprocessing.StandardScaler() | FMRegressor(seed=1)
    mae = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    assert mae.get() < 0.7


def test_without_a_scaler_a_date_of_seven_digits_does_no_harm() -> None:
    mae = evaluate.progressive_val_score(datasets.TrumpApproval(), FMRegressor(seed=1), metrics.MAE())
    assert mae.get() < 1.5


def test_a_classifier_gives_probabilities_in_a_pipeline() -> None:
    model = preprocessing.StandardScaler() | FMClassifier(seed=1)
    auc = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC())
    assert auc.get() > 0.93
    probabilities = model.predict_proba_one(next(iter(datasets.Phishing()))[0])
    assert sum(probabilities.values()) == pytest.approx(1)


def test_more_than_two_classes_are_rivers_one_vs_rest() -> None:
    model = preprocessing.StandardScaler() | multiclass.OneVsRestClassifier(FMClassifier(seed=1))
    accuracy = evaluate.progressive_val_score(datasets.ImageSegments().take(500), model, metrics.Accuracy())
    assert accuracy.get() > 0.6


def test_mixed_dictionaries() -> None:
    model = FMRegressor(ids=("shop",), seed=1)
    x = {"city": "Kyoto", "shop": 17, "rooms": 2, "is_new": True, "price": 52_000.0, "tags": {"sea", "view"}, "note": None}
    for _ in range(60):
        model.learn_one(x, 250_000)
        model.learn_one({**x, "shop": 18}, 150_000)
    assert model.predict_one(x) == pytest.approx(250_000, rel=0.05)
    assert model.predict_one({**x, "shop": np.int64(18)}) == pytest.approx(150_000, rel=0.05)
    assert model.predict_one({**x, "shop": 18.0}) == model.predict_one({**x, "shop": 18})
    missing = {name: value for name, value in x.items() if name != "price"}
    assert model.predict_one({**x, "price": float("nan")}) == model.predict_one(missing)
    assert sorted(model._machine.vocabulary.fields) == ["city", "is_new", "price", "rooms", "shop", "tags"]


def test_whole_numbers_are_numbers_unless_they_are_said_to_be_ids() -> None:
    as_number, as_id = FMRegressor(seed=1), FMRegressor(seed=1, ids=("n",))
    for model in (as_number, as_id):
        for n in range(8):
            model.learn_one({"n": n}, float(n % 2))
    assert len(as_number._machine.vocabulary) == 1
    assert len(as_id._machine.vocabulary) == 8


def test_names_may_be_numbers_as_in_streams_of_arrays() -> None:
    model = FMRegressor(seed=1)
    for x, y in stream.iter_array(np.eye(3), np.arange(3.0)):
        model.learn_one(x, y)
    assert sorted(model._machine.vocabulary.fields) == ["0", "1", "2"]
    with pytest.raises(InvalidInput, match="same name as a string"):
        model.learn_one({1: 1.0, "1": 2.0}, 1.0)


@pytest.mark.parametrize(
    ("model", "x", "y", "said"),
    [
        (FMRegressor(), {"a": 1.0}, "three", "y must be a finite number, got 'three'"),
        (FMRegressor(), {"a": 1.0}, float("nan"), "y must be a finite number"),
        (FMRegressor(), {"a": object()}, 1.0, "x: a must be a string, a number or a list of strings"),
        (FMRegressor(ids=("a",)), {"a": object()}, 1.0, "x: a must be a string or a number to be a category"),
        (FMClassifier(), {"a": 1.0}, "spam", "y must be True or False, got 'spam'; wrap it in river.multiclass"),
        (FMClassifier(), {"a": "\ud800"}, True, "x: a must be valid Unicode"),
    ],
)
def test_what_is_refused_has_changed_nothing(model: Any, x: dict, y: Any, said: str) -> None:
    model = model.clone()
    model.learn_one({"b": 2.0, "c": "k"}, 1)
    before = pickle.dumps(model)
    with pytest.raises(InvalidInput, match=said):
        model.learn_one(x, y)
    assert pickle.dumps(model) == before


def test_ids_are_a_list_of_names() -> None:
    with pytest.raises(InvalidInput, match=r"ids must be a list of names, got 'user'; write \['user'\]"):
        FMRegressor(ids="user")  # type: ignore[arg-type]


def test_a_pickled_model_goes_on_with_the_same_bits() -> None:
    model = FMRegressor(seed=3)
    data = list(datasets.TrumpApproval().take(60))
    for x, y in data[:30]:
        model.learn_one(x, y)
    other = pickle.loads(pickle.dumps(model))
    for x, y in data[30:]:
        model.learn_one(x, y)
        other.learn_one(x, y)
        assert model.predict_one(x) == other.predict_one(x)


def test_a_ranker_learns_tastes_in_context() -> None:
    rng, model = random.Random(0), FMRanker(seed=1)
    for _ in range(1500):
        user, item, day = rng.choice(["Tom", 7]), rng.choice(["music", "sports", "food"]), rng.choice(["mon", "sun"])
        model.learn_one(user, item, (item == "music") == (day == "sun") and (user == 7) == (item != "food"), {"day": day})
    assert model.rank(7, {"music", "sports", "food"}, {"day": "sun"})[0] == "music"
    assert model.rank(7, ["music", "sports", "food"], {"day": "mon"})[0] == "sports"
    assert model.is_contextual
    assert model.predict_one(7, "music", {"day": "sun"}) > model.predict_one(7, "music", {"day": "mon"})


def test_equals_are_ranked_in_the_order_of_their_names() -> None:
    assert FMRanker().rank("nobody", {"c", "a", "b"}) == ["a", "b", "c"]


def test_a_grid_of_pipelines_can_be_expanded() -> None:
    model = compose.Pipeline(preprocessing.StandardScaler(), FMRegressor())
    other = model.clone({"FMRegressor": {"n_factors": 4}})
    assert other["FMRegressor"].n_factors == 4
    assert other["FMRegressor"]._machine.hyperparameters.factors == 4
