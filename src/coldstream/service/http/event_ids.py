"""Check of the event ids that a request brings."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from coldstream.service.http.problems import Problem
from coldstream.service.messages.core import NewEvent
from coldstream.service.messages.source_ids import SOURCE_HEADER, reserved_id, source_kind

SOURCE = SOURCE_HEADER.encode()
"""Header `coldstream-source` in bytes, as ASGI gives headers."""


def check_event_ids(given: NewEvent | Sequence[NewEvent], headers: Mapping[bytes, bytes]) -> None:
    """Raise `Problem` for event ids that name messages of a source, unless the headers name that kind of source."""
    sent_by = headers.get(SOURCE, b"").decode("latin-1")
    for index, event in enumerate([given] if isinstance(given, NewEvent) else given):
        if source_kind(event.event_id) not in (None, sent_by):
            where = "$" if isinstance(given, NewEvent) else f"$[{index}]"
            message = f"{where}.{reserved_id(event.event_id or '')}"
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, message, f"{where}.event_id")
