"""JSON-lines, or the rows of an Arrow stream, in one request: any number of them, each taken or refused by itself.

The body is read as it comes, and never held as a whole. Lines are checked and written in batches, and the loop is given to
others after every slice of that work. An answer that ends before the body does says how many lines were taken, and which
line to go on with.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from starlette.types import Receive

from coldstream.errors import ColdstreamError
from coldstream.runtime.records import Record
from coldstream.runtime.replication.roles import NotTheWriter
from coldstream.runtime.turns import Slices
from coldstream.service.event_ids import check_event_ids
from coldstream.service.handlers.arrow_stream import RowShape, arrow_lines
from coldstream.service.http.forwarding import ELSEWHERE, HOP, Forwarded
from coldstream.service.http.problems import RETRY_AFTER, Problem, ProblemDocument, problem_of, undecodable
from coldstream.service.messages.core import LinesTaken, NewEvent, RefusedLine
from coldstream.service.service import Service
from coldstream.service.streamed_body import BodyProgress, StreamedBody

LINES = (b"application/x-ndjson", b"application/jsonl")
"""What JSON-lines are called."""
MAX_BATCH_LINES = 1000
"""Lines that are written in one go."""
MAX_BATCH_BYTES = 2**20
"""Bytes of lines that are written in one go: a batch ends with the line that reaches it."""
MAX_TOLD_REFUSALS = 100
"""Refused lines that the answer describes; others are only counted, because to compose a text takes up to .6 ms."""


class LineKind(NamedTuple):
    """The message that a line is decoded as, and the record that is made of it."""

    message: Any
    record: Callable[[Any], Record]
    row: RowShape
    """How the columns of a table become the fields of the message."""


class Asked(NamedTuple):
    """The path and the headers of a request, as far as another process has to know them."""

    path: bytes
    headers: Mapping[bytes, bytes]


class _Line(NamedTuple):
    number: int
    text: bytes
    record: Record | None
    refusal: Exception | None = None
    """What the decoder says of a line that makes no record, or the problem with a row that makes no line."""


class LineStream:
    """The lines of one request, as far as they were read."""

    def __init__(
        self,
        service: Service,
        kind: LineKind,
        longest: int,
        asked: Asked | None = None,
        progress: BodyProgress | None = None,
    ) -> None:
        self._service, self._kind, self._longest, self._asked = service, kind, longest, asked
        self._progress = BodyProgress() if progress is None else progress
        self._slices = Slices(service.pausing)
        self._position: int | None = None
        self._decode = msgspec.json.Decoder(kind.message).decode
        self._lines = self._taken = self._duplicates = self._refused = 0
        self._next_line = 1
        self._refusals: list[RefusedLine] = []

    async def take(self, receive: Receive) -> LinesTaken:
        """Take all lines of a body, and return what became of them."""
        body = StreamedBody(receive, self._progress)
        return await self._take_all(_lines(body, self._longest, self._slices))

    async def take_arrow(self, receive: Receive) -> LinesTaken:
        """Take all rows of a body that is an Arrow stream, and return what became of them."""
        body = StreamedBody(receive, self._progress)
        return await self._take_all(arrow_lines(body, self._longest, self._kind.row, self._slices))

    async def _take_all(self, lines: AsyncIterator[tuple[int, bytes | Problem]]) -> LinesTaken:
        try:
            if (ended := await self._take_whole_lines(lines)) is not None:
                raise ended
        except Problem as problem:
            raise self._with_progress(problem) from problem
        except ColdstreamError as error:
            raise self._with_progress(problem_of(error)) from error
        position = self._log_position()
        assert position is not None  # nothing is written, and no body read to its end, before the service has begun
        return LinesTaken(self._lines, self._taken, self._duplicates, self._refused, self._refusals, position)

    async def _take_whole_lines(self, lines: AsyncIterator[tuple[int, bytes | Problem]]) -> Problem | None:
        """Take all lines that came as a whole. Returns why the body ended early, if it did."""
        batch, progress = list[_Line](), self._progress
        ended: Problem | None = None
        while True:
            try:
                number, line = await anext(lines)
            except StopAsyncIteration:
                break
            except Problem as problem:  # lines before it are taken all the same
                ended = problem
                break
            self._lines += 1
            batch.append(self._decoded(number, line))
            progress.batched += len(batch[-1].text)
            if len(batch) == MAX_BATCH_LINES or progress.batched >= MAX_BATCH_BYTES:
                await self._decide(batch)
                batch, progress.batched = [], 0
            await self._slices.pause_if_over()
        await self._decide(batch)
        return ended

    def _decoded(self, number: int, line: bytes | Problem) -> _Line:
        if isinstance(line, Problem):
            return _Line(number, b"", None, line)
        try:
            return _Line(number, line, self._record(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, Problem) as error:
            return _Line(number, line, None, error.with_traceback(None))

    async def _decide(self, batch: Sequence[_Line]) -> None:
        """Write the lines of a batch that make records, and count all others as refused."""
        await self._write([line for line in batch if line.record is not None])
        for line in batch:
            if line.refusal is not None:
                await self._refuse(line, line.refusal)
            self._next_line = line.number + 1

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
                self._take_over(lines, answer)

    def _take_over(self, lines: Sequence[_Line], answer: Forwarded) -> None:
        """Count what the writer says became of lines."""
        if answer.status == HTTPStatus.OK:
            found = msgspec.json.decode(answer.body, type=LinesTaken)
            self._add(lines, found.taken, found.duplicates, found.refused, found.refusals, found.position)
            return
        document = msgspec.json.decode(answer.body, type=ProblemDocument)
        if document.next_line is not None:
            counts = (document.taken or 0, document.duplicates or 0, document.refused or 0)
            self._add(lines, *counts, document.refusals or [], document.position)
            self._next_line = lines[document.next_line - 1].number
        raise Problem(document.status, document.detail, document.field, {"Retry-After": str(RETRY_AFTER)})

    def _add(
        self,
        lines: Sequence[_Line],
        taken: int,
        duplicates: int,
        refused: int,
        refusals: Sequence[RefusedLine],
        position: int | None,
    ) -> None:
        self._taken, self._duplicates = self._taken + taken, self._duplicates + duplicates
        self._refused += refused
        told = [msgspec.structs.replace(one, line=lines[one.line - 1].number) for one in refusals]
        self._refusals += told[: MAX_TOLD_REFUSALS - len(self._refusals)]
        self._position = position

    async def _write_here(self, lines: Sequence[_Line]) -> None:
        """Write lines; one that is refused does not keep the others out."""
        service = self._service
        service.writer  # noqa: B018  # it raises where another is it
        asked = [line.record for line in lines if line.record is not None]
        records = await service.impressions.completed(asked, service.recommender)
        outcomes = await service.writer.write_each(records)
        taken = list[Record]()
        for line, record, outcome in zip(lines, records, outcomes, strict=True):
            if isinstance(outcome, ColdstreamError):
                await self._refuse(line, outcome)
            else:
                taken.append(record)
                self._taken += outcome is not None
                self._duplicates += outcome is None
        service.impressions.note(taken, service.recommender)

    async def _refuse(self, line: _Line, why: Exception) -> None:
        self._refused += 1
        if len(self._refusals) < MAX_TOLD_REFUSALS:
            document = self._problem(line, why).document
            self._refusals.append(RefusedLine(line.number, document.detail, document.field))
            await self._slices.pause_if_over()

    def _problem(self, line: _Line, why: Exception) -> Problem:
        """The problem with a line, in words: this takes many times as long as to find out that it is refused."""
        if isinstance(why, Problem):
            return why
        return problem_of(why) if isinstance(why, ColdstreamError) else undecodable(why, self._kind.message, line.text)

    def _with_progress(self, problem: Problem) -> Problem:
        """The problem that ends the stream, with how many lines were taken and which one to go on with."""
        detail, line = problem.document.detail, self._next_line
        document = msgspec.structs.replace(
            problem.document,
            detail=detail if line == 1 else f"{detail}; all lines before line {line} are done, go on with that one",
            taken=self._taken,
            duplicates=self._duplicates,
            refused=self._refused,
            refusals=self._refusals,
            next_line=line,
            position=self._log_position(),
        )
        return Problem.of(
            document, problem.headers if self._progress.is_over else {**problem.headers, "Connection": "close"}
        )

    def _log_position(self) -> int | None:
        if self._position is None and self._service.has_begun:
            return self._service.learner.position
        return self._position


async def _lines(body: StreamedBody, longest: int, slices: Slices) -> AsyncIterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers from 1."""
    number, rest = 0, bytearray()
    while (part := await body.part()) is not None:
        begin = 0
        while (end := part.find(b"\n", begin)) >= 0:
            line = part[begin:end] if not rest else bytes(rest) + part[begin:end]
            rest.clear()
            begin, number = end + 1, number + 1
            if len(line) > longest:
                raise _too_long(number, longest)
            if line.strip():
                yield number, line
            else:
                await slices.pause_if_over()
        rest += part[begin:]
        body.keep(len(rest))
        if len(rest) > longest:
            raise _too_long(number + 1, longest)
        await slices.pause_if_over()
    if rest.strip():
        yield number + 1, bytes(rest)


def _too_long(number: int, longest: int) -> Problem:
    message = f"line {number} must not be longer than {longest} bytes"
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, "$", {"Connection": "close"})
