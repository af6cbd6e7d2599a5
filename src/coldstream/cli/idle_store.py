"""Writing to a store on which no service runs, through the same handlers that serve HTTP clients."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from coldstream.features.fields import Categories
from coldstream.features.schema import SIDES
from coldstream.service.handlers.line_stream import LineKind, LineStream
from coldstream.service.handlers.records import EVENT_LINE, ITEM_LINE, USER_LINE
from coldstream.service.messages.core import LinesTaken
from coldstream.service.service import Service
from coldstream.service.settings import Settings
from coldstream.storage import stores

KINDS: Mapping[str, LineKind] = {"event": EVENT_LINE, "item": ITEM_LINE, "user": USER_LINE}


class IdleStore:
    """A store opened for writing, which gets a snapshot when it is closed. No other process may write to it meanwhile."""

    def __init__(self, url: str, schema: Path | None) -> None:
        folder, database = (Path(url.removeprefix("sqlite:")), None) if url.startswith("sqlite:") else (None, url)
        # No live evaluation is needed, and snapshots on the way only take time, because the log is durable.
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
        """Return the names of the fields with list values, by side."""
        schema = self._service.recommender.schema
        return {side: [field.name for field in getattr(schema, side) if isinstance(field, Categories)] for side in SIDES}

    def take(self, role: str, records: Sequence[Mapping[str, Any]]) -> LinesTaken:
        """Write events, items or users, each of which is accepted or refused on its own."""
        body = b"\n".join(map(msgspec.json.encode, records))
        return self._loop.run_until_complete(self._taken(KINDS[role], body))

    async def _taken(self, kind: LineKind, body: bytes) -> LinesTaken:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        return await LineStream(self._service, kind, self._longest).take(receive)

    def close(self) -> None:
        """Take a snapshot and close the store."""
        self._loop.run_until_complete(self._service.stop())
        self._loop.close()
