"""The files of the dashboard, the page that shows the service. It loads nothing from other hosts."""

from collections.abc import Mapping
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from coldstream.service.http.endpoint import Headers, respond

FOLDER = Path(__file__).parents[1] / "dashboard"

_KINDS = {".html": b"text/html; charset=utf-8", ".css": b"text/css; charset=utf-8", ".js": b"text/javascript; charset=utf-8"}

_SECURE: Headers = (
    (
        b"content-security-policy",
        b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


def _files() -> Mapping[str, Path]:
    """Return the paths of the dashboard's files, and of the charting script in the package plotly if it is installed."""
    files = {path.name: path for path in FOLDER.iterdir() if path.suffix in _KINDS}
    plotly = find_spec("plotly")
    if plotly is not None and plotly.origin is not None:
        files["plotly.min.js"] = Path(plotly.origin).parent / "package_data" / "plotly.min.js"
    return files


class DashboardFiles:
    """The ASGI application behind `/` and `/assets/{name}`; it serves only the dashboard's files."""

    def __init__(self) -> None:
        self._files = _files()
        self._read: dict[str, bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        name = scope["path_params"].get("name", "index.html")
        if name not in self._files:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        if name not in self._read:
            self._read[name] = self._files[name].read_bytes()
        await respond(send, HTTPStatus.OK, _KINDS[self._files[name].suffix], self._read[name], _SECURE)
