"""One TCP connection: uvicorn's protocol, with bounds on the memory and the time that a client may take.

There are no timers per request: a sweep over all connections (`Connections.sweep`) looks at least once a second at what each
of them waits for.
"""

import re
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from coldstream.service.http.streamed_body import PROGRESS, BodyProgress
from coldstream.service.http.turned_away import Reason

if TYPE_CHECKING:
    import asyncio

    from starlette.types import Scope
    from uvicorn._types import HTTPScope

    from coldstream.service.http.connections import Connections

MOST_HEADERS = 100
"""Most headers of a request."""
SMALL_BODY = 2**16
"""Bytes that a body may always hold, also where all bodies together are at their bound, so that a few large bodies
shut out no ordinary request."""
MIN_BODY_RATE = 1024.0
"""Least bytes of a body per second of waiting for it, on average. A slower client is late (`body_seconds`)."""
MAX_LOOK_SECONDS = 2.0
"""Most seconds that count as waiting between two looks: a process that was paused or busy did not wait for its client."""
LINGER_SECONDS = 2.0
"""Seconds that a client that was turned away has to read why: closing at once could reset the connection before."""
SPARE = 64
"""Connections beyond the limit that get an answer that says so; further ones are closed without an answer."""


_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class Stage(Enum):
    """Stages of a connection, by what it waits for."""

    HEADERS = 0
    BODY = 1
    ANSWER = 2
    READER = 3
    NEXT_REQUEST = 4
    END = 5


class Refused(Exception):
    """Raised in a callback of the parser, to end the parsing of a request that is refused."""


class Connection(HttpToolsProtocol):
    """A connection that refuses a client which takes too much: time, headers, or memory for bodies."""

    def __init__(self, shared: "Connections", *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._shared, self._limits = shared, shared.limits
        self._unfinished, self._finished = 0, False
        self._held = 0
        self._reason = Reason.MALFORMED
        self._refused = False
        self._stage, self._left = Stage.HEADERS, 0
        self._about: object = None
        self._since = self.loop.time()
        self._progress = BodyProgress()
        """Body progress of the request that is being parsed."""
        self._answering = False
        """Whether a streaming application still answers although this connection ended the body."""
        self._came = 0
        """Bytes of bodies received since the last look."""
        self._late, self._looked = 0.0, self._since
        """Seconds by which the body is late, and the time of the last look."""

    # Callbacks of the transport

    def connection_made(self, transport: "asyncio.Transport") -> None:  # type: ignore[override]
        """Take a new connection, or turn it away if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections + SPARE:
            self._shared.turned_away.add(Reason.CONNECTIONS)
            transport.abort()
        elif len(self.connections) > self._limits.connections:
            self.refuse(Reason.CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what is counted for a connection that has ended."""
        self._let_go()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes that came. Refuse the request if the bytes that the parser buffers are too many."""
        if self._refused:
            return
        if self._unfinished == 0 and not self._in_body():
            data = _without_upgrade(data)
        self._unfinished += len(data)
        super().data_received(data)
        if self._finished:
            self._unfinished, self._finished = 0, False
        elif self._unfinished > self._limits.header_bytes:
            self.refuse(Reason.LONG_HEADERS)

    # Callbacks of the parser

    def on_headers_complete(self) -> None:
        """Check the headers of a request, and begin to track its body."""
        if len(self.headers) > MOST_HEADERS or (self._unfinished > self._limits.header_bytes and self._is_long()):
            self._end_parsing(Reason.LONG_HEADERS)
        if self.parser.should_upgrade():
            # The parser would skip the body, which would then be taken for the next request.
            self._end_parsing(Reason.UPGRADE)
        if b"#" in self.url:
            # The parser would drop the fragment: DELETE /items/c# would delete c.
            self._end_parsing(Reason.FRAGMENT)
        self._finished = True
        self._progress = cast("Scope", self.scope)[PROGRESS] = BodyProgress()
        super().on_headers_complete()
        self.cycle.transport = cast("asyncio.Transport", _Lingering(self, self.cycle))
        self.headers = []  # so that trailers after the body are not added to them

    def on_body(self, body: bytes) -> None:
        """Count a part of a body, and refuse a large one where all bodies together hold too much."""
        self._finished = True
        self._came += len(body)
        if not self.cycle.response_complete:
            self._hold(len(body))
            if self._shared.held > self._limits.bodies_bytes and self._held > SMALL_BODY:
                self._end_parsing(Reason.BODIES)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request is complete."""
        self._finished = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Refuse a request that the parser rejects, or that a callback refused."""
        self.refuse(self._reason)

    # Calls by the server and the sweep

    def on_response_complete(self) -> None:
        """Release what is counted for a request that has been answered."""
        self._answering = False
        self._let_go()
        super().on_response_complete()

    def shutdown(self) -> None:
        """Stop: complete requests are answered first, and a request whose body is awaited is refused."""
        if self._stage_now() is Stage.BODY:
            self.refuse(Reason.STOPPING)
        else:
            super().shutdown()

    def look(self, now: float) -> None:
        """End the connection if it has waited too long for its client; `now` is the time of the event loop."""
        stage = self._stage_now()
        left = self.transport.get_write_buffer_size() if stage in (Stage.READER, Stage.END) else 0
        elapsed, self._looked = min(now - self._looked, MAX_LOOK_SECONDS), now
        came, self._came = self._came, 0
        if stage is not self._stage or self._about is not self.scope or left != self._left:
            self._stage, self._about, self._left, self._since, self._late = stage, self.scope, left, now, 0.0
            return
        waited = now - self._since
        if stage is Stage.HEADERS and waited >= self._limits.header_seconds:
            self.refuse(Reason.SLOW_HEADERS if self._about else Reason.IDLE)
        elif stage is Stage.BODY and self._is_late(elapsed, came):
            self.refuse(Reason.SLOW_BODY)
        elif stage is Stage.NEXT_REQUEST and waited >= self._limits.idle_seconds:
            self.transport.close()
        elif stage is Stage.READER and waited >= self._limits.idle_seconds:
            self.refuse(Reason.UNREAD)
        elif stage is Stage.END and waited >= LINGER_SECONDS:
            self.transport.abort()

    def end(self) -> None:
        """Send and take nothing more; the sweep closes the connection once its client has had time to read the answer."""
        self._refused = True
        self.transport.write_eof()

    def _is_late(self, elapsed: float, came: int) -> bool:
        """Return whether a body is late: seconds of waiting, less those that the bytes received buy at the least rate.

        No time counts as waiting while the application has not taken all bytes received.
        """
        waited = 0.0 if self.cycle.body else elapsed
        self._late = max(0.0, self._late + waited - came / MIN_BODY_RATE)
        return self._late >= self._limits.body_seconds

    def refuse(self, reason: Reason) -> None:
        """End the connection, and answer with the reason unless an answer to an earlier request is due or has begun.

        An application that streams the body answers itself, and says how far it came.
        """
        if self._refused:
            return
        self._shared.turned_away.add(reason)
        self._refused = True
        self._let_go()
        turn = not self.pipeline
        cycle: RequestResponseCycle | None = self.cycle
        self.pipeline.clear()
        if cycle is not None and not cycle.response_complete:
            turn = turn and not cycle.response_started
            progress = self._progress
            self._answering = turn and progress.is_streamed and not progress.is_over and reason is not Reason.UNREAD
            if self._answering:
                progress.ended, cycle.keep_alive = reason, False
            else:
                cycle.disconnected = True
            cycle.message_event.set()
        if self._answering:
            return
        self.flow.resume_writing()
        if reason is Reason.UNREAD:
            self.transport.abort()
        elif turn and reason is not Reason.IDLE and not self.transport.is_closing():
            self.transport.write(reason.response())
            self.transport.write_eof()
        else:
            self.transport.close()

    def _end_parsing(self, reason: Reason) -> None:
        self._reason = reason
        raise Refused(reason.label)

    def _is_long(self) -> bool:
        """Return whether the path and headers are too long, without other bytes that came with them."""
        lines = sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers)
        return len(self.url) + lines > self._limits.header_bytes

    def _in_body(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.more_body

    def _hold(self, more: int) -> None:
        """Count bytes held of a body when `more` bytes came. Of a streamed body, only bytes not yet written are held."""
        progress = self._progress
        if progress.is_streamed:
            more += len(self.cycle.body) + progress.kept + progress.batched - self._held
        self._shared.held += more
        self._held += more

    def _let_go(self) -> None:
        if self._held:
            self._shared.held -= self._held
            self._held = 0

    def _stage_now(self) -> Stage:
        if self._answering and not self.transport.is_closing():
            return Stage.READER if self.flow.write_paused else Stage.ANSWER
        if self._refused or self.transport.is_closing():
            return Stage.END
        scope: HTTPScope | None = self.scope  # None before the first request
        if scope is None or "method" not in scope:
            return Stage.HEADERS
        if self.cycle.response_complete:
            return Stage.NEXT_REQUEST
        if self.cycle.more_body and not self.pipeline:
            return Stage.BODY
        return Stage.READER if self.flow.write_paused else Stage.ANSWER


class _Lingering:
    """The transport as a request sees it. Closed before the end of the body, it lingers until its client has read why."""

    __slots__ = ("_connection", "_cycle", "is_closing", "write")

    def __init__(self, connection: Connection, cycle: RequestResponseCycle) -> None:
        self._connection, self._cycle = connection, cycle
        self.write, self.is_closing = connection.transport.write, connection.transport.is_closing

    def close(self) -> None:
        """Close the connection; before the end of the body only for writing, until the client has had time to read."""
        if self._cycle.more_body and not self.is_closing():
            self._connection.end()
        else:
            self._connection.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """Return the first bytes of a request without the header Upgrade, an offer that a server may ignore.

    Many clients send it with their first request. If the headers come in several pieces it stays, and is refused.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"", head) + end + rest if end and b"pgrade" in head else data
