"""The items' scan rows: building them for many new items, saving them, and restoring them with all checks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.catalogue.admitted_item import AdmittedItem
from coldstream.catalogue.combinations import EMPTY, CombinationTable
from coldstream.catalogue.scan_order import ScanOrder
from coldstream.catalogue.shapes import ScanRows, Trends
from coldstream.features.sparse import Sparse
from coldstream.support.arrays import Floats, Integers, Longs, checked_columns

TRENDS_IN_COMMON = ("unchosen_total", "newcomers", "prior")
"""Names of the saved arrays that all items' trends have in common."""


def described_rows(
    items: Sequence[AdmittedItem], kinds: Mapping[int, tuple[bool, int]], table: CombinationTable, number_columns: Integers
) -> tuple[Integers, Floats]:
    """Return combinations and numbers of items, by field and item, and write each number field's column."""
    count, numbers_of = len(items), len(number_columns)
    combination = [[EMPTY] * count for _ in range(len(kinds) - numbers_of)]
    number, column = [[0.0] * count for _ in range(numbers_of)], number_columns.tolist()
    for at, one in enumerate(items):
        for own in one.fields:
            is_number, place = kinds[own.field]
            assert own.entries is not None, "its features were admitted"
            if is_number:
                column[place], number[place][at] = own.entries[0]
            else:
                own.combination = combination[place][at] = table.take_again(own.combination, own.entries)
    number_columns[:] = column
    return (
        np.array(combination, np.int32).reshape(len(combination), count),
        np.array(number, np.float32).reshape(numbers_of, count),
    )


def saved_rows(rows: ScanRows, live: int, table: CombinationTable, number_columns: Integers) -> dict[str, NDArray[Any]]:
    """Return copies of the rows of the first `live` positions, and of their combinations."""
    lengths, entries = table.state()
    return {
        **{name: own[..., :live].copy() for name, own in rows._asdict().items()},
        "combination_length": lengths,
        "combination_column": entries.column,
        "combination_value": entries.value,
        "number_column": number_columns.copy(),
    }


def restore_rows(
    order: ScanOrder, slot: Integers, slots: int, out_of_order: int, arrays: Mapping[str, NDArray[Any]]
) -> tuple[Integers, Longs]:
    """Load the scan rows of live items in the slots `slot`; return choices and registration of all slots."""
    live = len(slot)
    for name, own in order.rows._asdict().items():
        source = arrays[name]
        finite = np.isfinite(source) | (np.isneginf(source) if name == "level" else False)
        if source.dtype != own.dtype or source.shape != (*own.shape[:-1], live) or not finite.all():
            raise ValueError(f"{name} has type {source.dtype} and shape {source.shape}, or is not finite")
        own[..., :live] = source
    order.count, order.out_of_order = live, out_of_order
    order.position[slot] = np.arange(live, dtype=np.int32)
    choices = checked_columns("choices", arrays["choices"], -1, 2**31 - 1)
    alive, registered_at = order.position[:slots] >= 0, arrays["registered_at"]
    unchosen = order.rows.unchosen[:live] > 0
    fit = len(np.unique(slot)) == live and len(choices) == slots and registered_at.dtype == np.int64
    fit = fit and registered_at.shape == (slots,) and bool(((choices >= 0) == alive).all())
    fit = fit and bool(((choices[slot] == 0) == unchosen).all())
    fit = fit and bool(np.isneginf(order.rows.level[:, :live][:, unchosen]).all())
    if not fit:
        raise ValueError("the arrays of the catalogue do not fit together")
    return choices, registered_at


def restore_trends(trends: Trends, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Load the arrays that all items' trends have in common."""
    for name in TRENDS_IN_COMMON:
        source, own = arrays[name], getattr(trends, name)
        if source.dtype != own.dtype or source.shape != own.shape or not np.isfinite(source).all():
            raise ValueError(f"{name} has type {source.dtype} and shape {source.shape}, or is not finite")
        own[:] = source


def restore_combinations(
    table: CombinationTable, number_columns: Integers, columns: int, arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Load the combinations of attributes, and the columns of numbers, of a vocabulary of so many columns."""
    lengths = checked_columns("combination_length", arrays["combination_length"], 0, 2**31 - 1)
    column = checked_columns("combination_column", arrays["combination_column"], 0, columns)
    value, held = arrays["combination_value"], arrays["combination"]
    if value.dtype != np.float32 or value.shape != column.shape or not np.isfinite(value).all():
        raise ValueError("combination_value is not finite, or not as long as combination_column")
    checked_columns("combination", held.reshape(-1), 0, max(len(lengths), 1))
    table.restore(lengths, Sparse(column, value), held.reshape(-1))
    number_column = checked_columns("number_column", arrays["number_column"], -1, columns)
    unknown = number_column < 0
    if len(number_column) != len(number_columns) or arrays["number"][unknown].any():
        raise ValueError("an item has a number without a column")
    number_columns[:] = number_column
