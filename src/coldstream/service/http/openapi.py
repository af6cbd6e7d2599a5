"""The OpenAPI document, made from the routes, their messages and the docstrings of both."""

import ast
import inspect
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from types import ModuleType
from typing import Any

import msgspec

from coldstream.service.http import problems
from coldstream.service.http.examples import EXAMPLES, Example
from coldstream.service.http.problems import ProblemDocument
from coldstream.service.http.routes import Route
from coldstream.service.messages import core as messages
from coldstream.service.messages import health as health_messages
from coldstream.service.messages import live as live_messages
from coldstream.service.messages import recommend as recommend_messages
from coldstream.service.messages import search as search_messages
from coldstream.service.messages.core import LinesTaken, Nothing

_MODULES = (messages, recommend_messages, search_messages, health_messages, live_messages, problems)


def described(kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a type's schema, each with its docstring as its description; empty where there is none."""
    return {name: {"description": _DESCRIPTIONS.get((kind, name), ""), **own} for name, own in properties.items()}


def _found(modules: Iterable[ModuleType]) -> dict[tuple[str, str], str]:
    """Return the docstrings of all fields of all classes of modules, by (class, field), each in one line."""
    found = {}
    for module in modules:
        for kind in (node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)):
            for field, below in zip(kind.body, kind.body[1:], strict=False):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[kind.name, name] = " ".join(text.split())
    return found


_DESCRIPTIONS = _found(_MODULES)


_REFERENCE = "#/components/schemas/{name}"

_KEY = "Where keys are set, the header `Authorization: Bearer KEY`; `coldstream keys add` makes one."

_WHEN: dict[int, str] = {
    400: "The body is not JSON in UTF-8.",
    401: "No known key.",
    403: "The key has not the scope; or, without keys, a page of another origin asks.",
    404: "There is no such id.",
    408: "The body was waited for too long; of JSON-lines, next_line is the line to go on with.",
    413: "The body is too long.",
    415: "The body is not application/json.",
    421: "Without keys, only this machine itself is answered.",
    422: "A field is not what it should be. Nothing was changed.",
    429: "Too many requests; Retry-After says when to come back.",
    503: "Not now: starting, stopping, overloaded, or the store is down. Retry-After says when to come back.",
}


def document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of routes, with examples."""
    kinds = [kind for route in routes for kind in (route.takes, route.gives) if kind is not None and kind is not bytes]
    schemas, components = msgspec.json.schema_components([*kinds, LinesTaken, ProblemDocument], ref_template=_REFERENCE)
    for name, component in components.items():
        component["properties"] = described(name, component["properties"])
    schema_of = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=False)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "coldstream",
            "version": version,
            "description": "An online recommender: recommend, observe, learn. What is acknowledged is durable and learned.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": _KEY}},
        },
    }


def _operation(route: Route, schema_of: dict[int, Any]) -> dict[str, Any]:
    named = "{id}" in route.path
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": (inspect.getdoc(route.handler) or "").split("\n")[0],
        "responses": {"200": _success(route, schema_of), **{str(status): _problem(status) for status in _statuses(route)}},
    }
    if route.scope is not None:
        operation["security"] = [{"key": []}, {}]
        operation["description"] = f"Needs the scope `{route.scope}`, where keys are set."
    if named:
        length = {"type": "string", "minLength": 1, "maxLength": 256}
        which = {"description": "The id, percent-encoded.", "schema": length, "example": "b7"}
        operation["parameters"] = [{"name": "id", "in": "path", "required": True, **which}]
    if route.takes is not None and route.method == "GET":
        operation["parameters"] = [*operation.get("parameters", ()), *_queried(route.takes)]
    elif route.takes is not None:
        content = {"schema": schema_of[id(route.takes)], "example": _example(route).given}
        kinds: dict[str, Any] = {"application/json": content}
        if route.line is not None:
            arrow = "As application/vnd.apache.arrow.stream it may be an Arrow stream too."
            text = {
                "type": "string",
                "description": f"JSON-lines, as many as you like: an object a line, as in a list. {arrow} "
                "An answer that ends early has next_line, the line to go on with.",
            }
            kinds["application/x-ndjson"] = {"schema": text, "example": _in_lines(_example(route).given)}
        operation["requestBody"] = {"required": route.takes is not Nothing, "content": kinds}
    return operation


def _in_lines(listed: list[Any]) -> str:
    return "".join(f"{msgspec.json.encode(one).decode()}\n" for one in listed)


def _queried(kind: Any) -> list[dict[str, Any]]:
    """Return the fields of a type as parameters of a query."""
    ((kind_name, schema),) = msgspec.json.schema(kind)["$defs"].items()
    required, properties = schema.get("required", []), described(kind_name, schema["properties"])
    return [
        {"name": name, "in": "query", "required": name in required, "description": own.pop("description"), "schema": own}
        for name, own in properties.items()
    ]


def _success(route: Route, schema_of: dict[int, Any]) -> dict[str, Any]:
    answer = _example(route).answer
    if route.gives is bytes:
        content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}, "example": answer}}
    else:
        own = schema_of[id(route.gives)]
        lines = {"$ref": _REFERENCE.format(name=LinesTaken.__name__)}
        schema = own if route.line is None else {"anyOf": [own, lines]}
        content = {"application/json": {"schema": schema, "example": answer}}
    return {"description": "Done.", "content": content}


def _statuses(route: Route) -> list[int]:
    """Return the statuses other than 200 that a route may answer with."""
    statuses, named = {503}, "{id}" in route.path
    if route.scope is not None:
        statuses |= {401, 403, 421, 429}
    if route.takes is not None:
        statuses |= {400, 422} if route.method == "GET" else {400, 413, 415, 422}
    if route.line is not None:
        statuses.add(408)
    if named:
        statuses |= {400, 422}
    asks = ("/explain", "/recommend", "/features", "/features/nearest", "/users/{id}/merge")
    if (named and route.method in ("GET", "DELETE")) or route.path in asks:
        statuses.add(404)
    return sorted(statuses)


def _problem(status: int) -> dict[str, Any]:
    example = {"title": HTTPStatus(status).phrase, "status": status, "detail": _WHEN[status]}
    schema = {"$ref": _REFERENCE.format(name=ProblemDocument.__name__)}
    return {"description": _WHEN[status], "content": {"application/problem+json": {"schema": schema, "example": example}}}


def _example(route: Route) -> Example:
    return EXAMPLES.get(route.handler.__name__, Example(None, None))
