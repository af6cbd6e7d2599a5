"""Θ and what learning remembers, in float32 arrays that grow by doubling."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import checked_columns, grown
from coldstream.config import Hyperparameters
from coldstream.model.counter import fill_normal
from coldstream.model.shapes import Memory, Theta

_PER_COLUMN = ("w", "V", "field", "Gw", "GV", "Sw", "SV")
_PER_TOUCH = ("sw", "sV", "touched")


class Parameters:
    """The arrays of one machine. Columns are admitted and released one at a time; kernels do the rest."""

    def __init__(self, hyperparameters: Hyperparameters) -> None:
        h, k = hyperparameters, hyperparameters.factors
        self._deviation = h.initial_deviation
        self._adagrad = h.optimizer == "adagrad"
        self._per_field = h.regularization == "per-field"
        self._paper = h.regularization == "paper"
        self._penalties = (h.linear_penalty, h.factor_penalty)
        self.columns = 0
        self.fields = 0
        f, i = np.float32, np.int32
        self.theta = Theta(np.zeros(1, f), np.zeros(0, f), np.zeros((0, k), f), np.zeros(0, i))
        self.memory = Memory(
            G0=np.zeros(1, f),
            Gw=np.zeros(0, f),
            GV=np.zeros((0, k), f),
            lambda0=np.full(1, h.intercept_penalty, np.float64),
            lambda_w=np.zeros(0),
            lambda_V=np.zeros((0, k)),
            scale=np.zeros((2, 0)),
            Sw=np.zeros(0, f),
            SV=np.zeros((0, k), f),
            s0=np.zeros(1, f),
            sw=np.zeros(0, f),
            sV=np.zeros((0, k), f),
            touched=np.zeros(0, i),
            touches=np.zeros(1, i),
            position=np.zeros(0, i),
            factored=np.zeros(0, np.uint8),
        )
        self._add_groups(1)

    def grow(self, columns: int, fields: int) -> None:
        """Make room for columns and fields. New columns are all zero until they are admitted."""
        theta, memory = self.theta, self.memory
        if columns > len(theta.w):
            # One array after the other: at no time are two generations of all of them alive.
            self.theta = theta = theta._replace(w=grown(theta.w, columns), field=grown(theta.field, columns))
            self.theta = theta = theta._replace(V=grown(theta.V, columns))
            rows = len(theta.w)
            memory = memory._replace(position=grown(memory.position, rows, -1))
            if self._adagrad:
                memory = memory._replace(Gw=grown(memory.Gw, rows), GV=grown(memory.GV, rows))
            if self._per_field:
                memory = memory._replace(Sw=grown(memory.Sw, rows), SV=grown(memory.SV, rows))
            self.memory = memory
        self.columns = max(self.columns, columns)
        if fields > self.fields:
            factored = np.ones(fields, np.uint8)
            factored[: self.fields] = memory.factored
            self.memory = memory._replace(factored=factored)
            if self._per_field:
                self._add_groups(fields)
            self.fields = fields

    def make_room(self, touched: int) -> None:
        """Make room for the columns that one update may touch."""
        memory = self.memory
        if touched > len(memory.touched):
            self.memory = memory._replace(touched=grown(memory.touched, touched))
            if self._paper:
                self.memory = self.memory._replace(sw=grown(memory.sw, touched), sV=grown(memory.sV, touched))

    def admit(self, column: int, field: int, key: np.uint64) -> None:
        """Start a feature: w = 0, and V drawn from N(0, σ²) by nothing but the feature's key."""
        self.theta.field[column] = field
        if self.memory.factored[field]:
            fill_normal(key, self._deviation, self.theta.V[column])

    def release(self, column: int) -> None:
        """Wipe a column, in the memory of the last update as well."""
        theta, memory = self.theta, self.memory
        for array in (theta.w, theta.V, theta.field, memory.Gw, memory.GV, memory.Sw, memory.SV):
            if column < len(array):
                array[column] = 0
        if self._paper:
            last = np.flatnonzero(memory.touched[: memory.touches[0]] == column)
            memory.sw[last] = 0
            memory.sV[last] = 0

    def truncate(self, columns: int, fields: int) -> None:
        """Give up columns at the end, all of them released, and fields."""
        self.columns = columns
        if fields < self.fields:
            memory = self.memory._replace(factored=self.memory.factored[:fields].copy())
            if self._per_field:
                memory = memory._replace(
                    lambda_w=memory.lambda_w[:fields].copy(),
                    lambda_V=memory.lambda_V[:fields].copy(),
                    scale=memory.scale[:, :fields].copy(),
                )
            self.memory = memory
            self.fields = fields

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of all that a machine needs to go on with the same bits."""
        arrays = self.theta._asdict() | self.memory._asdict()
        del arrays["position"]
        rows = dict.fromkeys(_PER_COLUMN, self.columns) | dict.fromkeys(_PER_TOUCH, int(self.memory.touches[0]))
        return {name: array[: rows.get(name, len(array))].copy() for name, array in arrays.items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of `state`. Every array must have the type and the shape this configuration gives it."""
        columns, fields = len(state["w"]), len(state["factored"])
        checked_columns("field", state["field"], 0, max(fields, 1))
        checked_columns("touched", state["touched"], 0, columns)
        checked_columns("touches", state["touches"], 0, len(state["touched"]) + 1)
        self.grow(columns, fields)
        self.make_room(len(state["touched"]))
        for part in (self.theta, self.memory):
            for name, array in part._asdict().items():
                if name != "position":
                    source = state[name]
                    rows = columns if name in _PER_COLUMN and len(array) else len(source)
                    fits = len(source) == rows <= len(array) and source.shape[1:] == array.shape[1:]
                    if source.dtype != array.dtype or not fits or not np.isfinite(source).all():
                        raise ValueError(f"{name} has type {source.dtype} and shape {source.shape}")
                    array[: len(source)] = source

    def _add_groups(self, groups: int) -> None:
        memory = self.memory
        old = len(memory.lambda_w)
        lambda_w = np.full(groups, self._penalties[0], np.float64)
        lambda_V = np.full((groups, memory.lambda_V.shape[1]), self._penalties[1], np.float64)
        scale = np.zeros((2, groups))
        lambda_w[:old], lambda_V[:old], scale[:, :old] = memory.lambda_w, memory.lambda_V, memory.scale
        self.memory = memory._replace(lambda_w=lambda_w, lambda_V=lambda_V, scale=scale)
