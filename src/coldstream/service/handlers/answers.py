"""Helpers that several handlers share: times, refusals, availability, lag and writing."""

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
    """Return the time of a request in seconds since 1970; None is now."""
    if given is None:
        return time.time()
    return given.timestamp() if isinstance(given, datetime) else float(given)


def refused(field: str, message: str) -> InvalidInput:
    """Return the error that refuses a field of a request."""
    error = InvalidInput(message)
    error.field = field
    return error


def availability(service: Service, item: str) -> tuple[float | UnsetType, float | UnsetType, bool | UnsetType]:
    """Return from when and until when an item may be recommended, in seconds since 1970, and whether it is hidden."""
    own = service.recommender.availability(item)
    first, end = (UNSET if time is None else time for time in (own.available_from, own.available_until))
    return first, end, own.hidden or UNSET


def lag(own: Lag) -> health_messages.LogLag:
    """Return the lag of a process behind the log as a message, in milliseconds."""
    return health_messages.LogLag(own.lines, round(1e3 * own.seconds, 1))


async def write(service: Service, records: Sequence[Record], given: object) -> list[int]:
    """Write records, and return the positions of those that are new in the log.

    Raises `Refused`, which names the record, if `given` is a list, and otherwise the error of the one record.
    """
    try:
        return [position for position in await service.writer.write(records) if position is not None]
    except Refused as refused:
        if isinstance(given, list):
            raise
        raise refused.error from refused


def last(service: Service, positions: Sequence[int]) -> int:
    """Return the last of these positions, or without any the position up to which the log is learned."""
    return positions[-1] if positions else service.learner.position
