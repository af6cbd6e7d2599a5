"""The inverse of a regularized Gram matrix, updated exactly when one row of the data changes."""

from collections.abc import Iterable

import numpy as np

from coldstream.baselines.square import grown_square
from coldstream.support.arrays import Doubles, Longs, grown
from coldstream.support.compiled import scan_kernel

_PENDING = 256
"""Number of update vectors z that are kept before one matrix product adds them to the base.

A larger number makes each read slower, a smaller one each change.
"""
_BLOCK = 256
"""Number of rows of the base updated at a time by that product, so that it needs no second square matrix."""


class GramInverse:
    """P = (XᵀX + λI)⁻¹ for a matrix X of zeros and ones whose rows gain ones and whose columns grow in number.

    A row x that becomes y changes XᵀX by yyᵀ − xxᵀ, and each of these two terms changes P by ± zzᵀ (Sherman and Morrison).
    The latest vectors z are not added yet: P = base + Σ sign zzᵀ.
    """

    def __init__(self, penalty: float) -> None:
        self._penalty = penalty
        self._items = 0
        self._base: Doubles = np.empty((0, 0), np.float64)
        self._diagonal: Doubles = np.empty(0, np.float64)
        self._pending: Doubles = np.empty((_PENDING, 0), np.float64)
        self._signs: Doubles = np.empty(_PENDING, np.float64)
        self._used = 0

    @property
    def diagonal(self) -> Doubles:
        """The diagonal of P, valid until the next change."""
        return self._diagonal[: self._items]

    def grow(self, items: int) -> None:
        """Add columns up to one for each of `items` items; raise `InvalidInput` above `MOST_ITEMS`."""
        self._base = grown_square("ease", self._base, items)
        self._diagonal = grown(self._diagonal, items, 1.0 / self._penalty)
        if len(self._base) > self._pending.shape[1]:
            self._pending = np.pad(self._pending, ((0, 0), (0, len(self._base) - self._pending.shape[1])))
        for item in range(self._items, items):
            self._base[item, item] = 1.0 / self._penalty
        self._items = items

    def start(self, rows: Iterable[Longs]) -> None:
        """Compute P from all non-empty rows of X, each given as the columns of its ones."""
        gram = np.eye(self._items) * self._penalty
        for row in rows:
            gram[np.ix_(row, row)] += 1.0
        self._base[: self._items, : self._items] = np.linalg.inv(gram)
        self._diagonal[: self._items] = np.diagonal(self._base)[: self._items]
        self._used = 0

    def times(self, columns: Longs, values: Doubles) -> Doubles:
        """Return Px for a sparse vector x with these values in these columns."""
        product = np.zeros(self._items)
        _add_rows(product, self._base, columns, values)
        along = self._signs[: self._used] * (self._pending[: self._used, columns] @ values)
        _add_rows(product, self._pending, np.arange(self._used), along)
        return product

    def gain(self, row: Longs, item: int) -> None:
        """Add a one in column `item` to a row of X, which is given as the columns of its ones."""
        if self._used + 2 > _PENDING:
            self._settle()
        old, own = self.times(row, np.ones(len(row))), self.times(np.array([item]), np.ones(1))
        new = old + own
        z = new / np.sqrt(1.0 + new[row].sum() + new[item])
        self._correct(z, -1.0)
        if len(row):
            old -= z * z[row].sum()
            self._correct(old / np.sqrt(1.0 - old[row].sum()), 1.0)

    def _correct(self, z: Doubles, sign: float) -> None:
        self._pending[self._used, : self._items] = z
        self._signs[self._used] = sign
        self._diagonal[: self._items] += sign * z * z
        self._used += 1

    def _settle(self) -> None:
        pending = self._pending[: self._used, : self._items]
        signed = self._signs[: self._used, np.newaxis] * pending
        for start in range(0, self._items, _BLOCK):
            end = min(start + _BLOCK, self._items)
            self._base[start:end, :end] += signed[:, start:end].T @ pending[:, :end]
            # P is symmetric, so the part above the diagonal is copied.
            self._base[:start, start:end] = self._base[start:end, :start].T
        self._used = 0


@scan_kernel
def _add_rows(total: Doubles, matrix: Doubles, rows: Longs, weights: Doubles) -> None:
    """Add the weighted sum of rows of a matrix to `total`, up to the length of `total`."""
    for r in range(len(rows)):
        row, weight = matrix[rows[r]], weights[r]
        for column in range(len(total)):
            total[column] += weight * row[column]
