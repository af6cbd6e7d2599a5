"""The ingestion loop: each message of a source is learned once, or stored as a dead letter with the reason.

The id of a message becomes the `event_id` of its event, and the log accepts an id once, in the transaction that writes the
line. So a message redelivered because a process was killed before it acknowledged the message has no further effect.
"""

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple, Protocol, TypeVar

import msgspec

from coldstream.client import NewEvent, ServiceError, ServiceUnavailable
from coldstream.errors import ColdstreamError, InvalidInput
from coldstream.ingest.source import Message, Source, SourceUnavailable
from coldstream.service.messages.core import Learned
from coldstream.service.messages.source_ids import reserved_id, source_kind
from coldstream.support.files import check_writable

log = logging.getLogger(__name__)

Result = TypeVar("Result")

PAUSE = 1.0
"""Seconds before another attempt when a source or the service is unavailable."""


class Learns(Protocol):
    """The interface that learns events: a client of the service, or the service itself."""

    async def learn(self, events: Iterable[NewEvent], *, source: str | None = None) -> Learned:
        """Learn events from a kind of `source`, each once.

        Raises `ServiceError` for events that are refused, and `ServiceUnavailable` if another attempt may succeed.
        """
        ...


class Counts(NamedTuple):
    """Numbers of messages that were learned, were duplicates, or became dead letters."""

    learned: int = 0
    duplicates: int = 0
    dead: int = 0


class DeadLettersUnavailable(ColdstreamError):
    """The file of dead letters cannot be written now. Nothing is lost, and the write can be repeated."""


class DeadLetters:
    """A file of messages that cannot be learned, each a line of JSON with id, body and reason.

    A new file is readable only by its owner (mode 0600); an existing file keeps its mode.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> None:
        """Raise `InvalidInput` if the file cannot be written. The file is created only with the first dead letter."""
        try:
            if self._path.exists():
                os.close(os.open(self._path, os.O_WRONLY | os.O_APPEND))
            else:
                check_writable(self._path)
        except OSError as error:
            problem = f"dead letters {str(self._path)!r}: the file cannot be written ({error.strerror or error})"
            raise InvalidInput(f"{problem}; give another path, or let this process write to it") from error

    def add(self, letters: Sequence[tuple[Message, str]]) -> int:
        """Append messages with their reasons, sync the file, and return their number; raises `DeadLettersUnavailable`."""
        lines = [
            {"id": message.id, "reason": reason, "body": message.body.decode(errors="replace")}
            for message, reason in letters
        ]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode(errors="replace")
        try:
            with open(self._path, "a+b", opener=_private) as file:
                if _ends_within_line(file):  # an earlier write was cut off by a full disk or a kill
                    file.write(b"\n")
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            problem = f"dead letters {str(self._path)!r} cannot be written ({error.strerror or error})"
            raise DeadLettersUnavailable(f"{problem}; make room, or let this process write to it") from error
        return len(lines)


class Ingestion:
    """The loop that reads a source, learns its messages with a client, and writes dead letters."""

    def __init__(
        self,
        source: Source,
        client: Learns,
        dead: DeadLetters,
        batch: int = 500,
        told: Callable[[Counts], None] | None = None,
    ) -> None:
        self._source, self._client, self._dead, self._batch = source, client, dead, batch
        self._kind, self._told = source.name.partition(":")[0], told
        self.counts = Counts()
        """Totals since the start; `told` is called with each increment."""

    async def run(self, stop: asyncio.Event) -> None:
        """Ingest messages until `stop` is set, then close the source."""
        try:
            await self._read(stop)
        finally:
            await self._source.close()

    async def _read(self, stop: asyncio.Event) -> None:
        opened = False
        while not stop.is_set():
            try:
                if not opened:
                    await self._source.open()
                    opened = True
                    log.info("reading", extra={"source": self._source.name})
                messages = await self._source.fetch(self._batch, 0.5)
                if messages:
                    await self.take(messages, stop)
            except SourceUnavailable as error:
                self._say_waiting(error)
                await self._source.close()
                opened = False
                await _rest(stop)

    async def take(self, messages: Sequence[Message], stop: asyncio.Event) -> None:
        """Learn messages, and acknowledge them when each is learned or a dead letter.

        If `stop` is set before that, none is acknowledged, and all are redelivered later.
        """
        good, letters = [], []
        for message in messages:
            try:
                good.append((message, event_of(message)))
            except ValueError as error:
                letters.append((message, str(error)))
        refused = await self._until_done(lambda: self._learned(good), stop)
        if refused is None:
            return
        if letters := [*letters, *refused]:
            written = await self._until_done(lambda: asyncio.to_thread(self._dead.add, letters), stop)
            if written is None:
                return
            self._count(dead=written)
        await self._source.done(messages)

    async def _until_done(self, action: Callable[[], Awaitable[Result]], stop: asyncio.Event) -> Result | None:
        """Retry while the service or the file of dead letters is unavailable; return None if stopped before it succeeds."""
        while True:
            try:
                return await action()
            except (ServiceUnavailable, DeadLettersUnavailable) as error:
                self._say_waiting(error)
                await _rest(stop)
                if stop.is_set():
                    return None

    async def _learned(self, pairs: list[tuple[Message, NewEvent]]) -> list[tuple[Message, str]]:
        """Learn events and return the messages that the service refuses, with its reasons. Refused batches are bisected."""
        if not pairs:
            return []
        try:
            answer = await self._client.learn([event for _, event in pairs], source=self._kind)
        except ServiceError as error:
            if error.status in (401, 403):  # these statuses concern the API key, not a message
                raise
            if len(pairs) == 1:
                return [(pairs[0][0], str(error))]
            half = len(pairs) // 2
            return await self._learned(pairs[:half]) + await self._learned(pairs[half:])
        self._count(learned=answer.learned, duplicates=answer.duplicates)
        return []

    def _count(self, **more: int) -> None:
        new = Counts(**more)
        self.counts = Counts(*map(sum, zip(self.counts, new, strict=True)))
        if self._told is not None:
            self._told(new)

    def _say_waiting(self, error: Exception) -> None:
        facts = {"source": self._source.name, "reason": type(error).__name__, "detail": str(error)[:200]}
        log.warning("waiting", extra=facts)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _ends_within_line(file: IO[bytes]) -> bool:
    if not file.seek(0, os.SEEK_END):
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"


async def _rest(stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), PAUSE)


def event_of(message: Message) -> NewEvent:
    """Decode a message into an event, whose id is the message's unless the producer gave one; raises `ValueError`."""
    try:
        event = msgspec.json.decode(message.body, type=NewEvent)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not an event: {error}") from error
    if event.event_id is None:
        return msgspec.structs.replace(event, event_id=message.id)
    if source_kind(event.event_id) is not None:
        raise ValueError(reserved_id(event.event_id))
    return event
