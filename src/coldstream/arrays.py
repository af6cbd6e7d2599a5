"""Arrays that grow by doubling, and their types."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.uint8]


def grown(array: NDArray[Any], rows: int, fill: float = 0) -> NDArray[Any]:
    """The same array where it has room for `rows`, else a copy of at least twice the capacity filled up with `fill`."""
    capacity = len(array)
    if rows <= capacity:
        return array
    shape = (max(rows, 2 * capacity, 16), *array.shape[1:])
    # Pages of a fresh zeroed block cost no memory until they are written.
    larger = np.zeros(shape, array.dtype) if fill == 0 else np.full(shape, fill, array.dtype)
    larger[:capacity] = array
    return larger
