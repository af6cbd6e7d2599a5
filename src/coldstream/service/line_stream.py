"""JSON-lines in one request, as many as one likes: each line is taken or refused by itself.

The body is read as it comes, and never held as a whole. What was taken stays, whatever happens to the rest: events that have
an id may be sent again.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from starlette.types import Receive

from coldstream.runtime.checks import Refused
from coldstream.runtime.records import Record
from coldstream.service.messages import LinesTaken, RefusedLine
from coldstream.service.problems import Problem, problem_of, undecodable
from coldstream.service.service import Service

MOST_TOGETHER = 1000
"""Lines that are written in one go."""
MOST_TOLD = 1000
"""Refused lines that the answer says something of."""


class LineKind(NamedTuple):
    """What a line is, and the record that it makes."""

    message: Any
    record: Callable[[Any], Record]


class _Line(NamedTuple):
    number: int
    record: Record


class LineStream:
    """The lines of one request, as far as they were read."""

    def __init__(self, service: Service, kind: LineKind, longest: int) -> None:
        self._service, self._kind, self._longest = service, kind, longest
        self._decode = msgspec.json.Decoder(kind.message).decode
        self._lines = self._taken = self._duplicates = self._refusals = 0
        self._refused: list[RefusedLine] = []

    async def take(self, receive: Receive) -> LinesTaken:
        """Take all lines of a body; what became of them."""
        waiting: list[_Line] = []
        async for number, line in _lines(receive, self._longest):
            self._lines += 1
            try:
                waiting.append(_Line(number, self._kind.record(self._decode(line))))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                self._refuse(number, undecodable(error, self._kind.message, line))
            if len(waiting) == MOST_TOGETHER:
                await self._write(waiting)
                waiting = []
        await self._write(waiting)
        position = self._service.learner.position
        return LinesTaken(self._lines, self._taken, self._duplicates, self._refusals, self._refused, position)

    async def _write(self, lines: Sequence[_Line]) -> None:
        """Write lines; one that is refused does not keep the others out."""
        left = list(lines)
        while left:
            try:
                positions = await self._service.writer.write([one.record for one in left])
            except Refused as refused:
                one = left.pop(refused.index)
                self._refuse(one.number, problem_of(refused.error))
                continue
            new = sum(position is not None for position in positions)
            self._taken += new
            self._duplicates += len(positions) - new
            return

    def _refuse(self, number: int, problem: Problem) -> None:
        self._refusals += 1
        if len(self._refused) < MOST_TOLD:
            self._refused.append(RefusedLine(number, problem.document.detail, problem.document.field))


async def _lines(receive: Receive, longest: int) -> AsyncIterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers from 1."""
    number, rest, more = 0, b"", True
    while more:
        part = await receive()
        if part["type"] == "http.disconnect":
            message = "the connection ended before the body did; send it again, events under the same event_id"
            raise Problem(HTTPStatus.BAD_REQUEST, message, "$")
        *whole, rest = (rest + part.get("body", b"")).split(b"\n")
        for line in whole:
            number += 1
            if line.strip():
                yield number, line
        if len(rest) > longest:
            message = f"line {number + 1} must not be longer than {longest} bytes; what was before it is taken"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, "$", {"Connection": "close"})
        more = part.get("more_body", False)
    if rest.strip():
        yield number + 1, rest
