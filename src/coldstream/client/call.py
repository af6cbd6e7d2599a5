"""One request to the service as a value, and its response, both independent of a connection."""

from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from coldstream.client.errors import ServiceError, ServiceUnavailable
from coldstream.service.messages.core import LinesTaken, RefusedLine
from coldstream.service.messages.source_ids import SOURCE_HEADER

Answer = TypeVar("Answer")
JSON, LINES = "application/json", "application/x-ndjson"


class Reply(NamedTuple):
    """The service's response to one attempt of a call."""

    status: int
    body: bytes
    retry_after: str | None


class Call(msgspec.Struct, Generic[Answer], frozen=True, kw_only=True):
    """One request, and the type of its answer."""

    method: str
    path: str
    """The path as in the table of routes, with `{id}` as a placeholder."""
    gives: type[Answer]
    body: bytes | None = None
    kind: str = JSON
    """The media type of the body."""
    query: Mapping[str, str] = {}
    id: str | None = None
    """The id in the path."""
    after: int | None = None
    """The log position up to which the service must have applied the log before it answers."""
    again: bool = True
    """True if the call may be sent again although the service may already have executed it."""
    writes: bool = False
    """True if the call appends to the log; its answer then has a position."""
    reads: bool = False
    """True if the answer depends on the log, so that `read_your_writes` applies."""
    source: str | None = None
    """The kind of broker whose messages the body contains, if the ids of the messages serve as event ids."""

    @property
    def url(self) -> str:
        """The path, with the id inserted."""
        return self.path if self.id is None else self.path.replace("{id}", _segment(self.id))

    @property
    def headers(self) -> dict[str, str]:
        """The headers specific to this call."""
        kind = {} if self.body is None else {"content-type": self.kind}
        source = {} if self.source is None else {SOURCE_HEADER: self.source}
        after = {} if self.after is None else {"coldstream-after": str(self.after)}
        return kind | source | after

    def answer(self, reply: Reply) -> Answer:
        """Decode a response; raise `ServiceError` if it is a refusal, or not a response of this service."""
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
        """Return the result for the first lines if the service stopped reading for a transient reason, otherwise None."""
        if self.kind != LINES or reply.status not in (408, 503):
            return None
        try:
            early = msgspec.json.decode(reply.body, type=_EndedEarly)
        except (msgspec.DecodeError, UnicodeDecodeError):  # a proxy's error page, not a problem document
            return None
        if not 1 < early.next_line <= (self.body or b"").count(b"\n") + 2:
            return None
        counts = (early.taken, early.duplicates, early.refused)
        return LinesTaken(early.next_line - 1, *counts, early.refusals, early.position or 0)

    def unavailable(self, reply: Reply) -> ServiceUnavailable:
        """Return the error for a status after which the call may be sent again."""
        return ServiceUnavailable(f"{self.method} {self.path}: {reply.status}: {_problem(reply)[0]}", reply.status)


class _EndedEarly(msgspec.Struct, frozen=True):
    """The fields of a problem document about the lines before the first one that was not read."""

    next_line: int
    taken: int
    duplicates: int
    refused: int
    refusals: list[RefusedLine]
    position: int | None = None


Steps: TypeAlias = Generator[Call[Any] | float, Any, Answer]
"""The steps of a client's method, as a generator: the client sends each yielded call, and sleeps for each yielded number."""


class Retry(NamedTuple):
    """A failed attempt, and the wait before the next attempt."""

    attempt: int
    """The number of the failed attempt, from 1."""
    error: ServiceUnavailable
    """The error of the failed attempt."""
    seconds: float
    """The seconds that the client will wait."""


OnRetry: TypeAlias = Callable[[Retry], None]


def _segment(name: str) -> str:
    """Return an id encoded as one segment of a path."""
    # HTTP libraries resolve the segments `.` and `..` as folders, and drop them.
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def _problem(reply: Reply) -> tuple[str, str | None]:
    """Return the detail and the field of a problem document, or the beginning of any other response."""
    try:
        problem = msgspec.json.decode(reply.body)
        return str(problem["detail"]), problem.get("field")
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):  # a proxy's error page
        return reply.body[:200].decode(errors="replace"), None
