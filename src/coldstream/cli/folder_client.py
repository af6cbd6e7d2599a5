"""A store that no service runs on, as commands write to it: through the same door as a service's clients."""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from coldstream.features.fields import Categories
from coldstream.features.schema import SIDES
from coldstream.service.handlers.common import EVENT_LINE, ITEM_LINE, USER_LINE
from coldstream.service.handlers.line_stream import LineKind, LineStream
from coldstream.service.service import Service
from coldstream.service.settings import Settings
from coldstream.storage import stores

KINDS: Mapping[str, LineKind] = {"/events": EVENT_LINE, "/items": ITEM_LINE, "/users": USER_LINE}


class FolderClient:
    """Opens a store, writes to it, and leaves it with a snapshot. Nobody else may write to it meanwhile."""

    def __init__(self, url: str, schema: Path | None) -> None:
        folder, database = (Path(url.removeprefix("sqlite:")), None) if url.startswith("sqlite:") else (None, url)
        # Nobody is waiting to be ranked, and snapshots on the way would only take time: the log is there.
        seldom: dict[str, Any] = {"evaluate_share": 0.0, "snapshot_events": 0, "snapshot_minutes": 0.0}
        settings = Settings(data=folder, store=database, schema=schema, **seldom)
        self._longest = settings.body_bytes
        self._service = Service(settings, stores.opened(url), shown=partial(stores.shown, url))
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._service.started())
        if self._service.failure is not None:
            self.close()
            raise self._service.failure

    def sets(self) -> dict[str, list[str]]:
        """By side, the fields whose values are lists."""
        schema = self._service.recommender.schema
        return {side: [field.name for field in getattr(schema, side) if isinstance(field, Categories)] for side in SIDES}

    def send(self, path: str, body: bytes) -> tuple[int, Any]:
        """The status and the answer to lines of JSON, as a service would give them."""
        answer = self._loop.run_until_complete(self._taken(KINDS[path], body))
        return 200, msgspec.to_builtins(answer)

    async def _taken(self, kind: LineKind, body: bytes) -> Any:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        return await LineStream(self._service, kind, self._longest).take(receive)

    def close(self) -> None:
        """Take a snapshot, and give the store back."""
        self._loop.run_until_complete(self._service.stop())
        self._loop.close()
