"""Folding for all pairs: z_i = Σ x v and b_i = Σ w x + the pairs within an item, recomputed so that no error accumulates.

ŷ_i = c + b_i + ⟨q, z_i⟩. Trends change with every event and are not folded: they add r_h (w_h + ⟨v_h, q + z_i⟩) and the
pairs among themselves.
"""

import numpy as np

from coldstream.catalogue.shapes import Items
from coldstream.model.kernels import itself
from coldstream.model.shapes import Theta
from coldstream.model.vectors import dots
from coldstream.support.arrays import Floats, Integers
from coldstream.support.compiled import inlined, kernel


@kernel
def fold_items(theta: Theta, items: Items, pairs: int, Z: Floats, bias: Floats) -> None:
    """Write the folded id and attributes of each live item to `Z` and `bias`, by position."""
    rows, combinations, k = items.rows, items.combinations, theta.V.shape[1]
    products = np.empty(k, np.float32)
    for n in range(items.size):
        total = np.float32(0.0)
        for f in range(k):
            Z[n, f] = products[f] = np.float32(0.0)
        for a in range(rows.combination.shape[0]):
            number = rows.combination[a, n]
            first = combinations.start[number]
            for entry in range(first, first + combinations.length[number]):
                column = combinations.column[combinations.feature[entry]]
                total += _add(theta, pairs, column, combinations.value[entry], Z, n, products)
        for b in range(rows.number.shape[0]):
            if rows.number[b, n] != np.float32(0.0):
                total += _add(theta, pairs, items.number_column[b], rows.number[b, n], Z, n, products)
        if rows.id_column[n] >= 0:
            total += _add(theta, pairs, rows.id_column[n], np.float32(1.0), Z, n, products)
        for f in range(k):
            total += products[f]
        bias[n] = total


@inlined
def _add(theta: Theta, pairs: int, column: int, x: np.float32, Z: Floats, n: int, products: Floats) -> np.float32:
    """Add a feature's vector and products to an item's sums, with its square if self-pairs count; return its linear part."""
    own = itself(pairs)
    for f in range(Z.shape[1]):
        a = x * theta.V[column, f]
        products[f] += a * (Z[n, f] + own * a)
        Z[n, f] += a
    return np.float32(x * theta.w[column])


@kernel
def fold_trends(theta: Theta, column: Integers, pairs: int, Z: Floats, product: Floats, pair: Floats) -> None:
    """Compute ⟨v_h, z_i⟩ of every trend and item, and ⟨v_h, v_g⟩ of every two trends whose pair counts."""
    row = np.arange(len(Z)).astype(np.int32)
    for h in range(len(column)):
        dots(Z, row, 0, len(Z), theta.V[column[h]], product[h])
        dots(theta.V, column, 0, h + 1, theta.V[column[h]], pair[h])
        pair[h, h] *= itself(pairs)
