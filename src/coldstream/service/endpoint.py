"""One path as an ASGI application: admit, decode, run, encode, count."""

import inspect
import logging
from collections.abc import Mapping
from http import HTTPStatus
from time import perf_counter
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from starlette.types import Message, Receive, Scope, Send

from coldstream.errors import ColdstreamError
from coldstream.service.gate import Gate
from coldstream.service.problems import CONTENT_TYPE, Problem, problem_of, undecodable
from coldstream.service.routes import Route
from coldstream.service.service import Service

log = logging.getLogger("coldstream.access")

_JSON = b"application/json"
_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
"""The version is of Prometheus' format."""

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
_NO_HEADERS: Headers = ()

_encode = msgspec.json.Encoder().encode


class Endpoint:
    """One route: its handler, and all that stands before it."""

    def __init__(self, route: Route, service: Service, gate: Gate) -> None:
        self._route, self._service, self._gate = route, service, gate
        self._handler, self._waits = route.handler, inspect.iscoroutinefunction(route.handler)
        self._query = route.takes if route.method == "GET" else None
        self._decoder = None if route.takes is None or route.method == "GET" else msgspec.json.Decoder(route.takes)
        self._named = route.path.endswith("{id}")
        self._prefix = len(route.path) - len("{id}")
        self._metrics = service.metrics.of(route.method, route.path)
        self._kind = _TEXT if route.gives is bytes else _JSON
        self._most = service.settings.body_bytes
        self._logged = service.settings.access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()
        status, kind, more = 200, self._kind, _NO_HEADERS
        try:
            answer = await self._answer(scope, receive)
            body = _encode(answer) if kind is _JSON else answer
        except Problem as problem:
            status, kind, body, more = _as_response(problem)
        except ColdstreamError as error:
            status, kind, body, more = _as_response(problem_of(error))
        except Exception:
            log.exception("a request failed", extra={"call": f"{self._route.method} {self._route.path}"})
            status, kind, body, more = _as_response(Problem(500, "this should not happen; the log of the service says more"))
        await respond(send, status, kind, body, more)
        seconds = perf_counter() - started
        self._metrics.observe(status, seconds)
        if self._logged:
            facts = {"call": f"{self._route.method} {self._route.path}", "status": status, "ms": round(1e3 * seconds, 3)}
            log.info("request", extra=facts)

    async def _answer(self, scope: Scope, receive: Receive) -> Any:
        headers = dict(scope["headers"])
        if self._route.scope is not None:
            self._gate.admit(scope, headers, self._route.scope)
        name = self._name(scope) if self._named else ""
        if self._query is not None:
            given = _queried(self._query, scope["query_string"])
        else:
            given = None if self._decoder is None else self._decoded(await self._body(headers, receive))
        answer = self._handler(self._service, given, name)
        return await answer if self._waits else answer

    def _decoded(self, body: bytes) -> Any:
        assert self._decoder is not None
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise undecodable(error, body) from error

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        kind = headers.get(b"content-type", b"")
        # A page of somewhere else can make a browser send other types here without asking first.
        if kind != _JSON and kind.partition(b";")[0].strip().lower() != _JSON:
            message = f"the header Content-Type must be application/json, got {kind.decode('latin-1')!r}"
            raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
        length = headers.get(b"content-length", b"0")
        if len(length) > 15 or int(length) > self._most:
            raise self._too_large()
        part = await receive()
        body: bytes = part.get("body", b"")
        while part.get("more_body", False):
            part = await receive()
            body += part.get("body", b"")
            if len(body) > self._most:
                raise self._too_large()
        return body

    def _too_large(self) -> Problem:
        message = f"the body must not be longer than {self._most} bytes; send less at once"
        return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, None, {"Connection": "close"})

    def _name(self, scope: Scope) -> str:
        """The id in the path: from its bytes, because what the server decoded has lost what was not UTF-8."""
        raw: bytes = scope["raw_path"].partition(b"?")[0][self._prefix :]
        try:
            name = unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            raise Problem(HTTPStatus.BAD_REQUEST, "the id in the path must be percent-encoded UTF-8", "id") from None
        if not 0 < len(name) <= 256:
            message = f"the id in the path must have 1 to 256 characters, got {len(name)}"
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, message, "id")
        return name


class Resource:
    """All routes on one path."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self.endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        await self.endpoints["GET" if method == "HEAD" else method](scope, receive, send)


def _queried(kind: Any, query: bytes) -> Any:
    """What a query string asks for."""
    try:
        given = dict(parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), errors="strict"))
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise undecodable(error, b"{}") from error
    except ValueError as error:
        raise Problem(HTTPStatus.BAD_REQUEST, f"the query must be percent-encoded UTF-8: {error}", "$") from error


async def respond(send: Send, status: int, kind: bytes, body: bytes, more: Headers = _NO_HEADERS) -> None:
    """Send a whole answer."""
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store"), *more]
    start: Message = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})


def _as_response(problem: Problem) -> tuple[int, bytes, bytes, Headers]:
    more = tuple((name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers.items())
    return problem.status, CONTENT_TYPE, _encode(problem.document), more
