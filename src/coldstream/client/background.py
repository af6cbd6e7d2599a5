"""Events that are sent behind a caller's back, in batches."""

import time
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import msgspec

from coldstream.client.client import Client
from coldstream.client.errors import ServiceError, ServiceUnavailable
from coldstream.service.messages import MOST_RECORDS, NewEvent


class BackgroundEvents:
    """A thread that sends events as they come, over a `client`; `add` returns at once.

    What has come meanwhile goes in one call, of `batch` events at most. While the service is away, events wait, `waiting` of
    them at most; beyond that `add` raises `ServiceUnavailable`. They have ids, so none is learned twice. An event that the
    service refuses is handed to `on_refused` with the error, and the others of its batch are sent without it.

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
        self._client, self._batch, self._most = client, min(batch, MOST_RECORDS), waiting
        self._on_refused = on_refused
        self._waiting: deque[NewEvent] = deque()
        self._news, self._sending, self._closing = Condition(), 0, False
        self.learned = 0
        """Events that the service has learned."""
        self.refused = 0
        """Events that it did not take."""
        self._thread = Thread(target=self._run, name="coldstream-events", daemon=True)
        self._thread.start()

    def add(self, user: str, item: str, **more: Any) -> None:
        """Have an event of a `user` and an `item` sent; `more` is what an event has."""
        event = NewEvent(user, item, **more)
        if event.event_id is None:
            event = msgspec.structs.replace(event, event_id=uuid4().hex)
        with self._news:
            if self._closing:
                raise ServiceUnavailable("this was closed; make another one for more events")
            if len(self._waiting) >= self._most:
                raise ServiceUnavailable(f"{self._most} events are waiting, and the service does not take them now")
            self._waiting.append(event)
            self._news.notify_all()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all is sent that was added, `timeout` seconds at most; whether it was."""
        with self._news:
            return self._news.wait_for(lambda: not self._waiting and not self._sending, timeout)

    def close(self, timeout: float = 30.0) -> bool:
        """Send what waits, `timeout` seconds at most; whether all was sent."""
        sent = self.flush(timeout)
        with self._news:
            self._closing = True
            self._news.notify_all()
        self._thread.join(timeout)
        return sent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting or self._closing)
                if self._closing:
                    return
                some = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
                self._sending = len(some)
            try:
                self._send(some)
            finally:
                with self._news:
                    self._sending = 0
                    self._news.notify_all()

    def _send(self, events: list[NewEvent]) -> None:
        while not self._closing:
            try:
                answer = self._client.learn(events)
                self.learned += answer.learned + answer.duplicates
                return
            except ServiceUnavailable:
                time.sleep(0.2)  # beyond the waits of the client's own retries
            except ServiceError as error:
                if len(events) > 1:
                    half = len(events) // 2
                    self._send(events[:half])
                    self._send(events[half:])
                    return
                self.refused += 1
                if self._on_refused is not None:
                    self._on_refused(events[0], error)
                return
