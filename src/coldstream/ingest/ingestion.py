"""Messages of a source, learned by the service: each once, or kept with the reason why not.

The id of a message is the `event_id` of its event, and the log takes an id once, in the transaction that writes the line. A
message that is delivered again, because a process was killed before the source was told that it is done, changes nothing.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from coldstream.client import NewEvent, ServiceError, ServiceUnavailable
from coldstream.ingest.source import Message, Source, SourceUnavailable
from coldstream.service.messages.core import Learned
from coldstream.service.source_ids import reserved_id, source_kind

log = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds until a source or a service that is away is tried again."""


class Learns(Protocol):
    """Who learns: a client of the service, or the service itself."""

    async def learn(self, events: Iterable[NewEvent], *, source: str | None = None) -> Learned:
        """Learn each event of a kind of `source` once.

        Raises `ServiceError` for events that are refused, and `ServiceUnavailable` where it is worth another try.
        """
        ...


class Counts(NamedTuple):
    """What has happened."""

    learned: int = 0
    duplicates: int = 0
    dead: int = 0


class DeadLetters:
    """Messages that cannot be learned, each a line of JSON with its id, its body and the reason."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, letters: Sequence[tuple[Message, str]]) -> None:
        """Write them down for good, before the source forgets them."""
        with open(self._path, "a", encoding="utf-8") as file:
            for message, reason in letters:
                line = {"id": message.id, "reason": reason, "body": message.body.decode(errors="replace")}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


class Ingestion:
    """A source, the service, and what is done with messages between them."""

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
        """Since the start; `told` hears of each change."""

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop."""
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
        """Learn messages; they are done when all are learned or dead letters, and come again where it had to stop before."""
        good, letters = [], []
        for message in messages:
            try:
                good.append((message, event_of(message)))
            except ValueError as error:
                letters.append((message, str(error)))
        while True:
            try:
                letters += await self._learned(good)
                break
            except ServiceUnavailable as error:  # they are in hand: no need to have them delivered again
                self._say_waiting(error)
                await _rest(stop)
                if stop.is_set():
                    return
        if letters:
            await asyncio.to_thread(self._dead.add, letters)
            self._count(dead=len(letters))
        await self._source.done(messages)

    async def _learned(self, pairs: list[tuple[Message, NewEvent]]) -> list[tuple[Message, str]]:
        """Those that the service refuses, with its reasons; the others are learned."""
        if not pairs:
            return []
        try:
            answer = await self._client.learn([event for _, event in pairs], source=self._kind)
        except ServiceError as error:
            if error.status in (401, 403):  # that is about the key, and no message's fault
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


async def _rest(stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), PAUSE)


def event_of(message: Message) -> NewEvent:
    """Decode a message. Its event gets the id of the message, unless the producer gave the event an id."""
    try:
        event = msgspec.json.decode(message.body, type=NewEvent)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not an event: {error}") from error
    if event.event_id is None:
        return msgspec.structs.replace(event, event_id=message.id)
    if source_kind(event.event_id) is not None:
        raise ValueError(reserved_id(event.event_id))
    return event
