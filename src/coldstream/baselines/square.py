"""A number for every pair of items."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.errors import InvalidInput

MOST_ITEMS = 20_000
"""Beyond this a square of doubles takes more than 3 GB."""


def check_items(what: str, items: int) -> None:
    """Raise if there are more items than a square can be made for."""
    if items > MOST_ITEMS:
        raise InvalidInput(
            f"{what} keeps a number for every pair of items and takes {MOST_ITEMS:,} items at most, got {items:,}; "
            f"leave {what} out, or the rarest items"
        )


def grown_square(what: str, square: NDArray[Any], items: int) -> NDArray[Any]:
    """The same square where it has room for so many items, else a copy of twice the side filled up with zeros."""
    check_items(what, items)
    side = len(square)
    if items <= side:
        return square
    capacity = min(max(items, 2 * side, 16), MOST_ITEMS)
    larger = np.zeros((capacity, capacity), square.dtype)
    larger[:side, :side] = square
    return larger
