"""The OpenAPI document, made from the table of calls."""

import inspect
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from coldstream.service.examples import EXAMPLES, Example
from coldstream.service.problems import ProblemDocument
from coldstream.service.table import Call

_REFERENCE = "#/components/schemas/{name}"

_WHEN: dict[int, str] = {
    400: "The body is not JSON in UTF-8.",
    401: "No known key.",
    403: "The key has not the scope.",
    404: "There is no such id.",
    413: "The body is too long.",
    415: "The body is not application/json.",
    421: "Without keys, only this machine itself is answered.",
    422: "A field is not what it should be. Nothing was changed.",
    429: "Too many requests; Retry-After says when to come back.",
    503: "Not now: starting, stopping, overloaded, or the store is down. Retry-After says when to come back.",
}


def document(table: Sequence[Call], version: str) -> dict[str, Any]:
    """All calls, with examples."""
    kinds = [kind for call in table for kind in (call.takes, call.gives) if kind is not None and kind is not bytes]
    schemas, components = msgspec.json.schema_components([*kinds, ProblemDocument], ref_template=_REFERENCE)
    schema_of = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=False)}
    paths: dict[str, dict[str, Any]] = {}
    for call in table:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call, schema_of)
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
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "Where keys are set."}},
        },
    }


def _operation(call: Call, schema_of: dict[int, Any]) -> dict[str, Any]:
    named = call.path.endswith("{id}")
    operation: dict[str, Any] = {
        "operationId": call.run.__name__,
        "summary": (inspect.getdoc(call.run) or "").split("\n")[0],
        "responses": {"200": _success(call, schema_of), **{str(status): _problem(status) for status in _statuses(call)}},
    }
    if call.scope is not None:
        operation["security"] = [{"key": []}, {}]
        operation["description"] = f"Needs the scope `{call.scope}`, where keys are set."
    if named:
        length = {"type": "string", "minLength": 1, "maxLength": 256}
        operation["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": length, "example": "b7"}]
    if call.takes is not None and call.method == "GET":
        operation["parameters"] = _queried(call.takes)
    elif call.takes is not None:
        content = {"schema": schema_of[id(call.takes)], "example": _example(call).given}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    return operation


def _queried(kind: Any) -> list[dict[str, Any]]:
    """The fields of a type as parameters of a query."""
    (schema,) = msgspec.json.schema(kind)["$defs"].values()
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": own}
        for name, own in schema["properties"].items()
    ]


def _success(call: Call, schema_of: dict[int, Any]) -> dict[str, Any]:
    answer = _example(call).answer
    if call.gives is bytes:
        content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}, "example": answer}}
    else:
        content = {"application/json": {"schema": schema_of[id(call.gives)], "example": answer}}
    return {"description": "Done.", "content": content}


def _statuses(call: Call) -> list[int]:
    """What else a call may be answered with."""
    statuses = {503}
    if call.scope is not None:
        statuses |= {401, 403, 421, 429}
    if call.takes is not None:
        statuses |= {400, 422} if call.method == "GET" else {400, 413, 415, 422}
    if call.path.endswith("{id}"):
        statuses |= {400, 422}
    if (call.method in ("GET", "DELETE") and call.path.endswith("{id}")) or call.path in ("/explain", "/features/nearest"):
        statuses.add(404)
    return sorted(statuses)


def _problem(status: int) -> dict[str, Any]:
    example = {"title": HTTPStatus(status).phrase, "status": status, "detail": _WHEN[status]}
    schema = {"$ref": _REFERENCE.format(name=ProblemDocument.__name__)}
    return {"description": _WHEN[status], "content": {"application/problem+json": {"schema": schema, "example": example}}}


def _example(call: Call) -> Example:
    return EXAMPLES.get(call.run.__name__, Example(None, None))
