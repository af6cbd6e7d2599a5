"""Ingestion inside the service: only the process that writes to the store reads the source."""

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
from coldstream.service.handlers.records import learn
from coldstream.service.http.problems import problem_of
from coldstream.service.messages.core import Learned
from coldstream.service.service import Service

log = logging.getLogger(__name__)

LOOK = 0.2
"""Seconds between two checks whether this process is the writer."""

GRACE = 2.0
"""Seconds that a stopped reader has to finish its batch. A cancelled reader loses nothing: its messages are redelivered."""


class SourceFeed:
    """A feed that learns the messages of a source in this process's service, while this process is the writer.

    The source is at `url`. Messages that cannot be learned are appended to the file `dead`, and up to `batch` messages are
    learned per call.
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
                except Exception as error:  # a full disk or an unexpected error of a library must not stop the service
                    log.error("a source could not be read", exc_info=error, extra={"source": self._source.name})
                    await self._rest(PAUSE)
            await self._rest(LOOK)

    async def _read(self, service: Service, metrics: IngestMetrics) -> None:
        """Ingest messages until another process becomes the writer, or the service stops."""
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
    """The service in this process, with the interface of a client."""

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
