"""Errors as RFC 9457 problem documents that name the field."""

import json
import re
from http import HTTPStatus

import msgspec

from coldstream.errors import (
    ColdstreamError,
    InvalidInput,
    StoreInUse,
    StoreUnavailable,
    UnknownId,
)
from coldstream.runtime.checks import Refused
from coldstream.runtime.writer import Overloaded, Stopping
from coldstream.service.messages import Name, Value

CONTENT_TYPE = b"application/problem+json"
RETRY_AFTER = 1
"""Seconds after which what goes over is worth another try."""


class ProblemDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong, in words that name the field and the remedy."""

    title: str
    """What HTTP calls the status."""
    status: int
    """The status of the answer."""
    detail: str
    """What is wrong, with the value and the remedy."""
    field: str | None = None
    """Where in the request, as a path: `$[3].context.mood`."""
    type: str = "about:blank"
    """Always `about:blank`: the status says which kind of problem it is."""


class Problem(Exception):
    """A request that is answered with a problem document."""

    def __init__(self, status: int, detail: str, field: str | None = None, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.headers = int(status), headers or {}
        self.document = ProblemDocument(HTTPStatus(status).phrase, self.status, detail, field)


def problem_of(error: ColdstreamError, where: str = "$") -> Problem:
    """The problem that one of our errors is, in this part of the body."""
    if isinstance(error, Refused):
        return problem_of(error.error, f"$[{error.index}]")
    if isinstance(error, StoreUnavailable | StoreInUse | Overloaded | Stopping):
        return Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), None, {"Retry-After": str(RETRY_AFTER)})
    if isinstance(error, UnknownId):
        return Problem(HTTPStatus.NOT_FOUND, str(error))
    field = error.field if isinstance(error, InvalidInput) else None
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), where if field is None else f"{where}.{field}")


def undecodable(error: Exception, body: bytes) -> Problem:
    """The problem with a body that the decoder refuses."""
    if not isinstance(error, msgspec.ValidationError):
        return Problem(HTTPStatus.BAD_REQUEST, f"the body must be JSON in UTF-8: {error}", "$")
    reason, _, path = str(error).partition(" - at ")
    path = path.strip("`") or "$"
    unknown = re.search(r"unknown field `(.*)`$", reason, re.DOTALL)
    if unknown:
        path = f"{path}.{unknown[1]}"
    if "[...]" in path:
        path = _named(path, body)
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{path}: {reason}", path)


def _named(path: str, body: bytes) -> str:
    """The path with the name of the field where the decoder says `[...]`: the first whose value would be refused."""
    before, _, after = path.partition("[...]")
    try:
        document = json.loads(body)  # which takes numbers and depths that the decoder does not
    except (ValueError, RecursionError):
        return before
    for step in re.findall(r"\.(\w+)|\[(\d+)\]", before):
        document = document[step[0]] if step[0] else document[int(step[1])]
    for name, value in document.items():
        try:
            msgspec.convert({name: value}, dict[Name, Value])
        except msgspec.ValidationError:
            return f"{before}.{name}{after}"
    return before
