"""Ids for events without ids in a file: the same row has the same id in every file."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from coldstream.events.event import Event


def row_ids(events: Iterable[Event], file: str) -> Iterator[str]:
    """Yield an id for every event.

    With a time, it is a hash of the event's content, and the number of equal events before it.

    So rows may be added to a file or corrected without changing the ids of others. Without a time, equal rows in two files
    may be two events; the id then consists of `file`, which must follow from the file's content, and the row's number.
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
    """Normalize a value to text, because whether a CSV column is read as numbers depends on all of its rows."""
    if isinstance(value, list):
        return "|".join(map(_written, value))
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return repr(float(value.replace(",", ".") if isinstance(value, str) else value))
    except ValueError:
        return str(value).lower() if str(value).lower() in ("true", "false") else str(value)
