"""An outbox: a table in PostgreSQL that a shop writes to in the transaction of an order."""

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from coldstream.ingest.source import Message, SourceUnavailable

TABLE = """CREATE TABLE IF NOT EXISTS {} (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    body jsonb NOT NULL
)"""
"""What an outbox has to have; one with more columns will do."""


class OutboxSource:
    """A table, `postgresql://shop@db/shop?table=coldstream_outbox`, whose rows are deleted when they are learned."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        self.table = query.pop("table", "coldstream_outbox")
        self.name = f"outbox:{self.table}"
        self._url = urlunsplit(parts._replace(query=urlencode(query)))
        self._connection: Any = None

    async def open(self) -> None:
        self._connection = await self._do(lambda: psycopg.connect(self._url, autocommit=True, connect_timeout=5))
        await self._query(TABLE)

    async def fetch(self, most: int, seconds: float) -> list[Message]:
        rows = await self._query("SELECT id, body::text FROM {} ORDER BY id LIMIT %s", most)
        if not rows:
            await asyncio.sleep(min(seconds, 0.2))
        return [Message(f"{self.name}:{number}", body.encode(), number) for number, body in rows]

    async def done(self, messages: Sequence[Message]) -> None:
        await self._query("DELETE FROM {} WHERE id = ANY(%s)", [one.handle for one in messages])

    async def lag(self) -> int | None:
        try:
            ((count,),) = await self._query("SELECT count(*) FROM {}")
        except SourceUnavailable:
            return None
        return int(count)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def _query(self, text: str, *given: object) -> list[Any]:
        statement = sql.SQL(text).format(sql.Identifier(self.table))

        def run() -> list[Any]:
            cursor = self._connection.execute(statement, given)
            return cursor.fetchall() if cursor.description else []

        rows: list[Any] = await self._do(run)
        return rows

    async def _do(self, action: Any) -> Any:
        try:
            return await asyncio.to_thread(action)
        except psycopg.OperationalError as error:
            raise SourceUnavailable(f"{self.name}: {error}; is the database there?") from error
