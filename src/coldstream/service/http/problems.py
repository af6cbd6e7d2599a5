"""Errors as RFC 9457 problem documents, which name the field, the value and the remedy."""

import re
from http import HTTPStatus
from typing import Any

import msgspec

from coldstream.errors import (
    ColdstreamError,
    InvalidInput,
    StoreInUse,
    StoreUnavailable,
    UnknownId,
)
from coldstream.runtime.replication.roles import NotTheWriter
from coldstream.runtime.writing.checks import Refused
from coldstream.runtime.writing.write_queue import Overloaded
from coldstream.runtime.writing.writer import Stopping
from coldstream.service.http.validation import NOTHING, refusal
from coldstream.service.messages.core import RefusedLine

_AS_CALLS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"; put_item\(.*\) first\Z", re.DOTALL), "; PUT /items/{id} adds it"),
    (re.compile(r"; put_user\(.*\) first\Z", re.DOTALL), "; PUT /users/{id} adds one"),
    (re.compile(r", or a function of the item's attributes\Z"), ""),
)


def over_http(message: str) -> str:
    """Translate a message of the library for clients: calls of Python become calls of HTTP.

    >>> over_http("user 'ann' is not known; put_user('ann', …) first")
    "user 'ann' is not known; PUT /users/{id} adds one"
    """
    for remedy, call in _AS_CALLS:
        message = remedy.sub(call, message)
    return message


CONTENT_TYPE = b"application/problem+json"
RETRY_AFTER = 1
"""Seconds after which a client should try again after a transient failure."""
MAX_SHOWN_COMMAS = 50_000
"""Most commas in a body whose refused value is shown: to find the value, the whole body is decoded once more."""
_STORE_IS_DOWN = "the store does not take what is written now; send the same again later, events with an event_id"


class ProblemDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem document: what is wrong with a request, in which field, and the remedy."""

    title: str
    """Reason phrase of the HTTP status."""
    status: int
    """HTTP status of the answer."""
    detail: str
    """What is wrong, with the value and the remedy."""
    field: str | None = None
    """Place in the request, as a path: `$[3].context.mood`."""
    type: str = "about:blank"
    """Always `about:blank`: the status says which kind of problem it is."""
    taken: int | None = None
    """Of JSON-lines or an Arrow stream that ended early: how many lines are new, logged and learned."""
    duplicates: int | None = None
    """Of a stream that ended early: how many events had an event_id that was learned before."""
    refused: int | None = None
    """Of a stream that ended early: how many lines were not taken."""
    refusals: list[RefusedLine] | None = None
    """Of a stream that ended early: the first refused lines, 100 at most, and why."""
    next_line: int | None = None
    """Of a stream that ended early: the line, from 1, to go on with; all before it are counted above."""
    position: int | None = None
    """Of a stream that ended early: position of the log after the lines that were taken."""


class Problem(Exception):
    """The error of a request, which is answered with a problem document."""

    def __init__(self, status: int, detail: str, field: str | None = None, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.headers = int(status), headers or {}
        self.document = ProblemDocument(HTTPStatus(status).phrase, self.status, detail, field)

    @classmethod
    def of(cls, document: ProblemDocument, headers: dict[str, str]) -> "Problem":
        """Return a problem with a document that is already composed."""
        problem = cls(document.status, document.detail, document.field, headers)
        problem.document = document
        return problem


def problem_of(error: ColdstreamError, where: str = "$") -> Problem:
    """Return the problem for an error of the library; `where` is the path of the part of the body that it is about."""
    if isinstance(error, Refused):
        return problem_of(error.error, f"$[{error.index}]")
    if isinstance(error, StoreUnavailable | StoreInUse | Overloaded | Stopping | NotTheWriter):
        # The store's own message names its place, which is for the operator, in the log, and not for clients.
        detail = _STORE_IS_DOWN if isinstance(error, StoreUnavailable | StoreInUse) else str(error)
        return Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, None, {"Retry-After": str(RETRY_AFTER)})
    detail = over_http(str(error))
    if isinstance(error, UnknownId):
        return Problem(HTTPStatus.NOT_FOUND, detail)
    field = error.field if isinstance(error, InvalidInput) else None
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, where if field is None else f"{where}.{field}")


def undecodable(error: Exception, kind: Any, body: bytes) -> Problem:
    """Return the problem with a body that the decoder of a type refuses, with the value where it can be found."""
    if not isinstance(error, msgspec.ValidationError):
        return Problem(HTTPStatus.BAD_REQUEST, f"the body must be JSON in UTF-8: {error}", "$")
    if body.count(b",") > MAX_SHOWN_COMMAS:
        return _refused(error, kind, NOTHING)
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _refused(error, kind, NOTHING)
    try:
        msgspec.convert(document, kind)
    except msgspec.ValidationError as again:
        if str(again) == str(error):
            return _refused(error, kind, document)
    # If a name stands twice, the decoder saw both values, and the document has only the last.
    return _refused(error, kind, NOTHING)


def unqueryable(error: msgspec.ValidationError, kind: Any, given: dict[str, str]) -> Problem:
    """Return the problem with a query whose parameters a type refuses."""
    return _refused(error, kind, given)


def _refused(error: msgspec.ValidationError, kind: Any, document: Any) -> Problem:
    field, detail = refusal(error, kind, document)
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, field)
