"""A background thread that sends events in batches."""

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
    """A queue of events that a background thread sends with a `client`; `add` returns at once.

    Queued events are sent together, up to `batch` per call. While the service is unavailable they stay queued. With
    `waiting` events in the queue, `add` raises `ServiceUnavailable`. Events have ids, so none is learned twice. An event
    that the service refuses is passed to `on_refused` with the error, and the others of its batch are sent without it.

    When the program ends, queued events are sent for at most ten seconds, even if this object was not closed. The logger
    `coldstream.client.event_queue` warns how many events are lost. A forked process has a queue, a thread and connections of
    its own, and sends no events of its parent.

    The queue is in memory: a program that must not lose events in a crash writes them to an outbox or a broker first.
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
        self._ended = finalize(self, self._queue.end)  # the thread holds a reference to the queue until all of it is sent
        self._ended.atexit = False

    @property
    def learned(self) -> int:
        """The number of events that the service has learned."""
        return self._queue.learned

    @property
    def refused(self) -> int:
        """The number of events that the service refused."""
        return self._queue.refused

    def add(self, user: str, item: str, **more: Any) -> None:
        """Queue an event of a `user` and an `item`; `more` are the other fields of `NewEvent`."""
        event = NewEvent(user, item, **more)
        if event.event_id is None:
            event = msgspec.structs.replace(event, event_id=uuid4().hex)
        self._queue.put(event)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all added events are sent, `timeout` seconds at most; return False if some are not."""
        return self._queue.wait(timeout)

    def close(self, timeout: float = 30.0) -> bool:
        """Send the queued events, for `timeout` seconds at most; return False, and log a warning, if some are lost."""
        return self._queue.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
