"""A kernel machine and its twin, side by side on the same parameters."""

from collections.abc import Mapping, Sequence

import numpy as np

from coldstream.config import Hyperparameters
from coldstream.features.sparse import Sparse, sparse
from coldstream.model import reference
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.model.kernels import learn
from coldstream.model.shapes import Candidates

COLUMNS, FIELDS = 10, 4
CONTEXT, ITEM = range(5), range(5, 10)  # columns of the two sides: they never share one
FIELD_OF = [column % FIELDS for column in range(COLUMNS)]


def vector(x: Mapping[int, float]) -> Sparse:
    return sparse(list(x), list(x.values()))


def candidates_of(items: Sequence[Mapping[int, float]]) -> Candidates:
    flat = [(column, value) for item in items for column, value in item.items()]
    offset = np.cumsum([0, *(len(item) for item in items)]).astype(np.int32)
    return Candidates(offset, sparse([column for column, _ in flat], [value for _, value in flat]))


class Pair:
    """The same configuration and the same start in the kernels and in the twin."""

    def __init__(self, hyperparameters: Hyperparameters, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.kernel = FactorizationMachine(hyperparameters)
        self.kernel.parameters.grow(COLUMNS, FIELDS)
        self.kernel.parameters.make_room(100)
        theta = self.kernel.parameters.theta
        self.at = 0
        theta.w0[0] = 0.1 * rng.normal() if hyperparameters.intercept else 0.0
        theta.w[:COLUMNS] = 0.3 * rng.normal(size=COLUMNS) if hyperparameters.linear else 0.0
        theta.V[:COLUMNS] = 0.3 * rng.normal(size=(COLUMNS, hyperparameters.factors))
        theta.field[:COLUMNS] = FIELD_OF
        self.twin = reference.Machine(hyperparameters, self.theta64(), FIELD_OF)
        self._faint: set[tuple[int, int]] = set()

    def theta64(self) -> reference.Theta:
        theta = self.kernel.parameters.theta
        return reference.Theta(
            float(theta.w0[0]), theta.w[:COLUMNS].astype(np.float64), theta.V[:COLUMNS].astype(np.float64)
        )

    def learn_kernel(
        self, context: Mapping[int, float], items: Sequence[Mapping[int, float]], target: float, weight: float = 1.0
    ) -> bool:
        p, x, candidates = self.kernel.parameters, vector(context), candidates_of(items)
        self.at += 1
        return learn(p.rows, p.optimizer, self.kernel.rule, x, candidates, target, weight, self.at)

    def learn(
        self, context: Mapping[int, float], items: Sequence[Mapping[int, float]], target: float = 1.0, weight: float = 1.0
    ) -> None:
        assert self.learn_kernel(context, items, target, weight)
        self.twin.learn(context, items, target, weight)
        # The per-field step is normalised: where a λ-gradient is all rounding error, so is its direction.
        self._faint |= {(g, part) for g, H in self.twin.H.items() for part in (0, 1) if abs(H[part]) < 1e-6}

    def assert_equal(self, tolerance: float = 2e-4) -> None:
        ours, state, twin = self.theta64(), self.kernel.parameters.optimizer, self.twin
        close = {"rtol": tolerance, "atol": tolerance}
        np.testing.assert_allclose(ours.w0, twin.theta.w0, **close)
        np.testing.assert_allclose(ours.w, twin.theta.w, **close)
        np.testing.assert_allclose(ours.V, twin.theta.V, **close)
        np.testing.assert_allclose(state.lambda0[0], twin.lambda0, **close)
        for group in twin.lambda_w:
            if (group, 0) not in self._faint:
                np.testing.assert_allclose(state.lambda_w[group], twin.lambda_w[group], **close)
            if (group, 1) not in self._faint:
                np.testing.assert_allclose(state.lambda_V[group], twin.lambda_V[group], **close)
        assert (state.place == -1).all()
