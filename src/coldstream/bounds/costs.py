"""Estimated memory costs in bytes: upper bounds for CPython on 64 bits.

They are constants, not measurements at run time, because eviction under a budget must not depend on the machine.
`tests/unit/engine/test_memory.py` measures that they are high enough.
"""

from collections.abc import Mapping, Sequence
from typing import Any

COLUMN = 320
"""Bytes per feature, besides its row of parameters and its text: entries in a dictionary and four lists, with spare
capacity."""
FIELD = 2048
"""Bytes per field, besides its row of penalties."""
USER = 800
"""Bytes per packed user, besides the text of the id, the attributes, and the seen items: the packed bytes, entries in two
dictionaries and a list, and usage."""
UNPACKED_USER = 1700
"""Additional bytes per unpacked user: the state, its history, and its encoding."""
SEEN = 16
"""Bytes per seen item of a user: two numbers, with spare capacity."""
ITEM = 1400
"""Bytes per item, besides the text of its id and its attributes: its slot, its position, and entries in three
dictionaries."""
GONE = 480
"""Bytes per slot of a removed item, besides the text of its id."""
WINDOW = 48
"""Bytes per availability window: two numbers and a flag, with spare capacity, and a flag in every cached mask."""
ATTRIBUTE = 260
"""Bytes per attribute value, besides its text: the raw value, and the feature of its owner."""
NEIGHBOUR = 32
"""Bytes per pair in a row of neighbours: three numbers, with spare capacity."""


def text_cost(text: str) -> int:
    """Return the memory cost of a text's characters: one byte each, or four each if any is not ASCII."""
    return len(text) if text.isascii() else 4 * len(text)


def texts_cost(texts: Sequence[str]) -> int:
    """Return the memory cost of the characters of many texts."""
    return sum(map(len, texts)) if all(map(str.isascii, texts)) else sum(map(text_cost, texts))


def attributes_cost(attributes: Mapping[str, Any]) -> int:
    """Return the memory cost of the attributes of a user or an item."""
    total = 0
    for raw in attributes.values():
        if isinstance(raw, str):
            total += ATTRIBUTE + (len(raw) if raw.isascii() else 4 * len(raw))
        elif isinstance(raw, tuple | list):
            total += ATTRIBUTE * len(raw) + _values_cost(raw)
        else:
            total += ATTRIBUTE
    return total


def _values_cost(raw: Sequence[Any]) -> int:
    """Return the memory cost of the texts among some values."""
    try:
        whole = "".join(raw)
    except TypeError:  # not all of them are texts
        return texts_cost([value for value in raw if isinstance(value, str)])
    return len(whole) if whole.isascii() else sum(map(text_cost, raw))
