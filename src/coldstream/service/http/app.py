"""The ASGI application: the routes, the dashboard and the OpenAPI document."""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from starlette import routing
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from coldstream.service.http.dashboard_files import DashboardFiles
from coldstream.service.http.endpoint import Branches, Endpoint, Resource, respond
from coldstream.service.http.gate import Gate
from coldstream.service.http.openapi import document
from coldstream.service.http.problems import CONTENT_TYPE, Problem
from coldstream.service.http.routes import ROUTES, Route
from coldstream.service.http.tracing import Tracing
from coldstream.service.service import VERSION, Service


class _Anything(Convertor[str]):
    """A convertor of ids in paths, which may hold slashes and line breaks."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anything", _Anything())


def application(service: Service, gate: Gate, routes: Sequence[Route] = ROUTES, tracing: Tracing | None = None) -> Starlette:
    """Return an ASGI application with these routes, the dashboard, and `/openapi.json`, which describes the routes."""
    resources: dict[str, dict[str, ASGIApp]] = {}
    for route in routes:
        endpoint: ASGIApp = Endpoint(route, service, gate)
        if tracing is not None:
            endpoint = tracing.traced(endpoint, route.method, route.path)
        resources.setdefault(route.path, {})[route.method] = endpoint
    mounted = []
    for path, endpoints in resources.items():
        if not path.endswith("{id}"):
            if "{id}" not in path:
                mounted.append(routing.Route(path, Resource(endpoints), methods=list(endpoints)))
            continue
        further = {
            other.removeprefix(path): Resource(own) for other, own in resources.items() if other.startswith(f"{path}/")
        }
        branches = Branches(Resource(endpoints), further)
        mounted.append(routing.Route(path.replace("{id}", "{id:anything}"), branches, methods=branches.methods))
    dashboard = DashboardFiles()
    described = _Document(msgspec.json.encode(document(routes, VERSION)))
    pages: dict[str, ASGIApp] = {"/": dashboard, "/assets/{name}": dashboard, "/openapi.json": described}
    mounted += [routing.Route(path, page, methods=["GET"]) for path, page in pages.items()]
    app = Starlette(routes=mounted, exception_handlers={HTTPException: _unroutable})
    app.router.redirect_slashes = False
    return app


class _Document:
    """An ASGI application that answers with a constant JSON document."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await respond(send, HTTPStatus.OK, b"application/json", self._body)


async def _unroutable(request: Request, error: Exception) -> Response:
    """Answer a request that no route takes: an unknown path, or a method that the path does not have."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        detail = f"this path does not take {request.method}, only {headers['Allow']}"
    else:
        detail = "there is no such path; /openapi.json lists them all"
    problem = Problem(error.status_code, detail)
    return Response(msgspec.json.encode(problem.document), error.status_code, headers, CONTENT_TYPE.decode())
