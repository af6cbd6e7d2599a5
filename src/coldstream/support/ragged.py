"""Ragged arrays: concatenated texts or blobs in one array, with their lengths in another."""

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
"""Number of JSON documents decoded per call: enough to amortize the call, few enough to be held at once."""


def joined(parts: Sequence[bytes | None]) -> tuple[Flags, Integers]:
    """Concatenate blobs; return the bytes and the lengths, with −1 for None."""
    content = np.frombuffer(b"".join([part for part in parts if part]), np.uint8)
    return content, np.array([-1 if part is None else len(part) for part in parts], np.int32)


def bounds(content: NDArray[Any], length: NDArray[Any]) -> tuple[Longs, Longs]:
    """Return where each part begins and ends. Raise `ValueError` if types are wrong or the lengths do not add up."""
    if content.dtype != np.uint8 or length.dtype != np.int32 or content.ndim != 1 or length.ndim != 1:
        raise ValueError("a ragged array is not made of bytes and lengths")
    sizes = np.maximum(length, 0).astype(np.int64)
    ends = np.cumsum(sizes)
    if (length < -1).any() or sizes.sum() != len(content):
        raise ValueError(f"lengths do not add up to {len(content):,} bytes")
    return ends - sizes, ends


def parted(content: NDArray[Any], length: NDArray[Any]) -> list[bytes | None]:
    """Split what `joined` returned into blobs, with None for gaps."""
    return _with_gaps(_parts(content.tobytes(), content, length), length)


def taken(content: NDArray[Any], length: NDArray[Any], at: Integers) -> tuple[Flags, Integers]:
    """Return the ragged array of some parts, selected by number, without splitting the others."""
    starts, ends = bounds(content, length)
    whole: Flags = np.concatenate(
        [content[:0], *map(content.__getitem__, map(slice, starts[at].tolist(), ends[at].tolist()))]
    )
    return whole, length[at]


def blobs(content: NDArray[Any], length: NDArray[Any]) -> list[bytes]:
    """Split what `joined` returned into blobs. Raise `ValueError` if there are gaps."""
    _refuse_gaps(length)
    return _parts(content.tobytes(), content, length)


def joined_texts(texts: Iterable[str | None]) -> tuple[Flags, Integers]:
    """Encode texts as UTF-8 and concatenate them; return the bytes and the lengths, with −1 for None."""
    own = list(texts)
    whole = "".join([text for text in own if text])
    if whole.isascii():  # In ASCII a character is a byte, so one encoding call serves all texts.
        lengths = np.array([-1 if text is None else len(text) for text in own], np.int32)
        return np.frombuffer(whole.encode("ascii"), np.uint8), lengths
    return joined([None if text is None else text.encode() for text in own])


def parted_texts(content: NDArray[Any], length: NDArray[Any]) -> list[str | None]:
    """Split what `joined_texts` returned into texts, with None for gaps."""
    return _with_gaps(_texts(content, length), length)


def texts(content: NDArray[Any], length: NDArray[Any]) -> list[str]:
    """Split what `joined_texts` returned into texts. Raise `ValueError` if there are gaps."""
    _refuse_gaps(length)
    return _texts(content, length)


def joined_documents(documents: Iterable[Any]) -> tuple[Flags, Integers]:
    """Encode JSON documents and concatenate them; return the bytes and the lengths."""
    return joined([packed_document(document) for document in documents])


def documents(content: NDArray[Any], length: NDArray[Any]) -> list[Any]:
    """Decode what `joined_documents` returned."""
    return decoded(blobs(content, length))


def decoded(parts: Sequence[bytes]) -> list[Any]:
    """Decode many JSON documents, each of which was encoded by itself, with few calls of the parser."""
    found: list[Any] = []
    between = token_hex(8)  # random, so no part has it; a document across parts would move it
    comma = f',"{between}",'.encode()
    for first in range(0, len(parts), PIECE):
        piece = parts[first : first + PIECE]
        own = document_of(b"[" + comma.join(piece) + b"]")
        if len(own) != 2 * len(piece) - 1 or own[1::2].count(between) != len(piece) - 1:
            raise ValueError("a document is not one document")
        found += own[::2]
    return found


def document_of(content: bytes) -> Any:
    """Decode a JSON document. Raise `ValueError` for what `packed_document` cannot write: NaN, and lone surrogates."""
    document = json.loads(content, parse_constant=_no_number)
    if b"\\u" in content:
        packed_document(document)
    return document


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def packed_document(document: Any) -> bytes:
    """Encode a JSON document in UTF-8."""
    return _encode(document).encode()


def _parts(whole: Slices, content: NDArray[Any], length: NDArray[Any]) -> list[Slices]:
    """Split a whole into parts; gaps become empty parts."""
    starts, ends = bounds(content, length)
    return [whole[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _texts(content: NDArray[Any], length: NDArray[Any]) -> list[str]:
    whole = content.tobytes()
    if whole.isascii():  # In ASCII a character is a byte, so one decoding call serves all texts.
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
