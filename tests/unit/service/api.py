"""The application without a socket: requests go in as ASGI messages, on an event loop that lives as long as the service."""

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote

from coldstream.service.http.app import application
from coldstream.service.http.gate import Gate
from coldstream.service.http.keys import Keys
from coldstream.service.http.rates import Rates
from coldstream.service.service import Service
from coldstream.service.settings import Settings
from coldstream.storage.sqlite.shown import SqliteShown
from coldstream.storage.sqlite.store import SqliteStore

SCHEMA = """
[user]
id = { kind = "id" }
country = { kind = "category" }
[item]
id = { kind = "id" }
genre = { kind = "set" }
price = { kind = "number", low = 0, high = 100 }
[context]
device = { kind = "category" }
"""


HYPERPARAMETERS = {"factors": 3, "negatives": 3}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


PATIENCE = 600.0
"""Seconds: whoever starts the first service of a fresh clone waits until the kernels are compiled."""


class Api:
    """A service in this process."""

    def __init__(
        self,
        folder: Path,
        keys: Keys | None = None,
        rate: float = 0.0,
        schema: str = SCHEMA,
        learning: Mapping[str, Any] = MappingProxyType({}),
        **settings: Any,
    ) -> None:
        (folder / "schema.toml").write_text(schema)
        hyperparameters = {**HYPERPARAMETERS, **learning}
        given = Settings(schema=folder / "schema.toml", data=folder / "data", hyperparameters=hyperparameters, **settings)
        self.service = Service(given, SqliteStore(folder / "data"), shown=lambda: SqliteShown(folder / "data"))
        self._app = application(self.service, Gate(keys, Rates(rate)))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)  # a test that fails may not stop it
        self._thread.start()

    def start(self) -> "Api":
        self.run(self.service.started())
        assert self.service.failure is None, self.service.failure
        return self

    def stop(self) -> None:
        self.run(self.service.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(PATIENCE)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | list[bytes] | None = None,
        decoded: bool = False,
        again: Mapping[str, str] = MappingProxyType({}),
        cut: bool = False,
    ) -> Answer:
        """One request. `raw` is sent as it is, in several parts if it is a list; `decoded` is what servers do to a path.

        `again` are headers that come after all others, whether they were there or not. What is `cut` off ends with the
        connection.
        """
        parts = [json.dumps(body).encode() if body is not None else b""] if raw is None else raw
        parts = parts if isinstance(parts, list) else [parts]
        given = {"host": "127.0.0.1:8000", "content-type": "application/json", **(headers or {})}
        listed = [*((k, v) for k, v in given.items() if v), *again.items()]
        return self.run(self._call(method, path, parts, listed, decoded, cut))

    async def _call(
        self,
        method: str,
        path: str,
        parts: list[bytes],
        headers: list[tuple[str, str]],
        decoded: bool = False,
        cut: bool = False,
    ) -> Answer:
        bare, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(bare) if decoded else bare,
            "raw_path": bare.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
            "client": ("127.0.0.1", 5),
            "root_path": "",
        }
        waiting: list[dict[str, Any]] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        if cut:
            waiting.append({"type": "http.disconnect"})
        else:
            del waiting[-1]["more_body"]  # as the protocol allows: nothing said is nothing more
        sent: list[Any] = []

        async def receive() -> Any:
            return waiting.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        start, *rest = sent
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], found, b"".join(part["body"] for part in rest))
