"""Ids of events that a file gives none: the same row has the same id in every file."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from coldstream.events.event import Event


def row_ids(events: Iterable[Event], file: str) -> Iterator[str]:
    """An id for every event. With a time it follows from the event itself, and from how many equal ones came before it.

    Rows may be added to a file, or mended, and all others keep their ids. Where the time is not known, two rows that say the
    same in two files may be two events: then an id is that of the `file`, which follows from its content, and a number.
    """
    met = Counter[bytes]()
    for number, event in enumerate(events):
        if event.time is None:
            yield f"{file}-{number}"
            continue
        context = sorted((name, _written(value)) for name, value in event.context.items())
        content = json.dumps([event.user, event.item, event.time, event.kind, context]).encode()
        row = blake2b(content, digest_size=12).digest()
        yield f"{row.hex()}-{met[row]}"
        met[row] += 1


def _written(value: Any) -> str:
    """A value as it may have been written. Whether a CSV's column is one of numbers depends on all of its rows."""
    if isinstance(value, list):
        return "|".join(map(_written, value))
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return repr(float(value.replace(",", ".") if isinstance(value, str) else value))
    except ValueError:
        return str(value).lower() if str(value).lower() in ("true", "false") else str(value)
