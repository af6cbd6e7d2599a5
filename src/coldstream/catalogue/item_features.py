"""All that one item brings to a score, in columns: what an explanation is made of."""

import numpy as np
from numpy.typing import NDArray

from coldstream.catalogue.cross_features import cross_features
from coldstream.catalogue.shapes import Items, UserHistory
from coldstream.catalogue.trends import value_at
from coldstream.features.sparse import Sparse
from coldstream.support.compiled import kernel


def features_of(items: Items, slot: int, shared: list[tuple[int, float]], clock: int, history: UserHistory) -> Sparse:
    """An item's id, what it shares with others, its trends at this clock, and its cross features."""
    position, own = int(items.position[slot]), shared
    id_column = int(items.rows.id_column[position])
    if id_column >= 0:
        own = [(id_column, 1.0), *own]
    own = [*own, *zip(items.trends.column.tolist(), _trend_values(items, position, clock).tolist(), strict=True)]
    crossed = cross_features(items, history, np.array([slot], np.int32))[0]
    own += zip(items.neighbours.column.tolist(), crossed.tolist(), strict=True)
    shown = [(column, value) for column, value in own if column >= 0 and value != 0.0]
    columns, values = [column for column, _ in shown], [value for _, value in shown]
    return Sparse(np.array(columns, np.int32), np.array(values, np.float32))


@kernel
def _trend_values(items: Items, position: int, clock: int) -> NDArray[np.float32]:
    values = np.empty(len(items.trends.rate), np.float32)
    for h in range(len(values)):
        values[h] = value_at(items.trends, items.rows, position, h, clock)
    return values
