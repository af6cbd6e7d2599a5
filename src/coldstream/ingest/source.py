"""The interface of a source of messages, and the registry of sources."""

import importlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from coldstream.errors import ColdstreamError, InvalidInput, shown

MAX_NAME_CHARS = 150
"""Maximal number of characters of a source's name in a message id. An id, with its place and digest, has at most 256.

The digest covers the whole name.
"""


class Message(NamedTuple):
    """A message delivered by a source."""

    id: str
    """The id from `message_id`: equal at every delivery of a message, and unique among the messages of all sources."""
    body: bytes
    handle: object
    """The source's own reference to the message, used to acknowledge it."""


class Source(Protocol):
    """A source that delivers messages in order.

    Messages that are not `done` are redelivered after a crash or a reconnection.
    """

    name: str
    """The kind of source, a colon, and the stream, topic or table, as in `nats:SHOP`. Metrics and message ids contain it."""

    async def open(self) -> None:
        """Connect to the source; raises `SourceUnavailable`."""
        ...

    async def fetch(self, most: int, seconds: float) -> list[Message]:
        """Return up to `most` messages, waiting up to `seconds` for the first one; raises `SourceUnavailable`."""
        ...

    async def done(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages that were learned or became dead letters, so that they are not redelivered."""
        ...

    async def lag(self) -> int | None:
        """Return the number of messages that are not yet `done`; None if it is unknown."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


def message_id(name: str, place: str, *facts: bytes) -> str:
    """Return the id of a message: its source, its place there, and a digest of facts that the source stores with it.

    A place is reused after a stream was deleted or restored from a backup, so the place alone does not identify a message.

    >>> message_id("nats:SHOP", "17", b"1700000000000000000", b"{}")
    'nats:SHOP:17:e9eaa505145ba3265c52b28222892881'
    """
    digest = blake2b(digest_size=16)
    for fact in (name.encode(), *facts):
        digest.update(len(fact).to_bytes(8, "big") + fact)
    return f"{name[:MAX_NAME_CHARS]}:{place}:{digest.hexdigest()}"


class SourceUnavailable(ColdstreamError):
    """A source does not answer now. Nothing is lost, and the call can be repeated."""


SOURCES = {
    "nats": ("coldstream.ingest.nats_source", "NatsSource", "nats"),
    "tls": ("coldstream.ingest.nats_source", "NatsSource", "nats"),
    "kafka": ("coldstream.ingest.kafka_source", "KafkaSource", "kafka"),
    "postgresql": ("coldstream.ingest.outbox_source", "OutboxSource", "ingest"),
    "postgres": ("coldstream.ingest.outbox_source", "OutboxSource", "ingest"),
}
"""For each scheme of an address: module, class, and the extra that installs its library."""


def source_of(url: str) -> Source:
    """Return the source at an address; raises `InvalidInput` for an unknown scheme."""
    scheme = urlsplit(url).scheme
    if scheme not in SOURCES:
        known = ", ".join(f"{name}://" for name in SOURCES)
        raise InvalidInput(f"the address of a source must begin with one of {known}, got {shown(url)}")
    module, name, extra = SOURCES[scheme]
    try:
        made: Source = getattr(importlib.import_module(module), name)(url)
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed; {scheme}:// needs it"
        raise ColdstreamError(f"{message}: pip install 'coldstream[{extra}]'") from error
    return made


def last_of_path(url: str, what: str, example: str) -> str:
    """Return the path of an address as a single name, such as a stream; raises `InvalidInput` if it is not one."""
    name = urlsplit(url).path.strip("/")
    if not name or "/" in name:
        raise InvalidInput(f"the address of a source must name {what}, as in {example}, got {shown(url)}")
    return name
