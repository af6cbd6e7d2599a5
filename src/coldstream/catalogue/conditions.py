"""Conditions of filters on items, evaluated on arrays: values that items must have or not, and ranges of numbers.

No condition is evaluated item by item. Values are looked up in the combinations, of which there are fewer than items.
Numbers are looked up in one column per field, which is built at its first use and kept up to date from then on.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.catalogue.combinations import CombinationTable
from coldstream.support.arrays import Doubles, Integers, grown, plain

Passing = NDArray[np.bool_]


class AnyOf(NamedTuple):
    """The condition that an item has any of these columns in a field of categories, or, if not `wanted`, none of them."""

    field: int
    columns: frozenset[int]
    wanted: bool = True


class Within(NamedTuple):
    """The condition that an item's number in a field lies in a range, both ends included."""

    name: str
    least: float
    most: float


class NumberColumns:
    """Numbers by slot, in the units given, of the fields that filters have used; NaN where an item has none."""

    def __init__(self) -> None:
        self._columns: dict[str, Doubles] = {}

    def put(self, slot: int, attributes: Mapping[str, Any]) -> None:
        """Set an item's attributes."""
        for name, column in self._columns.items():
            if slot >= len(column):
                column = self._columns[name] = grown(column, slot + 1, np.nan)
            column[slot] = _number(attributes.get(name))

    def of(self, name: str, attributes: Sequence[Mapping[str, Any]]) -> Doubles:
        """Return the numbers of a field by slot; `attributes` are those of all items, by slot."""
        column = self._columns.get(name)
        if column is None:
            column = np.array([_number(own.get(name)) for own in attributes], np.float64)
            self._columns[name] = column
        elif len(column) < len(attributes):
            column = self._columns[name] = grown(column, len(attributes), np.nan)
        return column[: len(attributes)]


def having(
    conditions: Iterable[AnyOf], table: CombinationTable, combination: Integers, places: Mapping[int, int]
) -> Passing:
    """Return by position whether items meet all conditions; `combination` is (A, L), `places` maps a field to its row."""
    passing = np.ones(combination.shape[1], np.bool_)
    waiting = list(conditions)
    while waiting:
        # A column belongs to one field, and so does a combination: one pass over all of them serves one condition per field.
        now = {one.field: one for one in reversed(waiting)}
        waiting = [one for one in waiting if now[one.field] is not one]
        some = np.zeros(table.view().size, np.bool_)
        some[table.holding({column for one in now.values() for column in one.columns})] = True
        for field, one in now.items():
            has = some[combination[places[field]]]
            passing &= has if one.wanted else ~has
    return passing


def _number(raw: Any) -> float:
    raw = plain(raw)
    return float(raw) if isinstance(raw, int | float) else np.nan
