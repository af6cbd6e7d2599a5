"""Connections that are turned away before a request is complete: reasons, counts for Prometheus, and log lines."""

import logging
from collections import Counter
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus

import msgspec

from coldstream.service.http.problems import CONTENT_TYPE, RETRY_AFTER, Problem

log = logging.getLogger(__name__)

LOG_EVERY = 10.0
"""Least seconds between two lines of the log for the same reason."""


class Reason(Enum):
    """Reasons to end a connection: a name, the status of the answer, and its detail."""

    CONNECTIONS = ("connections", 503, "there is no room for another connection; close some, or try again later")
    BODIES = (
        "bodies",
        503,
        "the bodies of other requests take all the room there is; send less at once, or try again later",
    )
    STOPPING = ("stopping", 503, "the service is stopping; send the same again when it is back")
    SLOW_HEADERS = ("slow headers", 408, "the headers of a request must not take so long; send them at once")
    SLOW_BODY = ("slow body", 408, "the body of a request must not be waited for so long; send it without such pauses")
    LONG_HEADERS = ("long headers", 431, "the path and the headers of a request are too long or too many; send less")
    FRAGMENT = ("fragment", 400, "a path must not hold #; write it as %23")
    UPGRADE = ("upgrade", 400, "no other protocol is spoken here; send the request without the header Upgrade")
    MALFORMED = ("malformed", 400, "this is no request of HTTP/1.1")
    IDLE = ("idle", 408, "")
    UNREAD = ("unread", 408, "")

    @property
    def label(self) -> str:
        """The name of the reason in the log and the metrics."""
        return str(self.value[0])

    def problem(self) -> Problem:
        """Return the problem that the client is answered, after which the connection ends."""
        _, status, detail = self.value
        again = {"Retry-After": str(RETRY_AFTER)} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
        return Problem(status, detail, None, {"Connection": "close", **again})

    def response(self) -> bytes:
        """Return the complete HTTP response with the problem, after which the connection ends."""
        problem = self.problem()
        body = msgspec.json.encode(problem.document)
        lines = [
            b"HTTP/1.1 %d %s" % (problem.status, HTTPStatus(problem.status).phrase.encode()),
            b"content-type: " + CONTENT_TYPE,
            b"content-length: %d" % len(body),
            b"cache-control: no-store",
            *(b"%b: %b" % (name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
        ]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body


class TurnedAway:
    """Counts of connections that were turned away, by reason, and their lines in the log."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count
        self._unlogged: Counter[Reason] = Counter()
        self._logged_at: dict[Reason, float] = {}

    def add(self, reason: Reason) -> None:
        """Count a connection that was turned away."""
        self._count(reason.label)
        self._unlogged[reason] += 1

    def log(self, now: float) -> None:
        """Log the counts since the last line of each reason, if that line was at least `LOG_EVERY` seconds ago."""
        for reason, count in list(self._unlogged.items()):
            if now - self._logged_at.get(reason, -LOG_EVERY) >= LOG_EVERY:
                log.warning("connections were turned away", extra={"reason": reason.label, "count": count})
                self._logged_at[reason] = now
                del self._unlogged[reason]
