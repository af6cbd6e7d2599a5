"""An outbox as a source: a PostgreSQL table to which a shop writes events in the transaction of an order."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from coldstream.errors import ColdstreamError
from coldstream.ingest.source import MAX_NAME_CHARS, Message, SourceUnavailable

log = logging.getLogger(__name__)

KEY = "coldstream_id uuid NOT NULL DEFAULT gen_random_uuid()"
"""The column with the permanent identity of a row.

Rows of another table or database, or rows inserted after TRUNCATE … RESTART IDENTITY, have other values. A row restored from
a backup has its old value.
"""

TABLE = f"""CREATE TABLE {{}} (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    body jsonb NOT NULL,
    {KEY}
)"""
"""The columns that an outbox must have; it may have more."""

_COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"

_TEMPORARY = (psycopg.OperationalError, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)
"""Errors after which the source is opened again. A table that was dropped and created again may lack the column."""


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
        await self._do(self._prepare)

    async def fetch(self, most: int, seconds: float) -> list[Message]:
        rows = await self._query("SELECT id, coldstream_id::text, body::text FROM {} ORDER BY id LIMIT %s", most)
        if not rows:
            await asyncio.sleep(min(seconds, 0.2))
        name = self.name[:MAX_NAME_CHARS]
        return [Message(f"{name}:{number}:{key}", body.encode(), (number, key)) for number, key, body in rows]

    async def done(self, messages: Sequence[Message]) -> None:
        handles: list[Any] = [one.handle for one in messages]
        numbers, keys = [number for number, _ in handles], [key for _, key in handles]
        # The key is compared too: after TRUNCATE … RESTART IDENTITY a row that was not learned may have the same number.
        await self._query("DELETE FROM {} WHERE id = ANY(%s) AND coldstream_id = ANY(%s::uuid[])", numbers, keys)

    async def lag(self) -> int | None:
        try:
            ((count,),) = await self._query("SELECT count(*) FROM {}")
        except SourceUnavailable:
            return None
        return int(count)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _prepare(self) -> None:
        """Create the table, or add the column `coldstream_id` to a table that lacks it."""
        table = sql.Identifier(self.table)
        columns = {name for (name,) in self._connection.execute(_COLUMNS, (table.as_string(self._connection),))}
        if "coldstream_id" in columns:
            return
        alter = f"ALTER TABLE {{}} ADD COLUMN IF NOT EXISTS {KEY}"
        statement = sql.SQL(alter if columns else TABLE).format(table)
        try:
            with self._connection.transaction():
                self._connection.execute("SET LOCAL lock_timeout = '2s'")  # a shop's orders must not queue behind this
                self._connection.execute(statement)
        # another reader created it concurrently
        except (psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation) as error:
            raise SourceUnavailable(f"{self.name}: {error}") from error
        except psycopg.ProgrammingError as error:
            needed = statement.as_string(self._connection)
            raise ColdstreamError(f"{self.name}: {error}; have the owner of the table run: {needed}") from error
        log.info("outbox prepared", extra={"source": self.name, "statement": statement.as_string(self._connection)})

    async def _query(self, text: str, *given: object) -> list[Any]:
        statement = sql.SQL(text).format(sql.Identifier(self.table))

        def run() -> list[Any]:
            cursor = self._connection.execute(statement, given)
            return cursor.fetchall() if cursor.description else []

        rows: list[Any] = await self._do(run)
        return rows

    async def _do(self, action: Callable[[], Any]) -> Any:
        try:
            return await asyncio.to_thread(action)
        except _TEMPORARY as error:
            raise SourceUnavailable(f"{self.name}: {error}; is the database there?") from error
