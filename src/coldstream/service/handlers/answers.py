"""What several handlers need of a request and of an answer."""

import time
from collections.abc import Sequence
from datetime import datetime

from msgspec import UNSET, UnsetType

from coldstream.errors import InvalidInput
from coldstream.runtime.records import Record
from coldstream.runtime.replication.roles import Lag
from coldstream.runtime.writing.checks import Refused
from coldstream.service.messages import core as messages
from coldstream.service.messages import health as health_messages
from coldstream.service.service import Service


def seconds(given: messages.Time | None) -> float:
    """The time of a request: as given, or now."""
    if given is None:
        return time.time()
    return given.timestamp() if isinstance(given, datetime) else float(given)


def refused(field: str, message: str) -> InvalidInput:
    """What a field of a request is refused with."""
    error = InvalidInput(message)
    error.field = field
    return error


def availability(service: Service, item: str) -> tuple[float | UnsetType, float | UnsetType, bool | UnsetType]:
    """What was said of when an item may be recommended."""
    own = service.recommender.availability(item)
    first, end = (UNSET if time is None else time for time in (own.available_from, own.available_until))
    return first, end, own.hidden or UNSET


def lag(own: Lag) -> health_messages.LogLag:
    """How far a process is behind the log."""
    return health_messages.LogLag(own.lines, round(1e3 * own.seconds, 1))


async def write(service: Service, records: Sequence[Record], given: object) -> list[int]:
    """The positions of records that are new. A refusal says which of several it is about."""
    try:
        return [position for position in await service.writer.write(records) if position is not None]
    except Refused as refused:
        if isinstance(given, list):
            raise
        raise refused.error from refused


def last(service: Service, positions: Sequence[int]) -> int:
    """Where the log stands after what was written."""
    return positions[-1] if positions else service.learner.position
