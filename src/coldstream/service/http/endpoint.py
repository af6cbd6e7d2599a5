"""Routes as ASGI applications: each admits and decodes a request, runs its handler, encodes the answer and counts it."""

import inspect
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from time import perf_counter
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coldstream.errors import ColdstreamError, shown
from coldstream.runtime.replication.roles import NotTheWriter
from coldstream.service.handlers.arrow_stream import ARROW
from coldstream.service.handlers.line_stream import LINES, Asked, LineStream
from coldstream.service.http.event_ids import SOURCE, check_event_ids
from coldstream.service.http.forwarding import ELSEWHERE, HOP, PASSED_BACK, Forwarded
from coldstream.service.http.gate import Gate
from coldstream.service.http.problems import CONTENT_TYPE, Problem, problem_of, undecodable, unqueryable
from coldstream.service.http.routes import Route
from coldstream.service.http.streamed_body import progress_of
from coldstream.service.messages.core import MOST_RECORDS, Events, Nothing
from coldstream.service.service import Service

log = logging.getLogger("coldstream.access")

_JSON = b"application/json"
_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
"""Media type of metrics; the version is that of Prometheus' format."""

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
_NO_HEADERS: Headers = ()
_ALWAYS: Headers = ((b"cache-control", b"no-store"), (b"cross-origin-resource-policy", b"same-origin"))

_ONCE = (b"host", b"authorization", b"content-type", b"content-length", b"origin", b"sec-fetch-site", SOURCE)
"""Headers that must not be repeated: a proxy in front of the service might go by the other of two values."""

AFTER = b"coldstream-after"
"""Header with a position of the log that the answer must know. Some calls take it in their body too."""

_MOST_PAIRS = 16
"""Most parameters of a query: no call has half as many."""

MAX_OBJECTS, MAX_LINE_OBJECTS = 25_000, 10_000
"""Most opening braces in a body, without and with JSON-lines as an alternative: each takes 1 to 4 µs to decode, and the
event loop waits. A thousand records have 2,000."""

_encode = msgspec.json.Encoder().encode


class Endpoint:
    """A route as an ASGI application: admission, decoding, its handler, encoding, metrics and access log."""

    def __init__(self, route: Route, service: Service, gate: Gate) -> None:
        self._route, self._service, self._gate = route, service, gate
        self._handler, self._waits = route.handler, inspect.iscoroutinefunction(route.handler)
        self._query = route.takes if route.method == "GET" else None
        self._decoder = None if route.takes is None or route.method == "GET" else msgspec.json.Decoder(route.takes)
        self._empty = b"{}" if route.takes is Nothing else b""
        self._prefix, named, self._suffix = (part.encode() for part in route.path.partition("{id}"))
        self._named = bool(named)
        self._metrics = service.metrics.of(route.method, route.path)
        self._kind = _TEXT if route.gives is bytes else _JSON
        self._most = service.settings.body_bytes
        self._max_objects = MAX_OBJECTS if route.line is None else MAX_LINE_OBJECTS
        self._logged = service.settings.access_log
        self._passes_on = route.writes and service.forwarder is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()
        status, kind, more = 200, self._kind, _NO_HEADERS
        try:
            answer = await self._answer(scope, receive)
            if type(answer) is Forwarded:
                status, kind, body, more = _passed_back(answer)
            else:
                body = _encode(answer) if kind is _JSON else answer
        except Problem as problem:
            status, kind, body, more = _as_response(problem)
        except ColdstreamError as error:
            status, kind, body, more = _as_response(problem_of(error))
        except Exception:
            log.exception("a request failed", extra={"call": f"{self._route.method} {self._route.path}"})
            status, kind, body, more = _as_response(Problem(500, "this should not happen; the log of the service says more"))
        if self._service.leaving:
            more = (*more, (b"connection", b"close"))
        await respond(send, status, kind, body, more)
        seconds = perf_counter() - started
        self._metrics.observe(status, seconds)
        if self._logged:
            facts = {"call": f"{self._route.method} {self._route.path}", "status": status, "ms": round(1e3 * seconds, 3)}
            log.info("request", extra=facts)

    async def _answer(self, scope: Scope, receive: Receive) -> Any:
        headers = dict(scope["headers"])
        if len(headers) < len(scope["headers"]):
            _check_once(scope["headers"])
        if self._route.scope is not None:
            self._gate.admit(scope, headers, self._route.scope)
        if AFTER in headers:
            await self._service.known_up_to(_position(headers[AFTER]))
        name = self._name(scope) if self._named else ""
        if self._route.line is not None and _kind(headers) in (*LINES, ARROW):
            _refuse_encoding(headers)
            asked = Asked(scope["raw_path"].partition(b"?")[0], headers)
            stream = LineStream(self._service, self._route.line, self._most, asked, progress_of(scope))
            return await (stream.take_arrow(receive) if _kind(headers) == ARROW else stream.take(receive))
        if self._query is not None:
            given = _queried(self._query, scope["query_string"])
        else:
            body = b"" if self._decoder is None else await self._body(headers, receive) or self._empty
            if self._passes_on:
                return await self._done_by_the_writer(scope, headers, body, name)
            given = None if self._decoder is None else self._decoded(body, headers)
        answer = self._handler(self._service, given, name)
        return await answer if self._waits else answer

    async def _done_by_the_writer(self, scope: Scope, headers: Mapping[bytes, bytes], body: bytes, name: str) -> Any:
        """Run the handler of a write if this process is the writer; otherwise forward the request to the writer."""
        forwarder = self._service.forwarder
        assert forwarder is not None
        answer: Any = None
        while answer is None:
            try:
                self._service.writer  # noqa: B018  # it raises where another process is the writer
                given = None if self._decoder is None else self._decoded(body, headers)
                return await self._handler(self._service, given, name)
            except NotTheWriter as error:
                if HOP in headers:
                    elsewhere = {ELSEWHERE.decode(): "1"}
                    raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), None, elsewhere) from error
            answer = await forwarder.forward(scope["method"], scope["raw_path"].partition(b"?")[0], headers, body)
        return answer

    def _decoded(self, body: bytes, headers: Mapping[bytes, bytes]) -> Any:
        assert self._decoder is not None
        if (objects := body.count(b"{")) > self._max_objects:
            remedy = "send less at once" if self._route.line is None else f"send {MOST_RECORDS} at once, or JSON-lines"
            message = f"the body must not have more than {self._max_objects} objects, got {objects}; {remedy}"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, "$")
        try:
            given = self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise undecodable(error, self._route.takes, body) from error
        if self._route.takes is Events:
            check_event_ids(given, headers)
        return given

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        # Checked for an empty body too: pages of other origins can send other types without a preflight request (CORS).
        if _kind(headers) != _JSON:
            others = f", application/x-ndjson or {ARROW.decode()}" if self._route.line is not None else ""
            kind = shown(headers.get(b"content-type", b"").decode("latin-1"))
            message = f"the header Content-Type must be application/json{others}, got {kind}"
            raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
        _refuse_encoding(headers)
        length = headers.get(b"content-length", b"0")
        if len(length) > 15 or int(length) > self._most:
            raise self._too_large()
        part = await receive()
        body = bytearray(part.get("body", b""))
        while part.get("more_body", False):
            part = await receive()
            if part["type"] == "http.disconnect":
                raise Problem(HTTPStatus.BAD_REQUEST, "the connection ended before the body did; send all of it", "$")
            body += part.get("body", b"")
            if len(body) > self._most:
                raise self._too_large()
        return bytes(body)

    def _too_large(self) -> Problem:
        message = f"the body must not be longer than {self._most} bytes; send less at once"
        return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, None, {"Connection": "close"})

    def _name(self, scope: Scope) -> str:
        """Decode the id in the path from its raw bytes: the path decoded by the server has lost bytes that are not UTF-8."""
        raw: bytes = scope["raw_path"].partition(b"?")[0]
        if not raw.startswith(self._prefix):
            message = f"the path must begin with {self._prefix.decode()} as it stands here; only the id is percent-encoded"
            raise Problem(HTTPStatus.NOT_FOUND, message)
        raw = raw[: len(raw) - len(self._suffix)]  # the router has matched the suffix
        if b"/" in raw[len(self._prefix) :]:
            message = "the id in the path must be percent-encoded, a slash as %2F; or end the path behind the id"
            raise Problem(HTTPStatus.NOT_FOUND, message, "id")
        try:
            name = unquote_to_bytes(raw[len(self._prefix) :]).decode()
        except UnicodeDecodeError:
            raise Problem(HTTPStatus.BAD_REQUEST, "the id in the path must be percent-encoded UTF-8", "id") from None
        if not 0 < len(name) <= 256:
            message = f"the id in the path must have 1 to 256 characters, got {len(name)}"
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, message, "id")
        return name


class Resource:
    """All routes of one path, by method. HEAD is answered like GET."""

    def __init__(self, endpoints: Mapping[str, ASGIApp]) -> None:
        self.endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method not in self.endpoints:
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(self.endpoints)})
        await self.endpoints[method](scope, receive, send)


class Branches:
    """All routes of a path that ends with an id, and of the paths that continue after the id.

    Ids may hold percent-encoded slashes, so the raw path decides which route is meant.
    """

    def __init__(self, own: Resource, further: Mapping[str, Resource]) -> None:
        self._own, self._further = own, {suffix.encode(): resource for suffix, resource in further.items()}
        self.methods = sorted({method for one in (own, *further.values()) for method in one.endpoints})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope["raw_path"].partition(b"?")[0]
        found = (resource for suffix, resource in self._further.items() if raw.endswith(suffix))
        await next(found, self._own)(scope, receive, send)


def _kind(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the media type that the headers give the body, in lower case and without parameters."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def _refuse_encoding(headers: Mapping[bytes, bytes]) -> None:
    if headers.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
        message = "the header Content-Encoding must be left out; send the body as it is, and not compressed"
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)


def _queried(kind: Any, query: bytes) -> Any:
    """Decode a query string as a message of a type. Raises `Problem` if it cannot be."""
    try:
        text, strict = query.decode("ascii"), bool(query)
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=strict, errors="strict", max_num_fields=_MOST_PAIRS)
    except ValueError as error:
        message = f"the query must be at most {_MOST_PAIRS} name=value joined by &, in percent-encoded UTF-8"
        raise Problem(HTTPStatus.BAD_REQUEST, f"{message}, got {shown(query.decode('latin-1'))}", "$") from error
    given = dict(pairs)
    if len(given) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise Problem(HTTPStatus.BAD_REQUEST, f"the query must have {shown(twice)} once, got it several times", "$")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise unqueryable(error, kind, given) from error


def _position(given: bytes) -> int:
    """Decode the position in the header `AFTER`. Raises `Problem` if it is none."""
    if not (given.isdigit() and len(given) < 16):
        message = f"the header Coldstream-After must be a position of the log, got {shown(given.decode('latin-1'))}"
        raise Problem(HTTPStatus.BAD_REQUEST, f"{message}; send the one that an acknowledgement gave")
    return int(given)


def _check_once(headers: Sequence[tuple[bytes, bytes]]) -> None:
    names = [name for name, _ in headers]
    for name in _ONCE:
        if names.count(name) > 1:
            message = f"the header {name.decode().title()} must be there once, got it {names.count(name)} times; send one"
            raise Problem(HTTPStatus.BAD_REQUEST, message)


async def respond(send: Send, status: int, kind: bytes, body: bytes, more: Headers = _NO_HEADERS) -> None:
    """Send a complete answer, with a body of a media type and further headers."""
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *_ALWAYS, *more]
    start: Message = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})


def _passed_back(answer: Forwarded) -> tuple[int, bytes, bytes, Headers]:
    more = tuple((name, answer.headers[name]) for name in PASSED_BACK if name in answer.headers)
    return answer.status, answer.headers.get(b"content-type", _JSON), answer.body, more


def _as_response(problem: Problem) -> tuple[int, bytes, bytes, Headers]:
    more = tuple((name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers.items())
    return problem.status, CONTENT_TYPE, _encode(problem.document), more
