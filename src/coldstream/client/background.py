"""Events that are sent behind a caller's back, in batches."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self
from uuid import uuid4
from weakref import finalize

import msgspec

from coldstream.client.client import Client
from coldstream.client.errors import ServiceError
from coldstream.client.event_queue import EventQueue
from coldstream.service.messages.core import MOST_RECORDS, NewEvent


class BackgroundEvents:
    """A thread that sends events as they come, over a `client`; `add` returns at once.

    What has come meanwhile goes in one call, of `batch` events at most. While the service is away, events wait, `waiting` of
    them at most; beyond that `add` raises `ServiceUnavailable`. They have ids, so none is learned twice. An event that the
    service refuses is handed to `on_refused` with the error, and the others of its batch are sent without it.

    What still waits when the program ends is sent then, for ten seconds at most, whether this was closed or not. A warning
    says how many events are given up, by the logger `coldstream.client.event_queue`. A process that is forked has a queue, a
    thread and connections of its own, and sends nothing of its parent's.

    What waits is in memory: whoever must not lose events in a crash writes them to an outbox or a broker first.
    """

    def __init__(
        self,
        client: Client,
        *,
        batch: int = 500,
        waiting: int = 100_000,
        on_refused: Callable[[NewEvent, ServiceError], None] | None = None,
    ) -> None:
        self._queue = EventQueue(client, min(batch, MOST_RECORDS), waiting, on_refused)
        self._ended = finalize(self, self._queue.end)  # the thread keeps the queue, until all of it is sent
        self._ended.atexit = False

    @property
    def learned(self) -> int:
        """Events that the service has learned."""
        return self._queue.learned

    @property
    def refused(self) -> int:
        """Events that it did not take."""
        return self._queue.refused

    def add(self, user: str, item: str, **more: Any) -> None:
        """Have an event of a `user` and an `item` sent; `more` is what an event has."""
        event = NewEvent(user, item, **more)
        if event.event_id is None:
            event = msgspec.structs.replace(event, event_id=uuid4().hex)
        self._queue.put(event)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all is sent that was added, `timeout` seconds at most; whether it was."""
        return self._queue.wait(timeout)

    def close(self, timeout: float = 30.0) -> bool:
        """Send what waits, `timeout` seconds at most; whether all was sent. A warning says how many events were not."""
        return self._queue.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
