"""A source as a part of the service: read by the process that writes, and by no other."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from coldstream.client import NewEvent, ServiceError, ServiceUnavailable
from coldstream.client.retries import TRANSIENT
from coldstream.errors import ColdstreamError
from coldstream.ingest.ingestion import PAUSE, DeadLetters, Ingestion
from coldstream.ingest.metrics import IngestMetrics
from coldstream.ingest.source import source_of
from coldstream.service.handlers.common import learn
from coldstream.service.http.problems import problem_of
from coldstream.service.messages.core import Learned
from coldstream.service.service import Service

log = logging.getLogger(__name__)

LOOK = 0.2
"""Seconds between two looks at who writes."""

GRACE = 2.0
"""Seconds that a reader has to finish its batch. One that is cancelled loses nothing: its messages come again."""


class SourceFeed:
    """The messages of a source, learned by the service that this process is, while it is the writer.

    The source is at `url`; messages that cannot be learned go to the file `dead`, and one call has `batch` at most.
    """

    def __init__(self, url: str, dead: Path, batch: int) -> None:
        self._source, self._dead, self._batch = source_of(url), DeadLetters(dead), batch
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, service: Service) -> None:
        metrics = IngestMetrics(service.metrics.registry, self._source.name)
        self._task = asyncio.create_task(self._run(service, metrics))

    async def stop(self) -> None:
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def _run(self, service: Service, metrics: IngestMetrics) -> None:
        while not self._stopping.is_set():
            if service.writes:
                try:
                    await self._read(service, metrics)
                except Exception as error:  # a disk that is full, a library's surprise: the service goes on
                    log.error("a source could not be read", exc_info=error, extra={"source": self._source.name})
                    await self._rest(PAUSE)
            await self._rest(LOOK)

    async def _read(self, service: Service, metrics: IngestMetrics) -> None:
        """Until another process writes, or the service stops."""
        over = asyncio.Event()
        ingestion = Ingestion(self._source, _Within(service), self._dead, self._batch, metrics.count)
        reading = asyncio.create_task(ingestion.run(over))
        looking = asyncio.create_task(metrics.look(self._source))
        try:
            while service.writes and not self._stopping.is_set() and not reading.done():
                await asyncio.wait({reading}, timeout=LOOK)
            over.set()
            await asyncio.wait({reading}, timeout=GRACE)
        finally:
            looking.cancel()
            reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


class _Within:
    """The service in this process, as a client meets it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def learn(self, events: Iterable[NewEvent], *, source: str | None = None) -> Learned:
        del source  # the ids of these events need no check: `event_of` made or checked them
        try:
            return await learn(self._service, list(events), "")
        except ColdstreamError as error:
            said = problem_of(error).document
            if said.status in TRANSIENT:
                raise ServiceUnavailable(said.detail) from error
            raise ServiceError(said.status, said.detail, said.field) from error
