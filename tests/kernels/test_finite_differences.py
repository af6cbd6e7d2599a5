"""Every update rule descends the gradient that finite differences find. A flipped sign or a lost term shows here."""

import copy

import numpy as np
import pytest
from machines import COLUMNS, FIELD_OF, Pair

from coldstream.config import Hyperparameters
from coldstream.model import reference

LOSSES = ["squared", "logistic", "softmax", "bpr"]
PAIRS = ["across", "j>i", "j>=i"]
H = 1e-6

CONTEXT = {0: 1.0, 1: -0.5, 3: 0.7}
ITEMS = [{5: 1.0, 7: 0.6}, {6: 1.0, 7: 1.0, 8: 0.4}, {9: 1.0}]
LATER_CONTEXT = {0: 1.0, 2: 0.8, 3: -0.4}
LATER_ITEMS = [{6: 1.0, 7: 0.5}, {5: 1.0, 8: 1.0}, {9: 1.0, 7: -0.3}]


def hyperparameters(loss: str, pairs: str, **changes: object) -> Hyperparameters:
    plain = {"optimizer": "sgd", "regularization": "fixed", "learning_rate": 1e-3, "adagrad_floor": 1e-6}
    none = {"intercept_penalty": 0.0, "linear_penalty": 0.0, "factor_penalty": 0.0}
    return Hyperparameters(factors=3, loss=loss, pairs=pairs, **(plain | none | changes))


def loss_at(theta: reference.Theta, h: Hyperparameters, context: dict, items: list, target: float) -> float:
    return reference.Machine(h, theta, FIELD_OF).loss(context, items, target)


def numeric_gradient(theta: reference.Theta, h: Hyperparameters, target: float) -> reference.Theta:
    """∂ℓ/∂θ by central differences, coordinate by coordinate."""
    out = reference.Theta(0.0, np.zeros_like(theta.w), np.zeros_like(theta.V))

    def slope(move: callable) -> float:
        up, down = copy.deepcopy(theta), copy.deepcopy(theta)
        move(up, H)
        move(down, -H)
        return (loss_at(up, h, CONTEXT, ITEMS, target) - loss_at(down, h, CONTEXT, ITEMS, target)) / (2 * H)

    out.w0 = slope(lambda t, d: setattr(t, "w0", t.w0 + d))
    for i in range(COLUMNS):
        out.w[i] = slope(lambda t, d, i=i: t.w.__setitem__(i, t.w[i] + d))
        for f in range(theta.V.shape[1]):
            out.V[i, f] = slope(lambda t, d, i=i, f=f: t.V.__setitem__((i, f), t.V[i, f] + d))
    return out


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_parameters(loss: str, pairs: str, penalty: float) -> None:
    """One step of plain descent moves every touched parameter by −η (∂ℓ/∂θ + 2λθ), and no other."""
    penalties = dict.fromkeys(("intercept_penalty", "linear_penalty", "factor_penalty"), penalty)
    h = hyperparameters(loss, pairs, learning_rate=0.01, **penalties)
    pair = Pair(h)
    before = pair.theta64()
    expected = numeric_gradient(before, h, 0.7)
    assert pair.learn_kernel(CONTEXT, ITEMS, 0.7)
    after = pair.theta64()
    touched = np.zeros(COLUMNS)
    touched[[*CONTEXT, *{column for item in ITEMS for column in item}]] = 1

    step = {"rtol": 2e-3, "atol": 2e-4}
    np.testing.assert_allclose((before.w0 - after.w0) / 0.01, expected.w0 + 2 * penalty * before.w0, **step)
    np.testing.assert_allclose((before.w - after.w) / 0.01, expected.w + 2 * penalty * before.w * touched, **step)
    expected_V = expected.V + 2 * penalty * before.V * touched[:, None]
    np.testing.assert_allclose((before.V - after.V) / 0.01, expected_V, **step)
    assert not expected.V[[2, 4]].any()
    np.testing.assert_array_equal(after.V[[2, 4]], before.V[[2, 4]])


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("loss", LOSSES)
def test_adagrad(loss: str, pairs: str) -> None:
    """A first AdaGrad step divides each coordinate's gradient by its own size."""
    h = hyperparameters(loss, pairs, optimizer="adagrad", learning_rate=0.01)
    pair = Pair(h)
    before = pair.theta64()
    g = numeric_gradient(before, h, 0.7).V
    assert pair.learn_kernel(CONTEXT, ITEMS, 0.7)
    np.testing.assert_allclose(before.V - pair.theta64().V, 0.01 * g / np.sqrt(g**2 + 1e-6), rtol=2e-3, atol=2e-6)


def later_loss(start: reference.Theta, h: Hyperparameters, move: callable) -> float:
    """The loss of the second event after a first update with moved λ: what the λ-gradient is the derivative of."""
    machine = reference.Machine(h, copy.deepcopy(start), FIELD_OF)
    move(machine)
    machine.learn(CONTEXT, ITEMS, 0.7)
    return machine.loss(LATER_CONTEXT, LATER_ITEMS, 0.4)


def numeric_slope(start: reference.Theta, h: Hyperparameters, move: callable) -> float:
    up = later_loss(start, h, lambda machine: move(machine, H))
    down = later_loss(start, h, lambda machine: move(machine, -H))
    return (up - down) / (2 * H)


def move_lambda0(machine: reference.Machine, d: float) -> None:
    machine.lambda0 += d


def move_lambda_w(machine: reference.Machine, d: float, group: int = 0) -> None:
    machine.lambda_w[group] += d


def move_lambda_V(machine: reference.Machine, d: float, group: int = 0, factor: int | None = None) -> None:
    machine.lambda_V[group] = machine.lambda_V[group].copy()
    machine.lambda_V[group][slice(None) if factor is None else factor] += d


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_papers_lambda(loss: str, pairs: str) -> None:
    """λ ← max(0, λ − η ∂ℓ/∂λ): it descends, and through the parameters that the previous update wrote."""
    eta = 0.05
    penalties = {"intercept_penalty": 0.5, "linear_penalty": 0.4, "factor_penalty": 0.3}
    h = hyperparameters(loss, pairs, learning_rate=eta, regularization="paper", **penalties)
    pair = Pair(h)
    start = pair.theta64()
    # In the twin λ stays put while the slope is measured: only the first update feels the moved λ.
    fixed = h.with_(regularization="fixed")
    slope0 = numeric_slope(start, fixed, move_lambda0)
    slope_w = numeric_slope(start, fixed, move_lambda_w)
    slope_f = [
        numeric_slope(start, fixed, lambda machine, d, f=f: move_lambda_V(machine, d, factor=f)) for f in range(h.factors)
    ]
    assert pair.learn_kernel(CONTEXT, ITEMS, 0.7)
    state = pair.kernel.parameters.optimizer
    assert (state.lambda0[0], state.lambda_w[0]) == pytest.approx((0.5, 0.4))  # nothing was learned before
    assert pair.learn_kernel(LATER_CONTEXT, LATER_ITEMS, 0.4)
    step = {"rtol": 2e-3, "atol": 3e-5}
    np.testing.assert_allclose((0.5 - state.lambda0[0]) / eta, slope0, **step)
    np.testing.assert_allclose((0.4 - state.lambda_w[0]) / eta, slope_w, **step)
    np.testing.assert_allclose((0.3 - state.lambda_V[0]) / eta, slope_f, **step)
    assert max(map(abs, slope_f)) > 1e-4  # the test can fail


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("loss", LOSSES)
def test_lambda_per_field(loss: str, pairs: str) -> None:
    """Every field's λ-gradient is the true derivative, and log λ moves against it."""
    penalties = {"linear_penalty": 0.4, "factor_penalty": 0.3}
    h = hyperparameters(loss, pairs, learning_rate=0.05, regularization="per-field", penalty_rate=0.01, **penalties)
    pair = Pair(h)
    start = pair.theta64()
    assert pair.learn_kernel(CONTEXT, ITEMS, 0.7)
    state = pair.kernel.parameters.optimizer
    np.testing.assert_allclose(state.lambda_V, 0.3)
    assert pair.learn_kernel(LATER_CONTEXT, LATER_ITEMS, 0.4)

    class Still(reference.Machine):
        def _adapt_per_field(self, gradient: reference.Theta, touched: list[int]) -> None:
            pass

    def slope(move: callable, group: int) -> float:
        losses = []
        for d in (H, -H):
            machine = Still(h, copy.deepcopy(start), FIELD_OF)
            move(machine, d, group)
            machine.learn(CONTEXT, ITEMS, 0.7)
            losses.append(machine.loss(LATER_CONTEXT, LATER_ITEMS, 0.4))
        return (losses[0] - losses[1]) / (2 * H)

    for group in set(FIELD_OF):
        for part, move, penalty, now in (
            (0, move_lambda_w, 0.4, state.lambda_w[group]),
            (1, move_lambda_V, 0.3, state.lambda_V[group, 0]),
        ):
            expected = slope(move, group)
            size = np.sqrt(state.penalty_mean_square[part, group])  # after one step the root mean square is |H| itself
            np.testing.assert_allclose(size, abs(expected), rtol=5e-3, atol=2e-5)
            if abs(expected) > 1e-4:
                assert now == pytest.approx(penalty * np.exp(-0.01 * np.sign(expected)), rel=1e-5)
