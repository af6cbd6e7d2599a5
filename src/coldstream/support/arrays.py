"""Arrays that grow by doubling, their types, and values of other origin made plain."""

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
    """A value as JSON can hold it: NumPy's scalars as Python's, sets and tuples as lists."""
    if type(raw) in _PLAIN:
        return raw
    if isinstance(raw, np.generic):
        return raw.item()
    if isinstance(raw, set | frozenset):
        # A set has no order of its own, and the order of features is the order of sums.
        return sorted(map(plain, raw), key=repr)
    return list(map(plain, raw)) if isinstance(raw, list | tuple) else raw


def frozen(raw: Any) -> Any:
    """The same value with tuples for lists: nobody who is shown it can change it."""
    if type(raw) in _PLAIN:
        return raw
    if type(raw) is list and _STRINGS.issuperset(map(type, raw)):
        return tuple(raw)
    return _with_tuples(plain(raw))


def frozen_values(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The same of all values of a mapping."""
    return {name: value if type(value) in _PLAIN else frozen(value) for name, value in raw.items()}


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def saved_count(name: str, raw: Any) -> int:
    """The same number, if it is a whole one that can still be counted up."""
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw < 2**62:
        raise ValueError(f"{name} is no count")
    return raw


def checked_columns(name: str, array: NDArray[Any], lowest: int, end: int) -> Integers:
    """The same array, if it is int32 and all of it is in [lowest, end): kernels trust what they index with."""
    if array.dtype != np.int32 or array.ndim != 1 or ((array < lowest) | (array >= end)).any():
        raise ValueError(f"{name} does not hold numbers from {lowest} to {end - 1}")
    return array


Copies: TypeAlias = dict[str, NDArray[Any]]
"""Arrays by name, copied to be written back."""


def copies(group: Any, names: Iterable[str], rows: int | None = None) -> Copies:
    """Copies of arrays that are attributes of a group, of their first rows only where that is said."""
    return {name: getattr(group, name)[:rows].copy() for name in names}


def write_back(group: Any, saved: Copies) -> None:
    """Write copies over the arrays they were made of, which may have grown since."""
    for name, own in saved.items():
        getattr(group, name)[: len(own)] = own


def grown(array: NDArray[Any], rows: int, fill: float = 0) -> NDArray[Any]:
    """The same array where it has room for `rows`, else a copy of at least twice the capacity filled up with `fill`."""
    capacity = len(array)
    if rows <= capacity:
        return array
    shape = (_doubled(capacity, rows), *array.shape[1:])
    # Pages of a fresh zeroed block cost no memory until they are written.
    larger = np.zeros(shape, array.dtype) if fill == 0 else np.full(shape, fill, array.dtype)
    larger[:capacity] = array
    return larger


def grown_up_to(most: int, array: NDArray[Any], rows: int) -> NDArray[Any]:
    """The same of zeros, where there will be `most` rows at most: it is copied while it is small, and then has room for all.

    Room that is not used costs addresses, and no memory. Where those are limited or not to be had, it grows as others do:
    who takes the last of them leaves none to libraries that are loaded later, some of which ask for ever.
    """
    larger = _doubled(len(array), rows)
    if rows <= len(array) or not FEW_ROWS < larger < most or addresses_are_limited():
        return grown(array, rows)
    try:
        return grown(array, most)
    except (MemoryError, OverflowError, ValueError):  # the last two where no address is so long
        return grown(array, rows)


def addresses_are_limited() -> bool:
    """Whether this process may have so many addresses only (`ulimit -v`)."""
    return resource is not None and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


FEW_ROWS = 4096
"""Rows that are copied before anybody notices."""


def _doubled(capacity: int, rows: int) -> int:
    return max(rows, 2 * capacity, 16)
