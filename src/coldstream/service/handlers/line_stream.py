"""JSON-lines, or the rows of an Arrow stream, in one request, as many as one likes: each is taken or refused by itself.

The body is read as it comes, and never held as a whole. What was taken stays, whatever happens to the rest: events that have
an id may be sent again.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from starlette.types import Receive

from coldstream.runtime.records import Record
from coldstream.runtime.replication.roles import NotTheWriter
from coldstream.runtime.writing.checks import Refused
from coldstream.service.event_ids import check_event_ids
from coldstream.service.handlers.arrow_stream import RowShape, arrow_lines
from coldstream.service.http.forwarding import ELSEWHERE, HOP, Forwarded
from coldstream.service.http.problems import RETRY_AFTER, Problem, ProblemDocument, problem_of, undecodable
from coldstream.service.messages.core import LinesTaken, NewEvent, RefusedLine
from coldstream.service.service import Service

LINES = (b"application/x-ndjson", b"application/jsonl")
"""What JSON-lines are called."""
MOST_TOGETHER = 1000
"""Lines that are written in one go."""
MOST_TOLD = 1000
"""Refused lines that the answer says something of."""


class LineKind(NamedTuple):
    """What a line is, and the record that it makes."""

    message: Any
    record: Callable[[Any], Record]
    row: RowShape
    """What becomes of the columns of a table."""


class Asked(NamedTuple):
    """The path and the headers of a request, as far as another process has to know them."""

    path: bytes
    headers: Mapping[bytes, bytes]


class _Line(NamedTuple):
    number: int
    record: Record
    text: bytes


class LineStream:
    """The lines of one request, as far as they were read."""

    def __init__(self, service: Service, kind: LineKind, longest: int, asked: Asked | None = None) -> None:
        self._service, self._kind, self._longest, self._asked = service, kind, longest, asked
        self._position: int | None = None
        self._decode = msgspec.json.Decoder(kind.message).decode
        self._lines = self._taken = self._duplicates = self._refusals = 0
        self._refused: list[RefusedLine] = []

    async def take(self, receive: Receive) -> LinesTaken:
        """Take all lines of a body; what became of them."""
        return await self._take_all(_lines(receive, self._longest))

    async def take_arrow(self, receive: Receive) -> LinesTaken:
        """Take all rows of a body that is an Arrow stream; what became of them."""
        return await self._take_all(arrow_lines(receive, self._longest, self._kind.row))

    async def _take_all(self, lines: AsyncIterator[tuple[int, bytes]]) -> LinesTaken:
        waiting: list[_Line] = []
        async for number, line in lines:
            self._lines += 1
            try:
                waiting.append(_Line(number, self._record(line), line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                self._refuse(number, undecodable(error, self._kind.message, line))
            except Problem as problem:
                self._refuse(number, problem)
            if len(waiting) == MOST_TOGETHER:
                await self._write(waiting)
                waiting = []
        await self._write(waiting)
        position = self._service.learner.position if self._position is None else self._position
        return LinesTaken(self._lines, self._taken, self._duplicates, self._refusals, self._refused, position)

    def _record(self, line: bytes) -> Record:
        given = self._decode(line)
        if self._kind.message is NewEvent:
            check_event_ids(given, {} if self._asked is None else self._asked.headers)
        return self._kind.record(given)

    async def _write(self, lines: Sequence[_Line]) -> None:
        """Write lines, or have the writer do it, where this is another process."""
        if not lines:
            return
        try:
            await self._write_here(lines)
        except NotTheWriter as error:
            forwarder, asked = self._service.forwarder, self._asked
            if forwarder is None or asked is None or HOP in asked.headers:
                raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), None, {ELSEWHERE.decode(): "1"}) from error
            body = b"\n".join(line.text for line in lines)
            headers = {**asked.headers, b"content-type": LINES[0]}
            answer = await forwarder.forward("POST", asked.path, headers, body)
            if answer is None:  # it is this process by now
                await self._write(lines)
            else:
                self._count(lines, answer)

    def _count(self, lines: Sequence[_Line], answer: Forwarded) -> None:
        """Take over what the writer says became of lines."""
        if answer.status != HTTPStatus.OK:
            document = msgspec.json.decode(answer.body, type=ProblemDocument)
            raise Problem(document.status, document.detail, document.field, {"Retry-After": str(RETRY_AFTER)})
        found = msgspec.json.decode(answer.body, type=LinesTaken)
        self._taken, self._duplicates = self._taken + found.taken, self._duplicates + found.duplicates
        self._refusals += found.refused
        told = [msgspec.structs.replace(one, line=lines[one.line - 1].number) for one in found.refusals]
        self._refused += told[: MOST_TOLD - len(self._refused)]
        self._position = found.position

    async def _write_here(self, lines: Sequence[_Line]) -> None:
        """Write lines; one that is refused does not keep the others out."""
        service = self._service
        service.writer  # noqa: B018  # it raises where another is it
        completed = await service.impressions.completed([one.record for one in lines], service.recommender)
        left = [one._replace(record=record) for one, record in zip(lines, completed, strict=True)]
        while left:
            records = [one.record for one in left]
            try:
                positions = await service.writer.write(records)
            except Refused as refused:
                one = left.pop(refused.index)
                self._refuse(one.number, problem_of(refused.error))
                continue
            new = sum(position is not None for position in positions)
            self._taken += new
            self._duplicates += len(positions) - new
            service.impressions.note(records, service.recommender)
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
