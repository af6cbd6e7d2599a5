"""Increments: the parts of a state that changed since another state, in place of a full snapshot.

Arrays are compared in blocks, and ragged arrays of records record by record, by 64-bit digests that are kept of the earlier
state. An increment names the seal of the state that it was made from, and that of the state it leads to: so a merge verifies
that every bit is right.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coldstream.support.arrays import Flags, Integers, Ulongs
from coldstream.support.ragged import bounds, joined, parted, taken

State: TypeAlias = tuple[dict[str, Any], dict[str, NDArray[Any]]]
"""One JSON document and named arrays."""

RECORDS = frozenset({"users.user"})
"""Ragged arrays compared by record. Others only grow at their end, for which blocks suffice."""

BLOCK = 256
"""Bytes of a block of an array without rows of suitable size."""

ROW = range(64, 4097)
"""Sizes in bytes of a row that is a block by itself."""

PIECE = 2**22
"""Numbers multiplied at once, which bounds the memory for intermediate results."""

OWN = "increment"
"""Key of an increment's document."""

BASE = "base"
"""Key, in the document of an increment, of the log position of the snapshot that it builds on."""


class Fingerprint(NamedTuple):
    """Digests of a state, kept to find out later what has changed."""

    seal: str
    """Digest of the whole state: equal states have equal seals, and different ones have different seals."""
    digests: dict[str, Ulongs]
    """Digests by array, one for each block or record."""


def fingerprint(state: State) -> Fingerprint:
    """Return the fingerprint of a state."""
    document, arrays = state
    digests = {name: _digests(name, arrays) for name in arrays}
    whole = blake2b(_text(document), digest_size=16)
    for name, own in digests.items():
        whole.update(_text([name, *_kind(arrays[name])]))
        whole.update(own.tobytes())
    return Fingerprint(whole.hexdigest(), digests)


def increment(state: State, since: Fingerprint) -> tuple[State, Fingerprint]:
    """Return the difference of a state from an earlier one, in the form of a state, and the state's fingerprint."""
    document, arrays = state
    now = fingerprint(state)
    new: dict[str, NDArray[Any]] = {}
    for name, own in now.digests.items():
        before = since.digests.get(name, own[:0])
        common = min(len(own), len(before))
        changed = np.flatnonzero(own[:common] != before[:common])
        at = np.concatenate([changed, np.arange(common, len(own))]).astype(np.int32)
        if len(at):
            new[f"{name}@at"] = at
            if name in RECORDS:
                new[f"{name}@new"], new[f"{name}@length"] = taken(arrays[name], arrays[f"{name}_length"], at)
            else:
                new[f"{name}@new"] = _taken(arrays[name], at)
    kinds = {name: _kind(array) for name, array in arrays.items()}
    return ({OWN: {"since": since.seal, "seal": now.seal, "arrays": kinds, "document": document}}, new), now


def is_increment(state: State) -> bool:
    """Return whether a state is the result of `increment`."""
    return OWN in state[0]


def merged(full: State, increments: Sequence[State]) -> tuple[State, Fingerprint | None]:
    """Apply increments in order, and return the resulting state and its fingerprint, None if there are no increments.

    Raise `ValueError` if an increment was not made from the one before, or if the result is not the last one's state.
    """
    if not increments:
        return full, None
    arrays, before = dict(full[1]), None
    records = {name: parted(arrays[name], arrays[f"{name}_length"]) for name in RECORDS & arrays.keys()}
    for document, new in increments:
        own = document[OWN]
        if before not in (None, own["since"]):
            raise ValueError("an increment was made from another state")
        before = own["seal"]
        for name in RECORDS & own["arrays"].keys():
            if f"{name}@at" in new:
                _put_records(records[name], new[f"{name}@at"], parted(new[f"{name}@new"], new[f"{name}@length"]))
        arrays = {
            name: arrays.get(name, _NOTHING) if name in RECORDS else _put(name, kind, arrays.get(name, _NOTHING), new)
            for name, kind in own["arrays"].items()
        }
        for name in RECORDS & arrays.keys():
            del records[name][len(arrays[f"{name}_length"]) :]
    for name, parts in records.items():
        arrays[name] = joined(parts)[0]
    last = increments[-1][0][OWN]
    state = (last["document"], arrays)
    found = fingerprint(state)
    if found.seal != last["seal"]:
        raise ValueError("what increments lead to is not what they were made from")
    return state, found


_NOTHING = np.zeros(0, np.uint8)


def _put_records(parts: list[bytes | None], at: NDArray[Any], new: Sequence[bytes | None]) -> None:
    for place, part in zip(at.tolist(), new, strict=True):
        if place < len(parts):
            parts[place] = part
        else:
            parts.append(part)


def _put(name: str, kind: Sequence[Any], before: NDArray[Any], new: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return an array with its new blocks."""
    dtype, shape = np.dtype(kind[0]), tuple(kind[1])
    if f"{name}@at" not in new and (before.dtype, before.shape) == (dtype, shape):
        return before
    after = np.zeros(shape, dtype)
    size, content, old = _block(after), _bytes(after), _bytes(before)
    kept = min(len(content), len(old))
    content[:kept] = old[:kept]
    if f"{name}@at" in new:
        at, blocks = new[f"{name}@at"], new[f"{name}@new"]
        whole = len(content) // size
        inside = at < whole
        content[: whole * size].reshape(whole, size)[at[inside]] = blocks[: inside.sum() * size].reshape(-1, size)
        if not inside.all():
            content[whole * size :] = blocks[inside.sum() * size :]
    return after


def _taken(array: NDArray[Any], at: Integers) -> Flags:
    """Return some blocks of an array, one after another; its last block may be shorter."""
    size, content = _block(array), _bytes(array)
    whole = len(content) // size
    inside = at[at < whole]
    blocks = content[: whole * size].reshape(whole, size)[inside].reshape(-1)
    return blocks if len(inside) == len(at) else np.concatenate([blocks, content[whole * size :]])


def _kind(array: NDArray[Any]) -> tuple[str, list[int]]:
    return array.dtype.str, list(array.shape)


def _block(array: NDArray[Any]) -> int:
    row = array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
    return row if array.ndim > 1 and row in ROW and row % 4 == 0 else BLOCK


def _bytes(array: NDArray[Any]) -> Flags:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _text(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _digests(name: str, arrays: Mapping[str, NDArray[Any]]) -> Ulongs:
    if name in RECORDS:
        return _of_records(arrays[name], arrays[f"{name}_length"])
    return _of_blocks(_bytes(arrays[name]), _block(arrays[name]))


def _of_blocks(content: Flags, size: int) -> Ulongs:
    """Return a digest of each block: the sum of its words, each times a factor that depends on its place."""
    whole, rest = divmod(len(content), size)
    factors, step = _factors(size // 4), max(1, PIECE // (size // 4))
    found = np.zeros(whole + bool(rest), np.uint64)
    words = content[: whole * size].view(np.uint32).reshape(whole, size // 4)
    for first in range(0, whole, step):
        found[first : min(first + step, whole)] = words[first : first + step].astype(np.uint64) @ factors
    if rest:
        padded = np.zeros(size, np.uint8)
        padded[:rest] = content[whole * size :]
        found[-1] = padded.view(np.uint32).astype(np.uint64) @ factors
    return found


def _of_records(content: NDArray[Any], length: NDArray[Any]) -> Ulongs:
    """Return a digest of each record: the sum of its bytes and its length, each times a factor that depends on its place.

    Records of equal length are processed together: there are few different lengths.
    """
    starts, _ = bounds(content, length)
    factors = _factors(1 + int(length.max(initial=0)))
    found: Ulongs = (length.astype(np.int64) + 2).astype(np.uint64) * factors[0]
    by_length = np.argsort(length, kind="stable")
    sizes, counts = np.unique(length, return_counts=True)
    last = 0
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        first, last = last, last + count
        step = max(1, PIECE // max(1, size))
        for some in (by_length[at : min(at + step, last)] for at in range(first, last, step) if size > 0):
            own = content[starts[some][:, None] + np.arange(size)]
            found[some] += own.astype(np.uint64) @ factors[1 : 1 + size]
    return found


def _factors(count: int) -> Ulongs:
    """Return odd numbers without a pattern: splitmix64 of 1, 2, 3 and so on."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        factors: Ulongs = (z ^ (z >> np.uint64(31))) | np.uint64(1)
    return factors
