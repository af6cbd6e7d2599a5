"""NATS JetStream as a source: a durable pull consumer."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import nats
from nats.errors import Error
from nats.errors import TimeoutError as NothingCame
from nats.js.api import ConsumerConfig

from coldstream.errors import InvalidInput, shown
from coldstream.ingest.source import Message, SourceUnavailable, last_of_path, message_id

V1_FIELDS = 9
"""Number of fields in the reply subject of a message from a server older than 2.5, without domain and account."""

WAIT = 5.0
"""Seconds to wait for a connection or an answer."""


class NatsSource:
    """A stream, `nats://host:4222/STREAM?durable=coldstream&subject=shop.events`; all of its subjects if none is given.

    Messages that a killed reader had not acknowledged are redelivered after `ack_seconds`, by default 30.
    """

    def __init__(self, url: str) -> None:
        parts, query = urlsplit(url), parse_qs(urlsplit(url).query)
        self.stream = last_of_path(url, "a stream", "nats://127.0.0.1:4222/SHOP")
        self.name = f"nats:{self.stream}"
        self._server = f"{parts.scheme}://{parts.netloc}"
        self._durable = query.get("durable", ["coldstream"])[0]
        self._subject = query.get("subject", [">"])[0]
        self._patience = _seconds(query.get("ack_seconds", ["30"])[0])
        self._connection: Any = None
        self._pull: Any = None

    async def open(self) -> None:
        try:
            self._connection = await nats.connect(
                self._server, connect_timeout=WAIT, allow_reconnect=True, max_reconnect_attempts=-1, error_cb=_quiet
            )
            jetstream = self._connection.jetstream(timeout=WAIT)
            subject = self._subject if self._subject != ">" else ""
            self._pull = await jetstream.pull_subscribe(
                subject, self._durable, self.stream, ConsumerConfig(ack_wait=self._patience)
            )
        except (Error, OSError) as error:
            await self.close()
            raise SourceUnavailable(
                f"{self.name}: {error!r}; is the server there, and has it the stream {self.stream}?"
            ) from error

    async def fetch(self, most: int, seconds: float) -> list[Message]:
        try:
            found = await self._pull.fetch(most, timeout=seconds)
        except NothingCame:
            return []
        except (Error, OSError) as error:
            raise SourceUnavailable(f"{self.name}: {error!r}") from error
        return [Message(self._id(one), one.data, one) for one in found]

    def _id(self, message: Any) -> str:
        """Return the id of a message, from its sequence number, the time at which the server stored it, and its body.

        The server sends that time, in nanoseconds, with every delivery. So an id is right even if the stream was deleted,
        created again or restored since the connection was opened, and a reader needs no permission to inspect the stream.
        """
        fields = message.reply.split(".")  # $JS.ACK.[domain.account.]stream.consumer.deliveries.number.…time.pending[.token]
        number, time = (fields[5], fields[7]) if len(fields) == V1_FIELDS else (fields[7], fields[9])
        return message_id(self.name, number, time.encode(), message.data)

    async def done(self, messages: Sequence[Message]) -> None:
        try:
            for one in messages:
                handle: Any = one.handle
                await handle.ack()
            await self._connection.flush(WAIT)
        except (Error, OSError) as error:
            raise SourceUnavailable(f"{self.name}: {error!r}") from error

    async def lag(self) -> int | None:
        try:
            info = await self._pull.consumer_info()
        except (Error, OSError):
            return None
        return int((info.num_pending or 0) + (info.num_ack_pending or 0))

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise InvalidInput(f"ack_seconds must be a number from 0.1 to 86400, got {shown(text)}")
    return seconds


async def _quiet(error: Exception) -> None:
    """Ignore an error: the library reconnects by itself, and calls raise the errors that matter."""
    del error
