"""Packed users: each user in a few bytes, the form of all users who did not come lately, and of all in snapshots.

A packed user consists of a header; the slots of the last items; the slots of all items had, ordered by when each was last
had, with how often each was had; the slots and counts of the items tried; and a JSON document with the attributes and the
features of the last item. Equal users have equal bytes.
"""

import json
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from coldstream.bounds.costs import attributes_cost
from coldstream.features.history import LastItemFeatures, check_last_item
from coldstream.support.arrays import Flags, Integers, Longs, frozen_values
from coldstream.support.ragged import PIECE, bounds, decoded, packed_document

# Header: time (NaN for none); `as_of`; the number of last items plus 65,536 times that of tried ones; twice the number of
# all items had, plus 1 if counts follow.
_HEADER = Struct("<dqII")
_FIELDS = np.dtype([("time", "<f8"), ("as_of", "<i8"), ("recent", "<u4"), ("seen", "<u4")])

_TRIED = 2**16
_NO_ITEMS = np.zeros(0, np.int32)

MOST_TIMES = 2**31 - 2
"""Largest count of how often a user had an item; further times are not counted."""

Document = tuple[Mapping[str, Any], LastItemFeatures]


class UserParts(NamedTuple):
    """The contents of a packed user."""

    recent: Sequence[int]
    """The slots of the last items, the latest at the end."""
    time: float | None
    last_item: LastItemFeatures
    attributes: Mapping[str, Any]
    slots: Integers
    """Slots of all items that the user had, each once, the latest at the end."""
    times: Integers
    """Number of times that each of `slots` was had."""
    as_of: int
    """Number of slots freed by the catalogue when the slots here were valid; those freed since are void."""
    tried: Integers = _NO_ITEMS
    """Slots of items not had whose events count in trends, such as carts, each once, the latest at the end."""
    tried_times: Integers = _NO_ITEMS
    """Number of times that each of `tried` was tried."""


NOTHING = _HEADER.pack(math.nan, 0, 0, 0)
"""Packed form of a user of whom nothing but the id is known."""


def packed(user: UserParts) -> bytes:
    """Return a user as bytes."""
    slots, times = array("i", user.slots.tolist()), array("i", user.times.tolist())
    repeated = any(often != 1 for often in times)
    time = math.nan if user.time is None else user.time
    header = _HEADER.pack(time, user.as_of, len(user.recent) + _TRIED * len(user.tried), 2 * len(slots) + repeated)
    tried = array("i", user.tried.tolist() + user.tried_times.tolist())
    numbers = array("i", user.recent) + slots + (times if repeated else array("i")) + tried
    known = user.attributes or user.last_item
    text = packed_document((dict(user.attributes), user.last_item)) if known else b""
    return header + numbers.tobytes() + text


def unpacked(content: bytes) -> UserParts:
    """Return the user that `packed` made these bytes of."""
    found, as_of, counts, coded = _HEADER.unpack_from(content)
    (tries, count), (seen, repeated) = divmod(counts, _TRIED), divmod(coded, 2)
    own = count + seen * (1 + repeated)
    numbers = np.frombuffer(content, np.int32, own + 2 * tries, _HEADER.size).copy()  # writable, for kernels
    end = _HEADER.size + numbers.nbytes
    attributes, last_item = _document(json.loads(content[end:])) if end < len(content) else ({}, ())
    slots, time = numbers[count : count + seen], None if math.isnan(found) else found
    times = numbers[count + seen : own] if repeated else np.ones(seen, np.int32)
    tried, tried_times = numbers[own : own + tries], numbers[own + tries :]
    return UserParts(numbers[:count].tolist(), time, last_item, attributes, slots, times, as_of, tried, tried_times)


def check_all(
    content: Flags, length: Integers, slots: int, freed: int, fields: int, check: Callable[[Mapping[str, Any]], object]
) -> tuple[int, int]:
    """Check packed users, and return the number of items all of them had or tried, and the bytes of their attributes.

    Raise `ValueError` for users that do not fit a catalogue of so many `slots`, `freed` so often, and a vocabulary of so
    many `fields`: kernels index with these numbers unchecked. `check` raises for invalid attributes.
    """
    starts, ends = bounds(content, length)
    if (length < _HEADER.size).any():
        raise ValueError("a user is shorter than a header")
    seen, weight = 0, 0
    for first in range(0, len(length), PIECE):
        own = _check(content, starts[first : first + PIECE], ends[first : first + PIECE], slots, freed, fields, check)
        seen, weight = seen + own[0], weight + own[1]
    return seen, weight


def _check(
    content: Flags,
    starts: Longs,
    ends: Longs,
    slots: int,
    freed: int,
    fields: int,
    check: Callable[[Mapping[str, Any]], object],
) -> tuple[int, int]:
    header = _gathered(content, starts, _HEADER.size).view(_FIELDS)[:, 0]
    recent, tried = header["recent"].astype(np.int64) % _TRIED, header["recent"].astype(np.int64) // _TRIED
    seen, repeated = header["seen"].astype(np.int64) // 2, header["seen"] % 2
    own = recent + seen * (1 + repeated)
    text = starts + _HEADER.size + 4 * (own + 2 * tried)
    if (text > ends).any() or np.isinf(header["time"]).any():
        raise ValueError("a user is not as long as the header says")
    if ((header["as_of"] < 0) | (header["as_of"] > freed)).any():
        raise ValueError("a user is of the future")
    first = starts + _HEADER.size
    _check_numbers(content, first, recent + seen, 0, slots)
    _check_numbers(content, first + 4 * (recent + seen), seen * repeated, 1, MOST_TIMES + 1)
    _check_numbers(content, first + 4 * own, tried, 0, slots)
    _check_numbers(content, first + 4 * (own + tried), tried, 1, MOST_TIMES + 1)
    known = np.flatnonzero(text < ends)
    spans = zip(text[known].tolist(), ends[known].tolist(), strict=True)
    documents = decoded([content[first:last].tobytes() for first, last in spans])
    weight = 0
    for attributes, last_item in map(_document, documents):
        check_last_item(last_item, fields)
        check(attributes)
        weight += attributes_cost(attributes)
    return int(seen.sum() + tried.sum()), weight


def _document(document: Any) -> Document:
    attributes, note = document
    return frozen_values(attributes), tuple((field, v, weight) for field, v, weight in note)


def _gathered(content: Flags, starts: Longs, size: int) -> Flags:
    gathered: Flags = content[starts[:, None] + np.arange(size)]
    return gathered


def _check_numbers(content: Flags, first: Longs, counts: Longs, lowest: int, end: int) -> None:
    before = np.cumsum(counts) - counts
    place = np.arange(counts.sum()) - np.repeat(before, counts)
    numbers = _gathered(content, np.repeat(first, counts) + 4 * place, 4).view(np.int32)
    if ((numbers < lowest) | (numbers >= end)).any():
        raise ValueError(f"a user has a number beyond {lowest} to {end - 1}")
