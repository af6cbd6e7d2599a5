"""The queue of background events, and the thread that sends them."""

import logging
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread, current_thread
from time import monotonic

from coldstream.client.client import Client
from coldstream.client.errors import ClientClosed, ServiceError, ServiceUnavailable
from coldstream.client.process import after_fork, at_end
from coldstream.service.messages.core import NewEvent

log = logging.getLogger(__name__)

PAUSE = 0.2
"""Seconds between two attempts, in addition to the waits of the client's own retries."""


class EventQueue:
    """A queue of up to `most` events, sent in batches by a thread that starts with the first event.

    It belongs to one process: a forked child has an empty queue and a thread of its own, and events queued at the fork are
    sent by the parent alone. Only a closed client ends the thread; all other exceptions are handled.
    """

    def __init__(
        self, client: Client, batch: int, most: int, on_refused: Callable[[NewEvent, ServiceError], None] | None
    ) -> None:
        self._client, self._batch, self._most, self._on_refused = client, batch, most, on_refused
        self._ending = False
        self._begin()
        after_fork(self._begin)

    def _begin(self) -> None:
        """Reset the queue. Its lock is new, because another thread may have held the old one at a fork."""
        self._news, self._waiting = Condition(), deque[NewEvent]()
        self._thread: Thread | None = None
        self._sending = self._unsent = self.learned = self.refused = 0
        self._trouble: BaseException | None = None
        """The error of the last attempt, or None."""
        self._given_up = False

    def put(self, event: NewEvent) -> None:
        """Queue an event; raises `ServiceUnavailable` if the queue is full or closed."""
        with self._news:
            if isinstance(self._trouble, ClientClosed):
                raise ServiceUnavailable(
                    "the client of this was closed; make another one for more events"
                ) from self._trouble
            if self._ending:
                raise ServiceUnavailable("this was closed; make another one for more events")
            if len(self._waiting) >= self._most:
                raise ServiceUnavailable(f"{self._most} events are waiting, and the service does not take them now")
            if self._thread is None:
                self._thread = self._begun()
            self._waiting.append(event)
            self._news.notify_all()

    def wait(self, timeout: float | None) -> bool:
        """Wait until all events are sent or given up; return True if all were sent."""
        with self._news:
            self._news.wait_for(lambda: self._given_up or not self._left, timeout)
            return not self._left

    def end(self) -> None:
        """Accept no more events, and let the thread end when all are sent."""
        with self._news:
            self._ending = True
            self._news.notify_all()

    def close(self, timeout: float) -> bool:
        """Send the queued events within `timeout` seconds, and give up the rest; return True if all were sent.

        A warning with the number of events given up is logged once.
        """
        until = monotonic() + timeout
        self.end()
        self.wait(timeout)
        with self._news:
            self._given_up, unsent = True, self._left
            told, self._unsent = self._unsent, unsent
            self._news.notify_all()
        if unsent and not told:
            log.warning(
                "events that were not sent, and are lost: %d (%s)", unsent, self._trouble or f"{timeout:g} s were too short"
            )
        if not unsent and self._thread is not None and self._thread is not current_thread():
            self._thread.join(max(0.0, until - monotonic()))
        return not unsent

    @property
    def _left(self) -> int:
        return len(self._waiting) + self._sending

    def _begun(self) -> Thread:
        thread = Thread(target=self._run, name="coldstream-events", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the interpreter is shutting down and starts no threads
            raise ServiceUnavailable(f"this was not sent: {error}; add events before the program ends") from error
        at_end(self.close)
        return thread

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting or self._ending)
                if self._given_up or not self._waiting:
                    return
                some = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
                self._sending = len(some)
            self._send(some)

    def _send(self, events: list[NewEvent]) -> None:
        while not self._given_up:
            try:
                answer = self._client.learn(events)
            except ClientClosed as error:
                self._fail(error, for_good=True)
            except ServiceUnavailable as error:
                self._fail(error)
            except ServiceError as error:
                if len(events) == 1:
                    self._refuse(events[0], error)
                    return
                half = len(events) // 2
                self._send(events[:half])
                self._send(events[half:])
                return
            except Exception as error:  # the thread must survive, because callers of `put` would not notice its end
                if type(error) is not type(self._trouble):
                    log.exception("%d events cannot be sent now, which is tried again", len(events))
                self._fail(error)
            else:
                self._done(learned=answer.learned + answer.duplicates)
                return

    def _refuse(self, event: NewEvent, error: ServiceError) -> None:
        try:
            if self._on_refused is not None:
                self._on_refused(event, error)
        except BaseException:  # a bug in the caller's function, or an exit, must not block all other events
            log.exception("on_refused raised for the event %s, which was refused (%s)", event.event_id, error)
        finally:
            self._done(refused=1)

    def _done(self, learned: int = 0, refused: int = 0) -> None:
        with self._news:
            self.learned, self.refused = self.learned + learned, self.refused + refused
            self._sending, self._trouble = self._sending - learned - refused, None
            self._news.notify_all()

    def _fail(self, error: Exception, for_good: bool = False) -> None:
        with self._news:
            self._trouble, self._given_up = error, self._given_up or for_good
            self._news.notify_all()
            self._news.wait_for(lambda: self._given_up, PAUSE)
