"""Forwarding of writes from a follower to the writer, so that clients need not know which process is the writer.

A request is forwarded one hop. If it certainly was not taken, because the connection failed or the process there is not the
writer, it is sent to the next writer until its time is over. A request that may have been taken is not sent again: only its
client knows whether that is safe.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

import httptools

from coldstream.service.http.addresses import parted
from coldstream.service.http.event_ids import SOURCE
from coldstream.service.http.problems import RETRY_AFTER, Problem

log = logging.getLogger(__name__)

HOP, ELSEWHERE = b"coldstream-forwarded", b"coldstream-not-the-writer"
"""Header of a request that was forwarded, and header of an answer by a process that is not the writer."""

PASSED_ON = (b"authorization", b"content-type", b"origin", b"sec-fetch-site", SOURCE)
PASSED_BACK = (b"retry-after", b"www-authenticate")
"""Headers of a request, and of an answer, that are forwarded."""

LONGEST_CONNECTING = 1.0
LOOK_AGAIN = 0.05
"""Most seconds to connect, and seconds until the next look for a writer where there is none."""

MOST_IDLE = 64
"""Most idle connections that are kept for each address."""

_NOBODY = "no replica takes what is written now, and no writer could be reached in {seconds:g} s; send the same again later"
_UNCLEAR = "the writer went away before it answered and may have taken it; send the same again, events with an event_id"


class Forwarded(NamedTuple):
    """The writer's answer to a request that was forwarded."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class _NotSent(Exception):
    """The request was certainly not sent, so it may be sent again."""


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Forwarder:
    """A sender of requests to the current writer.

    `is_here` tells whether this process is the writer, `find` returns the address of the writer if it is known, `changed` an
    event that is set when the writer changes, and `seconds` bounds the search for a writer and the wait for its answer.
    """

    def __init__(
        self,
        is_here: Callable[[], bool],
        find: Callable[[], str | None],
        changed: Callable[[], asyncio.Event],
        seconds: float,
    ) -> None:
        self._is_here, self._find, self._changed, self._seconds = is_here, find, changed, seconds
        self._idle: dict[str, list[_Connection]] = defaultdict(list)

    async def forward(self, method: str, target: bytes, headers: Mapping[bytes, bytes], body: bytes) -> Forwarded | None:
        """Send a request to the writer and return its answer; None if this process has become the writer.

        Raises `Problem` (503) if no writer is reached in time, or the writer goes away before it answers.
        """
        loop = asyncio.get_running_loop()
        until, address = loop.time() + self._seconds, None
        while (left := until - loop.time()) > 0:
            if self._is_here():
                return None
            changed, address = self._changed(), self._find()
            if address is not None:
                try:
                    answer = await self._sent(address, changed, left, _request(method, target, headers, body, address))
                except _NotSent:
                    self._forget(address)
                else:
                    if ELSEWHERE not in answer.headers:
                        return answer
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), min(LOOK_AGAIN, left))
        log.warning("no writer can be reached", extra={"address": address})
        raise _unavailable(_NOBODY.format(seconds=self._seconds))

    def close(self) -> None:
        """Close all idle connections."""
        for address in list(self._idle):
            self._forget(address)

    async def _sent(self, address: str, changed: asyncio.Event, left: float, request: bytes) -> Forwarded:
        connection = await self._connection(address)
        answering = asyncio.ensure_future(_answer(connection, request))
        moved = asyncio.ensure_future(changed.wait())
        try:
            # If another process becomes the writer, this one may never answer: it may be stopped, or cut off.
            await asyncio.wait({answering, moved}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                await asyncio.wait({answering}, timeout=min(0.5, left))
            if not answering.done():
                raise _unavailable(_UNCLEAR)
            answer = answering.result()
        except (OSError, EOFError, httptools.HttpParserError):
            raise _unavailable(_UNCLEAR) from None
        finally:
            moved.cancel()
            answering.cancel()
            if not answering.done() or answering.cancelled() or answering.exception() is not None:
                connection.writer.close()
        self._keep(address, connection, answer)
        return answer

    async def _connection(self, address: str) -> _Connection:
        while self._idle[address]:
            connection = self._idle[address].pop()
            if not connection.reader.at_eof() and not connection.writer.is_closing():
                return connection
            connection.writer.close()
        host, port = parted(address)
        try:
            return _Connection(*await asyncio.wait_for(asyncio.open_connection(host, port), LONGEST_CONNECTING))
        except (OSError, TimeoutError) as error:
            raise _NotSent from error

    def _keep(self, address: str, connection: _Connection, answer: Forwarded) -> None:
        if answer.headers.get(b"connection", b"").lower() == b"close" or len(self._idle[address]) >= MOST_IDLE:
            connection.writer.close()
        else:
            self._idle[address].append(connection)

    def _forget(self, address: str) -> None:
        for connection in self._idle.pop(address, []):
            connection.writer.close()


def _request(method: str, target: bytes, headers: Mapping[bytes, bytes], body: bytes, address: str) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (method.encode(), target), b"host: " + address.encode(), HOP + b": 1"]
    lines += [b"%b: %b" % (name, headers[name]) for name in PASSED_ON if name in headers]
    lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class _Response:
    """A response, as far as the parser has read it."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.body, self.whole = b"", False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.whole = True


async def _answer(connection: _Connection, request: bytes) -> Forwarded:
    connection.writer.write(request)
    await connection.writer.drain()
    response = _Response()
    parser = httptools.HttpResponseParser(response)
    while not response.whole:
        data = await connection.reader.read(2**16)
        if not data:
            raise EOFError
        parser.feed_data(data)
    return Forwarded(parser.get_status_code(), response.headers, response.body)


def _unavailable(detail: str) -> Problem:
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, None, {"Retry-After": str(RETRY_AFTER)})
