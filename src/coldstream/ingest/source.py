"""Where messages come from: the contract, and the one table of sources."""

import importlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from coldstream.errors import ColdstreamError, InvalidInput, shown

MAX_NAME_CHARS = 150
"""Characters of a source's name in an id, which has 256 with its place and its digest; the digest is of the whole name."""


class Message(NamedTuple):
    """A message of a source."""

    id: str
    """Equal at every delivery of one message, and different for any two messages of all sources (`message_id`)."""
    body: bytes
    handle: object
    """What the source itself knows it by."""


class Source(Protocol):
    """Messages in their order. What is not `done` comes again, after a crash or a reconnection."""

    name: str
    """The kind of source, a colon and a stream, a topic or a table, as in `nats:SHOP`; metrics and ids begin with it."""

    async def open(self) -> None:
        """Connect; raises `SourceUnavailable`."""
        ...

    async def fetch(self, most: int, seconds: float) -> list[Message]:
        """Up to so many messages, waiting so long for the first; raises `SourceUnavailable`."""
        ...

    async def done(self, messages: Sequence[Message]) -> None:
        """These were learned, or are dead letters: do not deliver them again."""
        ...

    async def lag(self) -> int | None:
        """How many messages are there that are not done; None where nobody knows."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


def message_id(name: str, place: str, *facts: bytes) -> str:
    """Name a message by its source, its place there, and a digest of facts that its source keeps with it.

    A place is used again after a stream was deleted or restored from a backup, so it alone names no message.

    >>> message_id("nats:SHOP", "17", b"1700000000000000000", b"{}")
    'nats:SHOP:17:e9eaa505145ba3265c52b28222892881'
    """
    digest = blake2b(digest_size=16)
    for fact in (name.encode(), *facts):
        digest.update(len(fact).to_bytes(8, "big") + fact)
    return f"{name[:MAX_NAME_CHARS]}:{place}:{digest.hexdigest()}"


class SourceUnavailable(ColdstreamError):
    """A broker that does not answer now. Nothing is lost, and it may be tried again."""


SOURCES = {
    "nats": ("coldstream.ingest.nats_source", "NatsSource", "nats"),
    "tls": ("coldstream.ingest.nats_source", "NatsSource", "nats"),
    "kafka": ("coldstream.ingest.kafka_source", "KafkaSource", "kafka"),
    "postgresql": ("coldstream.ingest.outbox_source", "OutboxSource", "ingest"),
    "postgres": ("coldstream.ingest.outbox_source", "OutboxSource", "ingest"),
}
"""By scheme of the address: module, class, and the extra that brings its library."""


def source_of(url: str) -> Source:
    """The source at an address."""
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
    """The name behind the host in an address."""
    name = urlsplit(url).path.strip("/")
    if not name or "/" in name:
        raise InvalidInput(f"the address of a source must name {what}, as in {example}, got {shown(url)}")
    return name
