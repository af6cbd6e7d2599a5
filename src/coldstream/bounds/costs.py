"""What things weigh in memory, in bytes: upper bounds for CPython on 64 bits, stated once.

They are numbers of ours and not measured as it runs: what has to go under a budget must not depend on the machine.
`tests/unit/engine/test_memory.py` measures that they are enough.
"""

from collections.abc import Mapping, Sequence
from typing import Any

COLUMN = 320
"""A feature, besides its row of parameters and its text: entries in a dictionary and in four lists, with room to grow."""
FIELD = 2048
"""A field, besides its row of penalties."""
USER = 800
"""A user, packed, besides the text of the id, the attributes, and the items seen: the bytes, entries in two dictionaries
and a list, and how useful it is."""
UNPACKED_USER = 1700
"""What one of those who came lately takes besides: the state, its history, and its encoding."""
SEEN = 16
"""An item that a user had: two numbers, with room to grow."""
ITEM = 1400
"""An item, besides the text of its id and its attributes: its slot, its position, and entries in three dictionaries."""
GONE = 480
"""A slot of an item that is gone, besides the text of its id."""
WINDOW = 48
"""When an item may be recommended: two numbers and a flag, with room to grow, and a flag in every mask that is kept."""
ATTRIBUTE = 260
"""A value of an attribute, besides its text: as it was given, and as a feature of its owner."""
NEIGHBOUR = 32
"""A pair in a row of neighbours: three numbers, with room to grow."""


def text_cost(text: str) -> int:
    """What the characters of a text weigh: one byte each, or up to four where some are not ASCII."""
    return len(text) if text.isascii() else 4 * len(text)


def texts_cost(texts: Sequence[str]) -> int:
    """What many texts weigh."""
    return sum(map(len, texts)) if all(map(str.isascii, texts)) else sum(map(text_cost, texts))


def attributes_cost(attributes: Mapping[str, Any]) -> int:
    """What the attributes of a user or an item weigh."""
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
    """What the texts among some values weigh."""
    try:
        whole = "".join(raw)
    except TypeError:  # not all of them are texts
        return texts_cost([value for value in raw if isinstance(value, str)])
    return len(whole) if whole.isascii() else sum(map(text_cost, raw))
