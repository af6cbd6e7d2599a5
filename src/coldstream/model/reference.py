"""The slow twin of the kernels: the same model written from its definition, in plain Python and float64.

It sums over pairs where the kernels use the O(k·nz) identity, copies the whole of Θ where they keep touched rows, and scores
each candidate as one whole vector where they share the context. It is for tests and for reading; no shipped module imports
it.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from coldstream.config import Hyperparameters
from coldstream.support.arrays import Doubles

Vector = Mapping[int, float]
"""A sparse vector: column → value."""


@dataclass
class Theta:
    """The dense parameters."""

    w0: float
    w: Doubles
    V: Doubles


def interacting(context: Vector, item: Vector, pairs: str) -> list[tuple[int, int]]:
    """Return the pairs of columns that interact: all with j > i or j ≥ i, or one of the context with one of the item."""
    if pairs == "across":
        return [(i, j) for i in context for j in item]
    columns = [*context, *item]
    return [(i, j) for a, i in enumerate(columns) for j in columns[a if pairs == "j>=i" else a + 1 :]]


def score(theta: Theta, context: Vector, item: Vector, pairs: str) -> float:
    """Return ŷ = w0 + Σ w_i x_i + Σ ⟨v_i, v_j⟩ x_i x_j over the interacting pairs. A plain sample is all context."""
    x = {**context, **item}
    y = theta.w0 + sum(theta.w[i] * x[i] for i in x)
    for i, j in interacting(context, item, pairs):
        y += float(np.dot(theta.V[i], theta.V[j])) * x[i] * x[j]
    return float(y)


def score_gradient(theta: Theta, context: Vector, item: Vector, pairs: str) -> Theta:
    """Return ∂ŷ/∂θ for every parameter, pair by pair."""
    out, x = Theta(1.0, np.zeros_like(theta.w), np.zeros_like(theta.V)), {**context, **item}
    for i in x:
        out.w[i] = x[i]
    for i, j in interacting(context, item, pairs):
        out.V[i] += x[i] * x[j] * theta.V[j]
        out.V[j] += x[i] * x[j] * theta.V[i]
    return out


def loss(kind: str, scores: Sequence[float], target: float, weight: float = 1.0) -> float:
    """Return the loss of one event.

    Score 0 is that of the chosen item, the others are negatives; a weight below 0 is against it.
    """
    return abs(weight) * (_opposed_loss(kind, scores) if weight < 0.0 else _loss(kind, scores, target))


def _opposed_loss(kind: str, scores: Sequence[float]) -> float:
    first, *others = scores
    if kind == "squared":
        return first**2
    if kind == "logistic":
        return math.log1p(math.exp(first))
    if not others:
        return 0.0
    if kind == "softmax":  # −log(1 − p0)
        return math.log(sum(math.exp(y) for y in scores)) - math.log(sum(math.exp(y) for y in others))
    return sum(math.log1p(math.exp(first - y)) for y in others) / len(others)


def _loss(kind: str, scores: Sequence[float], target: float) -> float:
    wanted = [target] + [0.0] * (len(scores) - 1)
    if kind == "squared":
        return sum((y - t) ** 2 for y, t in zip(scores, wanted, strict=True))
    if kind == "logistic":
        return sum(math.log1p(math.exp(y)) - t * y for y, t in zip(scores, wanted, strict=True))
    if kind == "softmax":
        return math.log(sum(math.exp(y) for y in scores)) - scores[0]
    return sum(math.log1p(math.exp(y - scores[0])) for y in scores[1:]) / (len(scores) - 1)


def loss_gradient(kind: str, scores: Sequence[float], target: float, weight: float = 1.0) -> list[float]:
    """Return ∂ℓ/∂ŷ of every score."""
    own = _opposed_gradient(kind, scores) if weight < 0.0 else _gradient(kind, scores, target)
    return [abs(weight) * g for g in own]


def _opposed_gradient(kind: str, scores: Sequence[float]) -> list[float]:
    first, *others = scores
    if kind == "squared":
        return [2.0 * first, *(0.0 for _ in others)]
    if kind == "logistic":
        return [1.0 / (1.0 + math.exp(-first)), *(0.0 for _ in others)]
    if not others:
        return [0.0]
    if kind == "softmax":
        total, rest = sum(math.exp(y) for y in scores), sum(math.exp(y) for y in others)
        return [math.exp(first) / total, *(math.exp(y) / total - math.exp(y) / rest for y in others)]
    push = [1.0 / (1.0 + math.exp(y - first)) / len(others) for y in others]
    return [sum(push), *(-own for own in push)]


def _gradient(kind: str, scores: Sequence[float], target: float) -> list[float]:
    wanted = [target] + [0.0] * (len(scores) - 1)
    if kind == "squared":
        return [2.0 * (y - t) for y, t in zip(scores, wanted, strict=True)]
    if kind == "logistic":
        return [1.0 / (1.0 + math.exp(-y)) - t for y, t in zip(scores, wanted, strict=True)]
    if kind == "softmax":
        total = sum(math.exp(y) for y in scores)
        return [math.exp(y) / total - (j == 0) for j, y in enumerate(scores)]
    pull = [1.0 / (1.0 + math.exp(scores[0] - y)) / (len(scores) - 1) for y in scores[1:]]
    return [-sum(pull), *pull]


@dataclass
class Machine:
    """The incremental factorization machine, one event at a time. `fields` gives each column's field."""

    hyperparameters: Hyperparameters
    theta: Theta
    fields: Sequence[int]
    lambda0: float = field(init=False)
    lambda_w: dict[int, float] = field(init=False)
    lambda_V: dict[int, Doubles] = field(init=False)
    H: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Last λ-gradients of w and V by field, with regularization per field."""

    def __post_init__(self) -> None:
        h = self.hyperparameters
        groups = sorted(set(self.fields)) if h.regularization == "per-field" else [0]
        self.lambda0 = h.intercept_penalty
        self.lambda_w = dict.fromkeys(groups, h.linear_penalty)
        self.lambda_V = {g: np.full(h.factors, h.factor_penalty) for g in groups}
        self._squares = Theta(0.0, np.zeros_like(self.theta.w), np.zeros_like(self.theta.V))
        self._sensitivity = Theta(0.0, np.zeros_like(self.theta.w), np.zeros_like(self.theta.V))
        self._mean_square: dict[tuple[int, str], float] = {}
        self._renewed: set[int] = set()

    def scores(self, context: Vector, candidates: Sequence[Vector]) -> list[float]:
        """Return ŷ of every candidate in the context."""
        return [score(self.theta, context, own, self.hyperparameters.pairs) for own in candidates]

    def loss(self, context: Vector, candidates: Sequence[Vector], target: float = 1.0, weight: float = 1.0) -> float:
        """Return the loss of one event."""
        return loss(self.hyperparameters.loss, self.scores(context, candidates), target, weight)

    def learn(self, context: Vector, candidates: Sequence[Vector] = ({},), target: float = 1.0, weight: float = 1.0) -> None:
        """Learn one event: predict, adapt λ, update Θ."""
        gradient = self.gradient(context, candidates, target, weight)
        touched = sorted(set(context).union(*candidates))
        if self.hyperparameters.regularization == "paper":
            self._adapt_paper(gradient, touched)
        elif self.hyperparameters.regularization == "per-field":
            self._adapt_per_field(gradient, touched)
        self._update(gradient, touched)

    def renew(self) -> None:
        """Reset AdaGrad's sums of every column at its next update."""
        self._renewed = set(range(len(self.fields)))

    def gradient(self, context: Vector, candidates: Sequence[Vector], target: float = 1.0, weight: float = 1.0) -> Theta:
        """Return ∂ℓ/∂θ = Σ_j ∂ℓ/∂ŷ_j ∂ŷ_j/∂θ for every parameter."""
        g = loss_gradient(self.hyperparameters.loss, self.scores(context, candidates), target, weight)
        total = Theta(0.0, np.zeros_like(self.theta.w), np.zeros_like(self.theta.V))
        for gj, own in zip(g, candidates, strict=True):
            part = score_gradient(self.theta, context, own, self.hyperparameters.pairs)
            total.w0 += gj * part.w0
            total.w += gj * part.w
            total.V += gj * part.V
        return total

    def _adapt_paper(self, gradient: Theta, touched: Sequence[int]) -> None:
        eta, s = self.hyperparameters.learning_rate, self._sensitivity
        self.lambda0 = max(0.0, self.lambda0 - eta * gradient.w0 * s.w0)
        self.lambda_w[0] = max(0.0, self.lambda_w[0] - eta * sum(gradient.w[i] * s.w[i] for i in touched))
        H = sum((gradient.V[i] * s.V[i] for i in touched), np.zeros(self.hyperparameters.factors))
        self.lambda_V[0] = np.maximum(0.0, self.lambda_V[0] - eta * H)

    def _adapt_per_field(self, gradient: Theta, touched: Sequence[int]) -> None:
        for group in {self.fields[i] for i in touched}:
            own = [i for i in touched if self.fields[i] == group]
            Hw = sum(gradient.w[i] * self._sensitivity.w[i] for i in own)
            HV = sum(float(np.dot(gradient.V[i], self._sensitivity.V[i])) for i in own)
            self.H[group] = (Hw, HV)
            self.lambda_w[group] = _bounded(self.lambda_w[group] * self._log_step(group, "w", Hw))
            factor = self._log_step(group, "V", HV)
            self.lambda_V[group] = np.array([_bounded(penalty * factor) for penalty in self.lambda_V[group]])

    def _log_step(self, group: int, part: str, H: float) -> float:
        if H == 0.0:
            return 1.0
        before = self._mean_square.get((group, part), H * H)
        mean = self._mean_square[group, part] = 0.99 * before + 0.01 * H * H
        return math.exp(-self.hyperparameters.penalty_rate * min(3.0, max(-3.0, H / math.sqrt(mean))))

    def _update(self, gradient: Theta, touched: Sequence[int]) -> None:
        h, old = self.hyperparameters, copy.deepcopy(self.theta)
        kept = 1.0 - 1.0 / h.adagrad_window if h.adagrad_window else 1.0
        if h.regularization == "paper":  # a horizon of one event: only the last update counts
            self._sensitivity = Theta(0.0, np.zeros_like(old.w), np.zeros_like(old.V))
        s = self._sensitivity
        if h.intercept:
            step = gradient.w0 + 2.0 * self.lambda0 * old.w0
            self._squares.w0 = kept * self._squares.w0 + step**2
            rate = float(self._rate(self._squares.w0))
            self.theta.w0 -= rate * step
            s.w0 = -2.0 * rate * old.w0
        always = kept
        for i in touched:
            kept = 0.0 if i in self._renewed else always
            self._renewed.discard(i)
            group = self.fields[i] if h.regularization == "per-field" else 0
            carried = 1.0 if h.regularization == "per-field" else 0.0
            if h.linear:
                step = gradient.w[i] + 2.0 * self.lambda_w[group] * old.w[i]
                self._squares.w[i] = kept * self._squares.w[i] + step**2
                rate = float(self._rate(self._squares.w[i]))
                self.theta.w[i] -= rate * step
                s.w[i] = carried * (1.0 - 2.0 * rate * self.lambda_w[group]) * s.w[i] - 2.0 * rate * old.w[i]
            penalty = self.lambda_V[group]
            steps = gradient.V[i] + 2.0 * penalty * old.V[i]
            self._squares.V[i] = kept * self._squares.V[i] + steps**2
            rates = self._rate(self._squares.V[i])
            self.theta.V[i] -= rates * steps
            s.V[i] = carried * (1.0 - 2.0 * rates * penalty) * s.V[i] - 2.0 * rates * old.V[i]

    def _rate(self, squares: float | Doubles) -> Doubles:
        h = self.hyperparameters
        floor = h.adagrad_floor
        return np.asarray(h.learning_rate / np.sqrt(squares + floor) if h.optimizer == "adagrad" else h.learning_rate)


def _bounded(penalty: float) -> float:
    """Bound a λ per field to the range in which a step of its logarithm has an effect."""
    return float(min(100.0, max(1e-8, penalty)))
