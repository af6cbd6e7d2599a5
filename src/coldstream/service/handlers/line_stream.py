"""Bulk writes: JSON-lines, or the rows of an Arrow stream, in one request, each taken or refused by itself.

The body is streamed, and never held as a whole. Lines are checked and written in batches, and after every slice of that work
the event loop serves other requests. An answer that comes before the end of the body says how many lines were taken, and
which line to go on with.
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
from coldstream.service.handlers.arrow_stream import RowShape, arrow_lines
from coldstream.service.http.event_ids import check_event_ids
from coldstream.service.http.forwarding import ELSEWHERE, HOP, Forwarded
from coldstream.service.http.problems import RETRY_AFTER, Problem, ProblemDocument, problem_of, undecodable
from coldstream.service.http.streamed_body import BodyProgress, StreamedBody
from coldstream.service.messages.core import LinesTaken, NewEvent, RefusedLine
from coldstream.service.service import Service

LINES = (b"application/x-ndjson", b"application/jsonl")
"""Media types of JSON-lines."""
MAX_BATCH_LINES = 1000
"""Most lines that are written in one batch."""
MAX_BATCH_BYTES = 2**20
"""Bytes of lines that end a batch: the line that reaches this bound is its last."""
MAX_TOLD_REFUSALS = 100
"""Most refused lines that an answer describes. Others are only counted: composing a message takes up to 0.6 ms."""


class LineKind(NamedTuple):
    """A kind of line: the message that a line is decoded as, and the record made of it."""

    message: Any
    record: Callable[[Any], Record]
    row: RowShape
    """Mapping of the columns of an Arrow stream to the fields of the message."""


class Asked(NamedTuple):
    """Path and headers of a request, which forwarding to the writer needs."""

    path: bytes
    headers: Mapping[bytes, bytes]


class _Line(NamedTuple):
    number: int
    text: bytes
    record: Record | None
    refusal: Exception | None = None
    """Error of the decoder for a line, or problem with a row, where there is no record."""


class LineStream:
    """The lines of one request, and counts of what became of those that were read."""

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
        """Take all lines of a body, and return the counts. Raises `Problem`, with the counts, where the body ends early."""
        body = StreamedBody(receive, self._progress)
        return await self._take_all(_lines(body, self._longest, self._slices))

    async def take_arrow(self, receive: Receive) -> LinesTaken:
        """Take all rows of an Arrow stream, and return the counts. Raises `Problem`, with them, if the body ends early."""
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
        assert position is not None  # nothing is written, and no body read to its end, before the start is over
        return LinesTaken(self._lines, self._taken, self._duplicates, self._refused, self._refusals, position)

    async def _take_whole_lines(self, lines: AsyncIterator[tuple[int, bytes | Problem]]) -> Problem | None:
        """Take all complete lines. Return the problem that ended the body early; None where its end came."""
        batch, progress = list[_Line](), self._progress
        ended: Problem | None = None
        while True:
            try:
                number, line = await anext(lines)
            except StopAsyncIteration:
                break
            except Problem as problem:  # the lines before it are taken
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
        """Write lines, or forward them to the writer if that is another process."""
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
            if answer is None:  # this process has become the writer
                await self._write(lines)
            else:
                self._take_over(lines, answer)

    def _take_over(self, lines: Sequence[_Line], answer: Forwarded) -> None:
        """Add the counts of the writer's answer. Raises `Problem` if the writer refused the request or ended it early."""
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
        """Write lines, each taken or refused by itself. Raises `NotTheWriter` if this process is not the writer."""
        service = self._service
        service.writer  # noqa: B018  # it raises where another process is the writer
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
        """Compose the problem with a line, which takes many times as long as to refuse it."""
        if isinstance(why, Problem):
            return why
        return problem_of(why) if isinstance(why, ColdstreamError) else undecodable(why, self._kind.message, line.text)

    def _with_progress(self, problem: Problem) -> Problem:
        """Return the problem that ends the stream, with the counts and the line to go on with."""
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
    """Yield the lines that are not empty, with their numbers from 1. Raises `Problem` for a line that is too long."""
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
