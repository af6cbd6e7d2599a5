"""One TCP connection: uvicorn's protocol, with bounds on what a client may hold and for how long.

Nothing here is done by the clock for a single request. Whoever sweeps looks at every connection once a second, at what it
waits for; a request that is whole when it arrives costs no timer.
"""

import re
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from coldstream.service.http.turned_away import Reason
from coldstream.service.streamed_body import PROGRESS, BodyProgress

if TYPE_CHECKING:
    import asyncio

    from starlette.types import Scope
    from uvicorn._types import HTTPScope

    from coldstream.service.http.connections import Connections

MOST_HEADERS = 100
SMALL_BODY = 2**16
"""Bytes that a body may have however many others there are: a few large ones shut out no ordinary request."""
MIN_BODY_RATE = 1024.0
"""Bytes of a body per second of waiting for them, on average, below which a client counts as silent."""
MAX_LOOK_SECONDS = 2.0
"""The most that counts as waiting between two looks: a process that was stopped, or busy, did not wait for its client."""
LINGER_SECONDS = 2.0
"""How long a client that was turned away has to read why: a reset would overtake the answer."""
SPARE = 64
"""Connections beyond the limit that are told so; further ones are ended without a word."""


_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class Stage(Enum):
    """What a connection waits for."""

    HEADERS = 0
    BODY = 1
    ANSWER = 2
    READER = 3
    NEXT_REQUEST = 4
    END = 5


class Refused(Exception):
    """Ends the parsing of what came."""


class Connection(HttpToolsProtocol):
    """A connection that ends when its client takes too much: time, headers, or room for bodies."""

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
        """Of the request that is being parsed."""
        self._answering = False
        """Whether the application answers although the body was ended."""
        self._came = 0
        """Bytes of bodies that came since the last look."""
        self._late, self._looked = 0.0, self._since
        """Seconds by which the body is late, and the time of the last look."""

    # What the transport says

    def connection_made(self, transport: "asyncio.Transport") -> None:  # type: ignore[override]
        """Somebody has connected."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections + SPARE:
            self._shared.turned_away.add(Reason.CONNECTIONS)
            transport.abort()
        elif len(self.connections) > self._limits.connections:
            self.refuse(Reason.CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._let_go()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes came. Those that finish nothing are kept by the parser, so there is an end to them."""
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

    # What the parser says

    def on_headers_complete(self) -> None:
        """All headers of a request have come."""
        if len(self.headers) > MOST_HEADERS or (self._unfinished > self._limits.header_bytes and self._is_long()):
            self._end_parsing(Reason.LONG_HEADERS)
        if self.parser.should_upgrade():
            # The parser would not look at the body, which would then be taken for the next request.
            self._end_parsing(Reason.UPGRADE)
        if b"#" in self.url:
            # The parser would leave the rest out: DELETE /items/c# would delete c.
            self._end_parsing(Reason.FRAGMENT)
        self._finished = True
        self._progress = cast("Scope", self.scope)[PROGRESS] = BodyProgress()
        super().on_headers_complete()
        self.cycle.transport = cast("asyncio.Transport", _Lingering(self, self.cycle))
        self.headers = []  # what comes after the body, trailers, belongs to nobody

    def on_body(self, body: bytes) -> None:
        """A part of a body has come."""
        self._finished = True
        self._came += len(body)
        if not self.cycle.response_complete:
            self._hold(len(body))
            if self._shared.held > self._limits.bodies_bytes and self._held > SMALL_BODY:
                self._end_parsing(Reason.BODIES)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._finished = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """The parser does not go on."""
        self.refuse(self._reason)

    # What the server says

    def on_response_complete(self) -> None:
        """A request has been answered."""
        self._answering = False
        self._let_go()
        super().on_response_complete()

    def shutdown(self) -> None:
        """The service stops: requests that are whole are answered, others are not waited for."""
        if self._stage_now() is Stage.BODY:
            self.refuse(Reason.STOPPING)
        else:
            super().shutdown()

    def look(self, now: float) -> None:
        """End the connection if it has waited too long for its client."""
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
        """Send nothing more and take nothing more; the sweep closes the connection when its client has had time to read."""
        self._refused = True
        self.transport.write_eof()

    def _is_late(self, elapsed: float, came: int) -> bool:
        """Whether a body has been waited for too long, less the time that what came takes at the least rate.

        While the application has not taken all that came, it is not the client that is waited for.
        """
        waited = 0.0 if self.cycle.body else elapsed
        self._late = max(0.0, self._late + waited - came / MIN_BODY_RATE)
        return self._late >= self._limits.body_seconds

    def refuse(self, reason: Reason) -> None:
        """Say why, if it is this client's turn to be told anything, and end the connection.

        An application that streams the body says so itself, together with how far it came.
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
        """Whether the headers of this request are longer than they may be: what else came with them does not count."""
        lines = sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers)
        return len(self.url) + lines > self._limits.header_bytes

    def _in_body(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.more_body

    def _hold(self, more: int) -> None:
        """Count what is held of a body with `more` bytes that have just come: of one that is streamed, what is not done."""
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
        scope: HTTPScope | None = self.scope  # there is none before the first request
        if scope is None or "method" not in scope:
            return Stage.HEADERS
        if self.cycle.response_complete:
            return Stage.NEXT_REQUEST
        if self.cycle.more_body and not self.pipeline:
            return Stage.BODY
        return Stage.READER if self.flow.write_paused else Stage.ANSWER


class _Lingering:
    """The transport as a request sees it: closed before all of the body came, it stays until its client has read why."""

    __slots__ = ("_connection", "_cycle", "is_closing", "write")

    def __init__(self, connection: Connection, cycle: RequestResponseCycle) -> None:
        self._connection, self._cycle = connection, cycle
        self.write, self.is_closing = connection.transport.write, connection.transport.is_closing

    def close(self) -> None:
        """Close the connection, for its client at once, and for both when the client has had time to read."""
        if self._cycle.more_body and not self.is_closing():
            self._connection.end()
        else:
            self._connection.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """What came at the head of a request, less the offer to speak another protocol, which a server may pass over.

    Many clients make it with their first request. One that comes in pieces is left, and refused.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"", head) + end + rest if end and b"pgrade" in head else data
