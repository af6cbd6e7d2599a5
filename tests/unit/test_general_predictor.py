"""The machine on dictionaries of features, for regression and classification."""

import numpy as np
import pytest

from coldstream import Diverged, FactorizationMachine, InvalidInput


def test_regression_learns_an_interaction() -> None:
    """y = 1 where shape and colour match: no linear model can know."""
    rng = np.random.default_rng(0)
    machine = FactorizationMachine(seed=1, factors=8)
    truth = {("cube", "red"): 1.0, ("ball", "blue"): 1.0, ("cube", "blue"): 0.0, ("ball", "red"): 0.0}
    for _ in range(800):
        (shape, colour), y = list(truth.items())[rng.integers(4)]
        machine.learn_one({"shape": shape, "colour": colour}, y)
    for (shape, colour), y in truth.items():
        assert machine.predict_one({"shape": shape, "colour": colour}) == pytest.approx(y, abs=0.25)


def test_classification_gives_probabilities() -> None:
    rng = np.random.default_rng(0)
    machine = FactorizationMachine(seed=1, loss="logistic", factors=4)
    for _ in range(1500):
        x = rng.normal()
        machine.learn_one({"x": x, "tags": ["a", "b"]}, x > 0)
    assert machine.predict_one({"x": 2.0, "tags": ["a", "b"]}) > 0.9
    assert machine.predict_one({"x": -2.0, "tags": ["a", "b"]}) < 0.1
    assert 0 <= machine.predict_one({"never": "seen"}) <= 1


def test_predicting_never_writes() -> None:
    machine = FactorizationMachine(seed=1, factors=3)
    machine.learn_one({"a": 1.0, "b": True}, 1.0)
    before = {name: array.tobytes() for name, array in machine.state().items()}, len(machine.vocabulary)
    machine.predict_one({"a": 2.0, "new": "value", "b": False})
    assert ({name: array.tobytes() for name, array in machine.state().items()}, len(machine.vocabulary)) == before


def test_state_and_restore() -> None:
    one, other = (FactorizationMachine(seed=1, factors=3) for _ in range(2))
    for machine in (one, other):
        machine.learn_one({"a": "x", "b": 2.0}, 1.0)
    saved = one.state()
    one.learn_one({"a": "x"}, 3.0)
    one.restore(saved)
    assert one.predict_one({"a": "x", "b": 2.0}) == other.predict_one({"a": "x", "b": 2.0})


def test_divergence_leaves_the_machine_as_it_was() -> None:
    machine = FactorizationMachine("paper", seed=1, learning_rate=1.0)
    machine.learn_one({"a": 1.0}, 1.0)
    before = {name: array.tobytes() for name, array in machine.state().items()}
    with pytest.raises(Diverged):
        machine.learn_one({"a": 1e8, "b": 1e8}, 1e12)
    assert {name: array.tobytes() for name, array in machine.state().items()} == before
    assert machine.vocabulary.fields == ["a"]


def test_ranking_losses_take_no_targets() -> None:
    for loss in ("softmax", "bpr"):
        with pytest.raises(InvalidInput, match="'squared' or 'logistic'"):
            FactorizationMachine("default", pairs="j>i", loss=loss).learn_one({"a": 1.0}, 1.0)


def test_a_plain_sample_has_no_two_sides_to_pair() -> None:
    machine = FactorizationMachine("predictor", pairs="across")
    for action in (lambda: machine.learn_one({"a": 1.0}, 1.0), lambda: machine.predict_one({"a": 1.0})):
        with pytest.raises(InvalidInput, match="pairs must be 'j>i' or 'j>=i' for plain samples, got 'across'"):
            action()
    assert len(machine.vocabulary) == machine.samples == 0
    with pytest.raises(InvalidInput, match="plain samples"):
        FactorizationMachine("default").learn_one({"a": 1.0}, 1.0)


def test_samples_are_counted_and_stamp_what_they_touch() -> None:
    machine = FactorizationMachine(seed=1, factors=3)
    for x in ({"a": 1.0}, {"b": 1.0}, {"a": 2.0, "c": "x"}):
        machine.learn_one(x, 1.0)
    assert machine.samples == 3
    touched_at = machine.parameters.rows.touched_at
    columns = [machine.vocabulary.find(n, value) for n, value in enumerate(["", "", "=x"])]
    assert touched_at[columns].tolist() == [2, 1, 2]
