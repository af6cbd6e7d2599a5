"""Messages of a source, learned by the service: each once, or kept with the reason why not.

A message's place in its source is the `event_id` of its event, and the log takes an id once, in the transaction that writes
the line. So the offset and the line cannot part: whoever is killed between the two, the message comes again, and changes
nothing. Only then is the source told that it is done.
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

log = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds until a source or a service that is away is tried again."""


class Learns(Protocol):
    """Who learns: a client of the service, or the service itself."""

    async def learn(self, events: Iterable[NewEvent]) -> Learned:
        """Learn each once; raises `ServiceError` for what is refused, and `ServiceUnavailable` for what goes over."""
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
        self._told = told
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
            answer = await self._client.learn([event for _, event in pairs])
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
    """The event that a message is, named by its place in the source unless it has a name of its own."""
    try:
        event = msgspec.json.decode(message.body, type=NewEvent)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not an event: {error}") from error
    return event if event.event_id is not None else msgspec.structs.replace(event, event_id=message.id[:256])
