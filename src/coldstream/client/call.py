"""One request to the service as a value, and the reply to it: neither knows of a connection."""

from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from coldstream.client.errors import ServiceError, ServiceUnavailable
from coldstream.service.messages.core import LinesTaken, RefusedLine
from coldstream.service.source_ids import SOURCE_HEADER

Answer = TypeVar("Answer")
JSON, LINES = "application/json", "application/x-ndjson"


class Reply(NamedTuple):
    """The response of the service to one sending of a call."""

    status: int
    body: bytes
    retry_after: str | None


class Call(msgspec.Struct, Generic[Answer], frozen=True, kw_only=True):
    """One request, and the type of its answer."""

    method: str
    path: str
    """As in the table of routes, with {id} for an id."""
    gives: type[Answer]
    body: bytes | None = None
    kind: str = JSON
    """The media type of the body."""
    query: Mapping[str, str] = {}
    id: str | None = None
    """The id in the path."""
    after: int | None = None
    """A line of the log that the answer has to know."""
    again: bool = True
    """Whether it may be sent again when it is not known whether the service did it."""
    writes: bool = False
    """Whether it adds to the log; its answer then has a position."""
    reads: bool = False
    """Whether its answer depends on the log, and so may have to know what this client wrote."""
    source: str | None = None
    """The kind of broker whose messages the body has, where their ids name the events."""

    @property
    def url(self) -> str:
        """The path with the id in it."""
        return self.path if self.id is None else self.path.replace("{id}", _segment(self.id))

    @property
    def headers(self) -> dict[str, str]:
        """The headers of this call alone."""
        kind = {} if self.body is None else {"content-type": self.kind}
        source = {} if self.source is None else {SOURCE_HEADER: self.source}
        after = {} if self.after is None else {"coldstream-after": str(self.after)}
        return kind | source | after

    def answer(self, reply: Reply) -> Answer:
        """Decode a reply; raise `ServiceError` if it is a refusal, or not of this service."""
        if (part := self.part(reply)) is not None:
            return part  # type: ignore[return-value]
        if reply.status != 200:
            raise ServiceError(reply.status, *_problem(reply))
        if self.gives is bytes:
            return reply.body  # type: ignore[return-value]
        try:
            return msgspec.json.decode(reply.body, type=self.gives)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            detail = f"{self.method} {self.path}: the answer cannot be read ({error}); is the url that of a service?"
            raise ServiceError(reply.status, detail) from error

    def part(self, reply: Reply) -> LinesTaken | None:
        """Return what became of the first lines, where the answer ended early for a reason that passes."""
        if self.kind != LINES or reply.status not in (408, 503):
            return None
        try:
            early = msgspec.json.decode(reply.body, type=_EndedEarly)
        except (msgspec.DecodeError, UnicodeDecodeError):  # a proxy's page
            return None
        if early.next_line == 1:
            return None
        counts = (early.taken, early.duplicates, early.refused)
        return LinesTaken(early.next_line - 1, *counts, early.refusals, early.position or 0)

    def unavailable(self, reply: Reply) -> ServiceUnavailable:
        """The error for a status that calls for another attempt."""
        return ServiceUnavailable(f"{self.method} {self.path}: {reply.status}: {_problem(reply)[0]}", reply.status)


class _EndedEarly(msgspec.Struct, frozen=True):
    """What a problem document says of the lines before the one that was not taken any more."""

    next_line: int
    taken: int
    duplicates: int
    refused: int
    refusals: list[RefusedLine]
    position: int | None = None


Steps: TypeAlias = Generator[Call[Any] | float, Any, Answer]
"""What a client has to do for one of its methods: send each call that is yielded, and sleep for each number of seconds."""


class Retry(NamedTuple):
    """An attempt that failed, and the wait before the next one."""

    attempt: int
    """Its number, from 1."""
    error: ServiceUnavailable
    """Why it failed."""
    seconds: float
    """How long the client will wait."""


OnRetry: TypeAlias = Callable[[Retry], None]


def _segment(name: str) -> str:
    """An id as one segment of a path."""
    # HTTP libraries take segments of dots for folders, and leave them out.
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def _problem(reply: Reply) -> tuple[str, str | None]:
    """The detail and the field of a problem document, or the beginning of another page."""
    try:
        problem = msgspec.json.decode(reply.body)
        return str(problem["detail"]), problem.get("field")
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):  # a proxy's page
        return reply.body[:200].decode(errors="replace"), None
