"""Ragged arrays: texts and blobs of unequal length, one behind the other in one array, with their lengths in another."""

import json
from collections.abc import Iterable, Sequence
from secrets import token_hex
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from coldstream.support.arrays import Flags, Integers, Longs

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

Slices = TypeVar("Slices", bytes, str)
Part = TypeVar("Part")

PIECE = 10_000
"""Documents that are decoded in one go: enough to share the price of a call, few enough to be held at once."""


def joined(parts: Sequence[bytes | None]) -> tuple[Flags, Integers]:
    """Blobs as one array and their lengths; −1 is the length of what is not there."""
    content = np.frombuffer(b"".join([part for part in parts if part]), np.uint8)
    return content, np.array([-1 if part is None else len(part) for part in parts], np.int32)


def bounds(content: NDArray[Any], length: NDArray[Any]) -> tuple[Longs, Longs]:
    """Where each part begins and ends, if the lengths add up."""
    if content.dtype != np.uint8 or length.dtype != np.int32 or content.ndim != 1 or length.ndim != 1:
        raise ValueError("a ragged array is not made of bytes and lengths")
    sizes = np.maximum(length, 0).astype(np.int64)
    ends = np.cumsum(sizes)
    if (length < -1).any() or sizes.sum() != len(content):
        raise ValueError(f"lengths do not add up to {len(content):,} bytes")
    return ends - sizes, ends


def parted(content: NDArray[Any], length: NDArray[Any]) -> list[bytes | None]:
    """The inverse of `joined`."""
    return _with_gaps(_parts(content.tobytes(), content, length), length)


def taken(content: NDArray[Any], length: NDArray[Any], at: Integers) -> tuple[Flags, Integers]:
    """Some of the parts, joined again; the others are not looked at."""
    starts, ends = bounds(content, length)
    whole: Flags = np.concatenate(
        [content[:0], *map(content.__getitem__, map(slice, starts[at].tolist(), ends[at].tolist()))]
    )
    return whole, length[at]


def blobs(content: NDArray[Any], length: NDArray[Any]) -> list[bytes]:
    """The same where none may be missing."""
    _refuse_gaps(length)
    return _parts(content.tobytes(), content, length)


def joined_texts(texts: Iterable[str | None]) -> tuple[Flags, Integers]:
    """Texts as one array of UTF-8 and their lengths."""
    own = list(texts)
    whole = "".join([text for text in own if text])
    if whole.isascii():  # a character is a byte, so that one text can be encoded instead of many
        lengths = np.array([-1 if text is None else len(text) for text in own], np.int32)
        return np.frombuffer(whole.encode("ascii"), np.uint8), lengths
    return joined([None if text is None else text.encode() for text in own])


def parted_texts(content: NDArray[Any], length: NDArray[Any]) -> list[str | None]:
    """The inverse of `joined_texts`."""
    return _with_gaps(_texts(content, length), length)


def texts(content: NDArray[Any], length: NDArray[Any]) -> list[str]:
    """The same where none may be missing."""
    _refuse_gaps(length)
    return _texts(content, length)


def joined_documents(documents: Iterable[Any]) -> tuple[Flags, Integers]:
    """JSON documents as one array of UTF-8 and their lengths."""
    return joined([packed_document(document) for document in documents])


def documents(content: NDArray[Any], length: NDArray[Any]) -> list[Any]:
    """The inverse of `joined_documents`."""
    return decoded(blobs(content, length))


def decoded(parts: Sequence[bytes]) -> list[Any]:
    """Many JSON documents, each of which was packed by itself."""
    found: list[Any] = []
    between = token_hex(8)  # which no part can hold: one document in two parts, or two in one, would move it
    comma = f',"{between}",'.encode()
    for first in range(0, len(parts), PIECE):
        piece = parts[first : first + PIECE]
        own = document_of(b"[" + comma.join(piece) + b"]")
        if len(own) != 2 * len(piece) - 1 or own[1::2].count(between) != len(piece) - 1:
            raise ValueError("a document is not one document")
        found += own[::2]
    return found


def document_of(content: bytes) -> Any:
    """What JSON says, if it is what `packed_document` could have written: no NaN, and no half of a character."""
    document = json.loads(content, parse_constant=_no_number)
    if b"\\u" in content:
        packed_document(document)
    return document


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def packed_document(document: Any) -> bytes:
    """One JSON document, in UTF-8."""
    return _encode(document).encode()


def _parts(whole: Slices, content: NDArray[Any], length: NDArray[Any]) -> list[Slices]:
    """The parts of a whole; one that is not there is empty."""
    starts, ends = bounds(content, length)
    return [whole[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _texts(content: NDArray[Any], length: NDArray[Any]) -> list[str]:
    whole = content.tobytes()
    if whole.isascii():  # a character is a byte, so that one text can be cut instead of many bytes decoded
        return _parts(whole.decode("ascii"), content, length)
    return [part.decode() for part in _parts(whole, content, length)]


def _with_gaps(parts: list[Part], length: NDArray[Any]) -> list[Part | None]:
    found: list[Part | None] = list(parts)
    for missing in np.flatnonzero(length < 0).tolist():
        found[missing] = None
    return found


def _refuse_gaps(length: NDArray[Any]) -> None:
    if (length < 0).any():
        raise ValueError("a part of a ragged array is missing")
