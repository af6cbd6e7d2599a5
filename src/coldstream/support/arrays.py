"""Growing arrays, their types, and conversion of values to plain Python."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Ulongs: TypeAlias = NDArray[np.uint64]
Flags: TypeAlias = NDArray[np.uint8]


_PLAIN = frozenset({str, float, int, bool, type(None)})
_STRINGS = frozenset({str})


def plain(raw: Any) -> Any:
    """Convert a value to what JSON can hold: NumPy scalars to Python's, sets and tuples to lists."""
    if type(raw) in _PLAIN:
        return raw
    if isinstance(raw, np.generic):
        return raw.item()
    if isinstance(raw, set | frozenset):
        # Sets are sorted because they have no defined order, and the order of features determines the order of sums.
        return sorted(map(plain, raw), key=repr)
    return list(map(plain, raw)) if isinstance(raw, list | tuple) else raw


def frozen(raw: Any) -> Any:
    """Convert a value to what JSON can hold, with immutable tuples instead of lists."""
    if type(raw) in _PLAIN:
        return raw
    if type(raw) is list and _STRINGS.issuperset(map(type, raw)):
        return tuple(raw)
    return _with_tuples(plain(raw))


def frozen_values(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Apply `frozen` to all values of a mapping."""
    return {name: value if type(value) in _PLAIN else frozen(value) for name, value in raw.items()}


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def saved_count(name: str, raw: Any) -> int:
    """Return a saved number if it is a valid count, an integer in [0, 2⁶²); else raise `ValueError`."""
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw < 2**62:
        raise ValueError(f"{name} is no count")
    return raw


def checked_columns(name: str, array: NDArray[Any], lowest: int, end: int) -> Integers:
    """Return an array if it is int32 and within [lowest, end), else raise `ValueError`: kernels do not check indices."""
    if array.dtype != np.int32 or array.ndim != 1 or ((array < lowest) | (array >= end)).any():
        raise ValueError(f"{name} does not hold numbers from {lowest} to {end - 1}")
    return array


Copies: TypeAlias = dict[str, NDArray[Any]]
"""Copied arrays by name, for `write_back`."""


def copies(group: Any, names: Iterable[str], rows: int | None = None) -> Copies:
    """Return copies of the named arrays of an object, optionally of their first rows only."""
    return {name: getattr(group, name)[:rows].copy() for name in names}


def write_back(group: Any, saved: Copies) -> None:
    """Restore arrays from their copies; arrays may have grown since."""
    for name, own in saved.items():
        getattr(group, name)[: len(own)] = own


def grown(array: NDArray[Any], rows: int, fill: float = 0) -> NDArray[Any]:
    """Return the array if it has room for `rows`, else a copy of at least twice the capacity, filled up with `fill`."""
    capacity = len(array)
    if rows <= capacity:
        return array
    shape = (_doubled(capacity, rows), *array.shape[1:])
    # Pages of a fresh zeroed block use no memory until they are written.
    larger = np.zeros(shape, array.dtype) if fill == 0 else np.full(shape, fill, array.dtype)
    larger[:capacity] = array
    return larger


def grown_up_to(most: int, array: NDArray[Any], rows: int) -> NDArray[Any]:
    """Return the array if it has room for `rows`, else a larger copy, filled up with zeros.

    A small array grows by doubling, and then to `most` rows at once, so that it is not copied again while it is large.
    Unused rows take address space and no memory. If addresses are limited or this fails, the array goes on doubling, because
    taking the last addresses would leave none for libraries that are loaded later.
    """
    larger = _doubled(len(array), rows)
    if rows <= len(array) or not FEW_ROWS < larger < most or addresses_are_limited():
        return grown(array, rows)
    try:
        return grown(array, most)
    except (MemoryError, OverflowError, ValueError):  # NumPy raises the last two if the size exceeds any address
        return grown(array, rows)


def addresses_are_limited() -> bool:
    """Return whether the address space of this process is limited (`ulimit -v`)."""
    return resource is not None and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


FEW_ROWS = 4096
"""Maximum number of rows of an array that is cheap to copy."""


def _doubled(capacity: int, rows: int) -> int:
    return max(rows, 2 * capacity, 16)
