"""Sparse vectors."""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coldstream.support.arrays import Floats, Integers


class Sparse(NamedTuple):
    """A sparse vector: its nonzero columns, each once, and their values."""

    column: Integers
    value: Floats


def sparse(columns: Sequence[int], values: Sequence[float]) -> Sparse:
    """Build a sparse vector from parallel lists."""
    return Sparse(np.array(columns, np.int32), np.array(values, np.float32))


def continued(column: bytes, value: bytes, columns: Sequence[int], values: Sequence[float]) -> Sparse:
    """Build a sparse vector from packed columns and values followed by parallel lists."""
    # Several times as fast as np.concatenate for short arrays. A bytearray, because kernels refuse read-only arrays.
    packed, weights = bytearray(column) + array("i", columns), bytearray(value) + array("f", values)
    return Sparse(np.frombuffer(packed, np.int32), np.frombuffer(weights, np.float32))


def joined(*parts: Sparse) -> Sparse:
    """Concatenate sparse vectors that share no column."""
    return Sparse(np.concatenate([p.column for p in parts]), np.concatenate([p.value for p in parts]))
