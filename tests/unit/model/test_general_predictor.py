"""The machine on dictionaries of features, for regression and classification."""

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from coldstream import Diverged, FactorizationMachine, InvalidInput
from coldstream.features.sparse import sparse


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


def test_whoever_keeps_what_follows_from_the_parameters_is_told_when_they_change() -> None:
    machine = FactorizationMachine(seed=1, factors=3)
    machine.learn_one({"a": 1.0}, 1.0)
    seen = {machine.parameters.changes}
    x = sparse([0], [1.0])
    machine.learn(x, 1.0)
    seen.add(machine.parameters.changes)
    machine.learn_one({"a": 1.0}, 1.0)
    seen.add(machine.parameters.changes)
    assert len(seen) == 3
    machine.predict(x)
    assert machine.parameters.changes in seen


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
    machine = FactorizationMachine("paper", seed=1, learning_rate=1000.0)
    machine.learn_one({"a": 10.0}, 100.0)
    before = {name: array.tobytes() for name, array in machine.state().items()}
    with pytest.raises(Diverged):
        machine.learn_one({"a": 10.0, "b": 10.0}, 100.0)
    assert {name: array.tobytes() for name, array in machine.state().items()} == before
    assert machine.vocabulary.fields == ["a"]
    assert machine.samples == 1


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


def rmse(names: Callable[[int, int], dict], seed: int = 0) -> float:
    """Of the last half of a stream of ratings by 40 users of 30 items, from 1 to 5."""
    rng = np.random.default_rng(seed)
    users, items = rng.normal(size=40), rng.normal(size=30)
    machine, errors = FactorizationMachine(seed=1, factors=4), []
    for _ in range(3000):
        user, item = int(rng.integers(40)), int(rng.integers(30))
        y = float(np.clip(3 + users[user] + items[item], 1, 5))
        x = names(user + 1, item + 1)
        errors.append((machine.predict_one(x) - y) ** 2)
        machine.learn_one(x, y)
    return math.sqrt(np.mean(errors[1500:]))


def test_ids_in_digits_are_refused_as_numbers_and_learned_as_strings() -> None:
    """As numbers they once gave an error of hundreds, and nothing was said."""
    with pytest.raises(
        InvalidInput, match=r"x: film must be a number from -10 to 10, got 19; scale .* give an id as a string"
    ):
        rmse(lambda user, item: {"viewer": str(user), "film": item})
    assert rmse(lambda user, item: {"user": str(user), "item": str(item)}) < 0.7


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ({"salary": 52_000.0}, r"x: salary must be a number from -10 to 10, got 52000.0; .* as in value / 10000,"),
        ({"year": -2024}, r"x: year must be .*, got -2024; .* as in value / 1000,"),
        ({"a": np.int64(11)}, r"x: a must be .*, got 11; .* as in value / 10,"),
        ({"a": 1e300}, r"x: a must be .*, got 1e\+300; "),
        ({"a": 10**30}, r"x: a must be .*, got 1000.*; "),
    ],
)
def test_a_number_that_nobody_scaled_is_refused(x: dict, said: str) -> None:
    machine = FactorizationMachine(seed=1, factors=3)
    machine.learn_one({"salary": 10.0, "year": -10, "a": 0.5}, 1.0)
    before = {name: array.tobytes() for name, array in machine.state().items()}, len(machine.vocabulary)
    for action in (lambda: machine.learn_one(x, 1.0), lambda: machine.predict_one(x)):
        with pytest.raises(InvalidInput, match=said):
            action()
    assert ({name: array.tobytes() for name, array in machine.state().items()}, len(machine.vocabulary)) == before


def test_a_target_that_would_not_be_reached_is_refused_and_scaled_it_is_learned() -> None:
    machine = FactorizationMachine(seed=1, factors=3)
    with pytest.raises(InvalidInput, match=r"y must be from -100 to 100, got 1250000; learn y / 1e\+06, and multiply what"):
        machine.learn_one({"city": "Kyoto"}, 1_250_000)
    assert (machine.samples, len(machine.vocabulary)) == (0, 0)
    for _ in range(200):
        machine.learn_one({"city": "Kyoto"}, 1_250_000 / 1e6)
    assert machine.predict_one({"city": "Kyoto"}) * 1e6 == pytest.approx(1_250_000, rel=0.05)
    machine.learn_one({"city": "Kyoto"}, -100)
    machine.learn_one({"city": "Kyoto"}, 100.0)


@pytest.mark.parametrize("name", ["id", "user", "item_id", "userId", "last_item"])
def test_a_small_number_under_the_name_of_an_id_is_pointed_out(name: str) -> None:
    machine = FactorizationMachine(seed=1, factors=3)
    with pytest.warns(UserWarning, match=f"x: {name} is a number and so a quantity; .* give it as a string") as said:
        machine.learn_one({name: 7}, 1.0)
    assert [own.filename for own in said] == [__file__]
    with pytest.warns(UserWarning, match=name):
        machine.predict_one({name: 7.0})


def test_that_is_said_once_for_a_place_in_a_program() -> None:
    machine = FactorizationMachine(seed=1, factors=3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for n in range(5):
            machine.learn_one({"user": n}, 1.0)
    assert len(said) == 1


def test_quantities_and_flags_are_taken_without_a_word() -> None:
    machine = FactorizationMachine(seed=1, factors=3)
    machine.learn_one({"rooms": 2, "is_user": True, "bid": 3, "fluid": 1.0, "user": "7", "item_id": 0.25}, 1.0)
    assert machine.samples == 1


@pytest.mark.parametrize("action", ["predict", "learn", "fold"])
@pytest.mark.parametrize("x", [[{"a": 1.0}], {"a": 1.0}, [1.0, 2.0], None])
def test_what_is_no_sparse_vector_is_refused_in_our_words(action: str, x: object) -> None:
    with pytest.raises(
        InvalidInput, match=r"x must be a sparse vector of columns, got .*; features by name go to predict_one"
    ):
        getattr(FactorizationMachine(), action)(x)


@pytest.mark.parametrize("columns", [[1], [-1], [0, 10**6]])
def test_a_column_that_is_not_there_is_refused(columns: list[int]) -> None:
    machine = FactorizationMachine(factors=3)
    machine.learn_one({"a": 1.0}, 1.0)
    assert machine.predict(sparse([0], [1.0])) == machine.predict_one({"a": 1.0})
    for action in (machine.predict, machine.learn, machine.fold):
        with pytest.raises(InvalidInput, match="x must have columns below 1, got"):
            action(sparse(columns, [1.0] * len(columns)))


def test_its_repr_says_what_it_is_and_knows() -> None:
    machine = FactorizationMachine(seed=7, factors=3)
    for city in ("Kyoto", "Osaka"):
        machine.learn_one({"city": city, "rooms": 2.0}, 1.0)
    shown = "<FactorizationMachine: 2 samples, 3 features in 2 fields; loss='squared', factors=3, seed=7>"
    assert repr(machine) == shown
