"""Every kernel equals its twin, whatever the configuration and whatever the stream."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import COLUMNS, CONTEXT, ITEM, Pair, vector

from coldstream.config import Hyperparameters
from coldstream.model import losses, reference
from coldstream.model.kernels import fold, predict

values = st.floats(-1, 1, width=32).filter(lambda value: abs(value) > 1e-3)
contexts = st.dictionaries(st.sampled_from(CONTEXT), values, max_size=5)
items = st.dictionaries(st.sampled_from(ITEM), values, max_size=4)
events = st.tuples(contexts, st.lists(items, min_size=3, max_size=5), st.sampled_from([0.0, 1.0, 0.5]))


@pytest.mark.parametrize("pairs", ["j>i", "j>=i"])
@given(x=st.dictionaries(st.integers(0, COLUMNS - 1), values), seed=st.integers(0, 99))
def test_predict(pairs: str, x: dict[int, float], seed: int) -> None:
    pair = Pair(Hyperparameters(factors=3, pairs=pairs), seed)
    theta, rule = pair.kernel.parameters.theta, pair.kernel.rule
    expected = reference.score(pair.theta64(), x, {}, pairs)
    assert predict(theta, rule.pairs, vector(x)) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("pairs", ["across", "j>i", "j>=i"])
@given(context=contexts, item=items)
def test_parts_fold_into_the_whole(pairs: str, context: dict[int, float], item: dict[int, float]) -> None:
    pair = Pair(Hyperparameters(factors=5, pairs=pairs))
    theta, code = pair.kernel.parameters.theta, pair.kernel.rule.pairs
    q, z = np.empty(5, np.float32), np.empty(5, np.float32)
    score = theta.w0[0] + fold(theta, code, vector(context), q) + fold(theta, code, vector(item), z) + q @ z
    assert score == pytest.approx(reference.score(pair.theta64(), context, item, pairs), rel=1e-4, abs=1e-4)


CONFIGURATIONS = list(
    itertools.product(
        ["squared", "logistic", "softmax", "bpr"],
        ["sgd", "adagrad"],
        ["fixed", "paper", "per-field"],
        ["across", "j>i", "j>=i"],
    )
)


@pytest.mark.parametrize(("loss", "optimizer", "regularization", "pairs"), CONFIGURATIONS)
@given(
    stream=st.lists(events, min_size=1, max_size=6),
    weights=st.lists(st.sampled_from([1.0, 0.2, 3.0, -1.0, -0.5]), min_size=6, max_size=6),
    seed=st.integers(0, 9),
    window=st.sampled_from([0.0, 1.0, 3.0]),
)
@settings(max_examples=15)
def test_learn(
    loss: str, optimizer: str, regularization: str, pairs: str, stream: list, weights: list, seed: int, window: float
) -> None:
    h = Hyperparameters(
        factors=3,
        loss=loss,
        optimizer=optimizer,
        regularization=regularization,
        pairs=pairs,
        learning_rate=0.005,
        adagrad_floor=0.1,  # smooth: near zero gradients AdaGrad's direction is the sign of a rounding error
        adagrad_window=window,
        intercept_penalty=0.05,
        linear_penalty=0.1,
        factor_penalty=0.2,
        penalty_rate=0.001,
    )
    pair = Pair(h, seed)
    for (context, candidates, target), weight in zip(stream, weights, strict=False):
        pair.learn(context, candidates, target, weight)
    pair.assert_equal()


@pytest.mark.parametrize(("intercept", "linear"), [(False, False), (True, False), (False, True)])
@given(stream=st.lists(events, min_size=1, max_size=4))
@settings(max_examples=15)
def test_learn_without_intercept_or_weights(intercept: bool, linear: bool, stream: list) -> None:
    h = Hyperparameters(
        factors=2, loss="squared", negatives=0, optimizer="sgd", learning_rate=0.02, intercept=intercept, linear=linear
    )
    pair = Pair(h)
    for context, candidates, target in stream:
        pair.learn(context, candidates, target)
    pair.assert_equal()
    theta = pair.kernel.parameters.theta
    assert intercept or theta.w0[0] == 0
    assert linear or not theta.w.any()


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax", "bpr"])
@given(
    scores=st.lists(st.floats(-8, 8), min_size=1, max_size=6),
    target=st.floats(0, 1),
    weight=st.sampled_from([1.0, 0.2, 3.0, -1.0, -0.5]),
)
def test_losses(loss: str, scores: list[float], target: float, weight: float) -> None:
    if loss == "bpr" and len(scores) == 1 and weight > 0:
        return  # a mean over no negatives
    y, g = np.array(scores), np.empty(len(scores))
    total = losses.gradients(losses.CODES[loss], target, weight, y, g)
    np.testing.assert_allclose(g, reference.loss_gradient(loss, scores, target, weight), atol=1e-12)
    assert total == pytest.approx(g.sum(), abs=1e-12)


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax", "bpr"])
@pytest.mark.parametrize("weight", [1.0, 0.3, -1.0, -2.0])
def test_the_gradient_of_a_weighted_loss_is_its_slope(loss: str, weight: float) -> None:
    scores, h = [0.4, -0.9, 1.3, 0.2], 1e-6
    g = reference.loss_gradient(loss, scores, 0.7, weight)
    for j in range(len(scores)):
        up, down = ([y + sign * h * (n == j) for n, y in enumerate(scores)] for sign in (1, -1))
        slope = (reference.loss(loss, up, 0.7, weight) - reference.loss(loss, down, 0.7, weight)) / (2 * h)
        assert g[j] == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("loss", ["softmax", "bpr"])
def test_what_speaks_against_an_item_pushes_it_below_the_drawn_ones(loss: str) -> None:
    y, g = np.array([2.0, 0.5, -1.0]), np.empty(3)
    losses.gradients(losses.CODES[loss], 1.0, -1.0, y, g)
    assert g[0] > 0 > max(g[1:])
    far = np.empty(3)
    losses.gradients(losses.CODES[loss], 1.0, -1.0, np.array([-9.0, 0.5, -1.0]), far)
    assert far[0] < 0.01 * g[0], "once it is far below, nothing pushes it further"


def test_a_linear_machine_has_no_factors() -> None:
    pair = Pair(Hyperparameters(factors=0, loss="squared", negatives=0, regularization="per-field"))
    for _ in range(3):
        pair.learn({0: 1.0, 1: 0.5}, [{5: 1.0}])
    pair.assert_equal()


@pytest.mark.parametrize(("start", "bound"), [(1e-8, 1e-8), (100.0, 100.0)])
def test_the_per_field_lambda_stays_in_its_bounds(start: float, bound: float) -> None:
    h = Hyperparameters(factors=2, loss="squared", negatives=0, factor_penalty=start, learning_rate=1e-4, penalty_rate=1.0)
    pair = Pair(h)
    for n in range(12):
        pair.learn({0: 1.0, 1: 1.0}, [{5: 1.0}], target=float(n % 2))
    low, high = pair.kernel.parameters.optimizer.lambda_V.min(), pair.kernel.parameters.optimizer.lambda_V.max()
    assert 1e-8 <= low <= high <= 100
    assert bound in (low, high)
    pair.assert_equal()


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
@pytest.mark.parametrize("regularization", ["paper", "per-field"])
@pytest.mark.parametrize("pairs", ["across", "j>i"])
@pytest.mark.parametrize("seed", range(3))
def test_every_lambda_moves_as_the_twins_does(optimizer: str, regularization: str, pairs: str, seed: int) -> None:
    """A λ moves by little, so it is the moves that have to agree and not where they lead."""
    h = Hyperparameters(
        factors=3,
        loss="squared",
        negatives=0,
        optimizer=optimizer,
        regularization=regularization,
        pairs=pairs,
        learning_rate=0.05,
        adagrad_floor=0.1,
        adagrad_window=4.0,
        intercept_penalty=0.5,
        linear_penalty=0.5,
        factor_penalty=0.5,
    )
    pair, rng = Pair(h, seed), np.random.default_rng(seed)
    for _ in range(5):
        x = {int(c): float(rng.uniform(0.5, 1)) for c in rng.choice(5, 3, replace=False)}
        item = {int(c) + 5: float(rng.uniform(0.5, 1)) for c in rng.choice(5, 2, replace=False)}
        before = lambdas(pair)
        pair.learn(x, [item], 1.0)
        for (ours, theirs), (was, was_theirs) in zip(lambdas(pair), before, strict=True):
            moved, expected = ours - was, theirs - was_theirs
            np.testing.assert_allclose(moved, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max(initial=0) + 1e-9)
    starts = [0.5 - ours for ours, _ in lambdas(pair)]
    assert all(np.any(np.abs(move) > 1e-5) for move in starts[regularization == "per-field" :])


def lambdas(pair: Pair) -> list[tuple[np.ndarray, np.ndarray]]:
    """λ0, λ of w and λ of V, of the kernels and of the twin."""
    state, twin = pair.kernel.parameters.optimizer, pair.twin
    groups = sorted(twin.lambda_w)
    return [
        (np.array([float(state.lambda0[0])]), np.array([twin.lambda0])),
        (state.lambda_w[groups].astype(float), np.array([twin.lambda_w[g] for g in groups])),
        (state.lambda_V[groups].astype(float), np.array([twin.lambda_V[g] for g in groups])),
    ]


@pytest.mark.parametrize("regularization", ["fixed", "paper", "per-field"])
@pytest.mark.parametrize("part", ["w0", "w", "V"])
def test_a_sum_of_squares_that_overflows_is_a_divergence(part: str, regularization: str) -> None:
    """A parameter whose sum is infinite has a rate of 0 from then on: it would be frozen, and nobody would know."""
    h = Hyperparameters(
        factors=9 if part == "V" else 0,  # one register of eight, and one more
        loss="squared",
        negatives=0,
        pairs="j>i",
        regularization=regularization,
        intercept=part == "w0",
        linear=part == "w",
    )
    for place in (0, 8) if part == "V" else (0,):
        pair = Pair(h)
        pair.kernel.parameters.theta.V[1] = 0.0
        pair.kernel.parameters.theta.V[1, place : place + 1] = 0.5
        before = {name: array.tobytes() for name, array in pair.kernel.state().items()}
        x = {} if part == "w0" else {0: 1.0} if part == "w" else {0: 1.0, 1: 1.0}
        assert not pair.learn_kernel(x, [{}], 1e20)  # its gradient is a float32, the square is not
        assert {name: array.tobytes() for name, array in pair.kernel.state().items()} == before
        assert pair.learn_kernel(x, [{}], 1.0)


@pytest.mark.parametrize(
    ("loss", "scores", "expected"),
    [
        ("softmax", [1000.0, -1000.0, 0.0], [0.0, 0.0, 0.0]),
        ("softmax", [-1000.0, 1000.0, 0.0], [-1.0, 1.0, 0.0]),
        ("softmax", [-1000.0, 1000.0, 1000.0], [-1.0, 0.5, 0.5]),
        ("softmax", [-1000.0, -1000.0], [-0.5, 0.5]),
        ("bpr", [-1000.0, 1000.0, -1000.0], [-0.75, 0.5, 0.25]),
        ("bpr", [1000.0, -1000.0], [0.0, 0.0]),
        ("logistic", [1000.0, -1000.0, 1000.0], [0.0, 0.0, 1.0]),
        ("logistic", [-1000.0, 1000.0], [-1.0, 1.0]),
    ],
)
def test_no_loss_overflows(loss: str, scores: list[float], expected: list[float]) -> None:
    g = np.empty(len(scores))
    total = losses.gradients(losses.CODES[loss], 1.0, 1.0, np.array(scores), g)
    np.testing.assert_allclose(g, expected, atol=1e-12)
    assert total == pytest.approx(sum(expected), abs=1e-12)
