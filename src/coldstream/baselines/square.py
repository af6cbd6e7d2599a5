"""Dense square matrices with a number for each pair of items."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.errors import InvalidInput

MOST_ITEMS = 20_000
"""Largest number of items, at which a square matrix of doubles takes 3.2 GB."""


def check_items(what: str, items: int) -> None:
    """Raise `InvalidInput` for more than `MOST_ITEMS` items; `what` names the method in the message."""
    if items > MOST_ITEMS:
        raise InvalidInput(
            f"{what} keeps a number for every pair of items and takes {MOST_ITEMS:,} items at most, got {items:,}; "
            f"leave {what} out, or the rarest items"
        )


def grown_square(what: str, square: NDArray[Any], items: int) -> NDArray[Any]:
    """Return the matrix if it has room for `items` items, else a larger copy padded with zeros.

    The side at least doubles, but never exceeds `MOST_ITEMS`; raise `InvalidInput` for more items.
    """
    check_items(what, items)
    side = len(square)
    if items <= side:
        return square
    capacity = min(max(items, 2 * side, 16), MOST_ITEMS)
    larger = np.zeros((capacity, capacity), square.dtype)
    larger[:side, :side] = square
    return larger
