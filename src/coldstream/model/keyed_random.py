"""Random numbers that are a pure function of a key and a counter.

A stateful generator would make every draw depend on all earlier draws. Here a draw is a hash of (key, counter), so that an
event that is replayed alone, after a restart or on another machine, draws the same numbers.
"""

import hashlib
import math
from collections.abc import Iterable

import numpy as np

from coldstream.support.arrays import Floats, Integers, Longs, Ulongs
from coldstream.support.compiled import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32), np.uint64(11)


def key_of(seed: int, *names: str) -> np.uint64:
    """Return a 64-bit key of a seed and names. Length prefixes keep ('ab', 'c') and ('a', 'bc') distinct."""
    digest = hashlib.blake2b(seed.to_bytes(8, "little", signed=True), digest_size=8)
    for name in names:
        encoded = name.encode()
        digest.update(len(encoded).to_bytes(4, "little") + encoded)
    return np.uint64(int.from_bytes(digest.digest(), "little"))


def keys_of(seed: int, name: str, values: Iterable[str]) -> Ulongs:
    """Return `key_of(seed, name, value)` for each of several values."""
    common = hashlib.blake2b(seed.to_bytes(8, "little", signed=True), digest_size=8)
    encoded = name.encode()
    common.update(len(encoded).to_bytes(4, "little") + encoded)
    digests = []
    for value in values:
        own, encoded = common.copy(), value.encode()
        own.update(len(encoded).to_bytes(4, "little") + encoded)
        digests.append(own.digest())
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


@kernel
def hashed(key: np.uint64, counter: int) -> np.uint64:
    """Return SplitMix64's output at position `counter` of the sequence that starts at `key`."""
    z = key + np.uint64(counter + 1) * _GOLDEN
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return z ^ (z >> _S31)


@kernel
def below(key: np.uint64, counter: int, bound: int) -> int:
    """Return an integer in [0, bound), with bound < 2³². The bias of bound/2³² is too small to be observed."""
    return int(((hashed(key, counter) >> _S32) * np.uint64(bound)) >> _S32)


@kernel
def shuffled(key: np.uint64, n: int) -> Integers:
    """Return a permutation of 0 … n − 1, by Fisher and Yates."""
    order = np.arange(n).astype(np.int32)
    for last in range(n - 1, 0, -1):
        other = below(key, last, last + 1)
        order[last], order[other] = order[other], order[last]
    return order


@kernel
def fill_normal(key: Ulongs, deviation: float, row: Longs, out: Floats) -> None:
    """Fill rows with independent N(0, deviation²) draws, each row by its own key, with the transform of Box and Muller."""
    for r in range(len(row)):
        own = out[row[r]]
        for n in range(0, len(own), 2):
            # (0, 1] for the logarithm, [0, 1) for the angle
            u = (np.float64(hashed(key[r], n) >> _S11) + 1.0) * (1.0 / 9007199254740992.0)
            v = np.float64(hashed(key[r], n + 1) >> _S11) * (1.0 / 9007199254740992.0)
            radius = deviation * math.sqrt(-2.0 * math.log(u))
            own[n] = radius * math.cos(2.0 * math.pi * v)
            if n + 1 < len(own):
                own[n + 1] = radius * math.sin(2.0 * math.pi * v)
