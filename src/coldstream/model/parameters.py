"""Parameters Θ and optimizer state: a row for every column, in arrays that grow by doubling."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.config import Hyperparameters
from coldstream.model.keyed_random import fill_normal
from coldstream.model.renewal import SURPRISES
from coldstream.model.shapes import OptimizerState, Rows, Theta
from coldstream.support.arrays import Ulongs, checked_columns, copies, grown, grown_up_to, write_back
from coldstream.support.compiled import unchecked_entry

_fill_normal = unchecked_entry(fill_normal)
_PER_TOUCH = ("sw", "sV", "touched")
_TRANSIENT = ("place",)
_YOUNGER = ("surprise",)
"""Arrays that old snapshots lack; they keep their initial values."""


class Parameters:
    """The arrays of one machine. This class allocates, initializes and wipes rows; kernels update them.

    The arrays of a row are listed once, in `Rows`; growing, wiping, saving and restoring iterate over its names.
    """

    def __init__(self, hyperparameters: Hyperparameters) -> None:
        h, k = hyperparameters, hyperparameters.factors
        self._deviation = h.initial_deviation
        self._per_field = h.regularization == "per-field"
        self._paper = h.regularization == "paper"
        self._penalties = (h.linear_penalty, h.factor_penalty)
        self.columns = 0
        self.most_columns = 0
        """Expected maximum number of columns, 0 if unknown. Memory for all of them is reserved at once; it is no limit."""
        self.fields = 0
        self.changes = 0
        """Number of changes: learning, starting, releasing or restoring. While it is unchanged, so is Θ."""
        f, i = np.float32, np.int32
        weights, vectors = np.zeros(0, f), np.zeros((0, k), f)
        self.rows = Rows(np.zeros(0, i), weights, vectors, weights, vectors, weights, vectors, np.zeros(0, np.int64))
        unused = set[str]()
        if h.optimizer != "adagrad":
            unused |= {"Gw", "GV"}
        if not self._per_field:
            unused |= {"Sw", "SV"}
        self.used = [name for name in Rows._fields if name not in unused]
        """Names of the arrays in `Rows` that this configuration uses."""
        self._room = 0  # columns that every array has room for; if memory ran out, some have room for more
        self.optimizer = OptimizerState(
            w0=np.zeros(1, f),
            G0=np.zeros(1, f),
            lambda0=np.full(1, h.intercept_penalty, np.float64),
            lambda_w=np.zeros(0),
            lambda_V=np.zeros((0, k)),
            penalty_mean_square=np.zeros((2, 0)),
            s0=np.zeros(1, f),
            sw=np.zeros(0, f),
            sV=np.zeros((0, k), f),
            touched=np.zeros(0, i),
            touches=np.zeros(1, i),
            surprise=np.zeros(SURPRISES),
            place=np.zeros(0, i),
            factored=np.zeros(0, np.uint8),
        )
        self.theta = self._theta()
        self._add_groups(1)
        used = [getattr(self.rows, name) for name in self.used]
        self.row_bytes = int(sum(own.itemsize * math.prod(own.shape[1:]) for own in used) + self.optimizer.place.itemsize)
        """Memory per column, in bytes."""

    def grow(self, columns: int, fields: int) -> None:
        """Allocate room for `columns` and `fields`. New columns are all zero until they are started."""
        if columns > self._room:
            for name in self.used:  # one after the other, so that old and new copies of all arrays never exist together
                self.rows = self.rows._replace(**{name: grown_up_to(self.most_columns, getattr(self.rows, name), columns)})
                self.theta = self._theta()
            self._room = min(len(getattr(self.rows, name)) for name in self.used)
        if columns > len(self.optimizer.place):  # not zero-filled, so that unused room would use memory
            self.optimizer = self.optimizer._replace(place=grown(self.optimizer.place, columns, -1))
        self.columns = max(self.columns, columns)
        if fields > self.fields:
            factored = np.ones(fields, np.uint8)
            factored[: self.fields] = self.optimizer.factored
            self.optimizer = self.optimizer._replace(factored=factored)
            if self._per_field:
                self._add_groups(fields)
            self.fields = fields

    def reserved(self, first: int, last: int) -> list[NDArray[Any]]:
        """Return the allocated rows from `first` to `last`, of each used array."""
        return [getattr(self.rows, name)[first:last] for name in self.used]

    def make_room(self, touched: int) -> None:
        """Allocate room for the columns that one update may touch."""
        own = self.optimizer
        if touched > len(own.touched):
            self.optimizer = own._replace(touched=grown(own.touched, touched))
            if self._paper:
                self.optimizer = self.optimizer._replace(sw=grown(own.sw, touched), sV=grown(own.sV, touched))

    def start(self, columns: Sequence[int], field: int, keys: Ulongs, at: int) -> None:
        """Initialize features of one field: w = 0, and V drawn from N(0, σ²) by the feature's key alone."""
        self.changes += 1
        rows = np.array(columns, np.int64)
        self.rows.field[rows] = field
        self.rows.touched_at[rows] = at
        if self.optimizer.factored[field]:
            _fill_normal(keys, self._deviation, rows, self.rows.V)

    def release(self, columns: Iterable[int]) -> None:
        """Zero the rows of columns, also in what the paper's regularization keeps of the last update."""
        self.changes += 1
        own, gone = self.optimizer, np.array(list(columns), np.int64)
        for name in self.used:
            getattr(self.rows, name)[gone] = 0
        if self._paper:
            last = np.flatnonzero(np.isin(own.touched[: own.touches[0]], gone))
            own.sw[last] = 0
            own.sV[last] = 0

    def truncate(self, columns: int, fields: int) -> None:
        """Drop trailing columns, all of them released, and trailing fields."""
        self.columns = columns
        if fields < self.fields:
            own = self.optimizer._replace(factored=self.optimizer.factored[:fields].copy())
            if self._per_field:
                own = own._replace(
                    lambda_w=own.lambda_w[:fields].copy(),
                    lambda_V=own.lambda_V[:fields].copy(),
                    penalty_mean_square=own.penalty_mean_square[:, :fields].copy(),
                )
            self.optimizer = own
            self.fields = fields

    def checkpoint(self) -> Callable[[], None]:
        """Return a function that restores the present arrays. Columns added later have to be undone first."""
        rows, columns, own = self.rows, self.columns, self.optimizer
        saved = copies(rows, self.used, columns)
        kept = copies(own, [name for name in own._fields if name not in _TRANSIENT])

        def undo() -> None:
            write_back(self.rows, saved)
            write_back(self.optimizer, kept)
            self.changes += 1

        return undo

    def view(self) -> dict[str, NDArray[Any]]:
        """Return views of all arrays that determine how learning goes on.

        They must not be changed, and hold until the next change.
        """
        touches = int(self.optimizer.touches[0])
        rows = {name: array[: self.columns] for name, array in self.rows._asdict().items()}
        own = self.optimizer._asdict()
        kept = {name: array for name, array in own.items() if name not in _TRANSIENT}
        return rows | {name: array[: touches if name in _PER_TOUCH else None] for name, array in kept.items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore copies of what `view` returned.

        Raise `ValueError` if an array has not the type and shape of this configuration.
        """
        columns, fields = len(state["w"]), len(state["factored"])
        checked_columns("field", state["field"], 0, max(fields, 1))
        checked_columns("touched", state["touched"], 0, columns)
        checked_columns("touches", state["touches"], 0, len(state["touched"]) + 1)
        self._check_lengths(state, columns, fields)
        self.grow(columns, fields)
        self.make_room(len(state["touched"]))
        for name, array in (self.rows._asdict() | self.optimizer._asdict()).items():
            if name not in _TRANSIENT and (name in state or name not in _YOUNGER):
                source = state[name]
                rows = columns if name in self.used else len(source)
                fits = len(source) == rows <= len(array) and source.shape[1:] == array.shape[1:]
                if source.dtype != array.dtype or not fits or not np.isfinite(source).all():
                    raise ValueError(f"{name} has type {source.dtype} and shape {source.shape}")
                array[: len(source)] = source
        self.changes += 1

    def _check_lengths(self, state: Mapping[str, NDArray[Any]], columns: int, fields: int) -> None:
        """Raise `ValueError` for arrays whose lengths contradict each other, before memory is allocated for them."""
        lengths = {name: columns for name in self.used if name not in _YOUNGER or name in state}
        if self._per_field:
            lengths |= {"lambda_w": max(fields, 1), "lambda_V": max(fields, 1)}
        if self._paper:
            lengths |= {"sw": len(state["touched"]), "sV": len(state["touched"])}
        wide = (self.rows._asdict() | self.optimizer._asdict()).items()
        shapes = {name: (length, *own.shape[1:]) for name, own in wide if (length := lengths.get(name)) is not None}
        for name, shape in shapes.items():
            if state[name].shape != shape:
                raise ValueError(f"{name} has shape {state[name].shape}, and should have {shape}")

    def _theta(self) -> Theta:
        return Theta(self.optimizer.w0, self.rows.w, self.rows.V, self.rows.field)

    def _add_groups(self, groups: int) -> None:
        own = self.optimizer
        old = len(own.lambda_w)
        lambda_w = np.full(groups, self._penalties[0], np.float64)
        lambda_V = np.full((groups, own.lambda_V.shape[1]), self._penalties[1], np.float64)
        mean_square = np.zeros((2, groups))
        lambda_w[:old], lambda_V[:old], mean_square[:, :old] = own.lambda_w, own.lambda_V, own.penalty_mean_square
        self.optimizer = own._replace(lambda_w=lambda_w, lambda_V=lambda_V, penalty_mean_square=mean_square)
