"""The service between its start and its stop."""

import asyncio
import gc
import logging
from collections.abc import Callable
from dataclasses import fields
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from time import monotonic

from coldstream.amounts import bytes_of, seconds_of
from coldstream.bounds import Bounds
from coldstream.errors import ColdstreamError, Interrupted
from coldstream.features.schema import Schema
from coldstream.files import private_folder
from coldstream.inspection import Changes
from coldstream.model.factorization_machine import resolve_hyperparameters
from coldstream.recommender import Recommender
from coldstream.runtime.huge_pages import collapse
from coldstream.runtime.learner import Learner
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.turns import in_turns
from coldstream.runtime.warming import warm_up
from coldstream.runtime.writer import Stopping, Writer, WriterLimits
from coldstream.service.live_samples import LiveSamples
from coldstream.service.metrics import Metrics
from coldstream.service.request_batcher import RequestBatcher
from coldstream.service.settings import Settings
from coldstream.storage.store import Store

log = logging.getLogger(__name__)

VERSION = version("coldstream")

GRACE = 1.0
"""Seconds that a stop gives a start to come to its own end."""


LONGEST_COLLAPSE = 3.0
"""Seconds of a start that may go into huge pages, so that snapshots take less from those who ask later."""


class NotReady(Stopping):
    """The service is recovering or compiling."""


def requested_model(settings: Settings) -> RequestedModel:
    """The model that the settings ask for."""
    schema = None if settings.schema is None else Schema.from_toml(settings.schema)
    given = {bound.name: getattr(settings, bound.name, None) for bound in fields(Bounds)}
    bounds = {name: value for name, value in given.items() if value is not None}
    if settings.preset is None and not settings.hyperparameters:
        return RequestedModel(schema, None, settings.seed, bounds)
    hyperparameters = resolve_hyperparameters(settings.preset or "default", **settings.hyperparameters)
    return RequestedModel(schema, hyperparameters, settings.seed, bounds)


def writer_limits(settings: Settings) -> WriterLimits:
    """The limits that the settings ask for."""
    return WriterLimits(
        settings.pending_events,
        settings.evaluate_share,
        settings.snapshot_events,
        settings.snapshot_minutes * 60,
        settings.erase_minutes * 60,
        0.0 if settings.retain is None else seconds_of(settings.retain) or 0.0,
        0 if settings.disk is None else bytes_of(settings.disk) or 0,
    )


class StartUp:
    """A start that is not over yet: what it is doing, and since when."""

    def __init__(self) -> None:
        self.phase = "recovering"
        """`recovering`, while the log is read; then `compiling`."""
        self._began = monotonic()

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return monotonic() - self._began


class Service:
    """Recovers, gets ready, answers, stops. Everything but the recovery runs on the event loop."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.failure: BaseException | None = None
        """What ended the service, where nobody asked for it."""
        self.abandoned = False
        """Whether it was stopped while a thread was still recovering or compiling, which nobody can end but the process.

        Nothing was acknowledged by then, and what recovery writes is whole or not there: nothing is lost.
        """
        self.metrics = Metrics(self)
        self.batcher = RequestBatcher()
        self.live_samples = LiveSamples(self)
        self.start_up: StartUp | None = None
        """How far the start has come, until it is over."""
        self._changes: Changes | None = None
        self._comparing = asyncio.Lock()
        self._sampling: asyncio.Task[None] | None = None
        self._store = store
        self._writer: Writer | None = None
        self._starting: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def ready(self) -> bool:
        """Whether it answers."""
        return self._writer is not None and not self._stopping and self._writer.failed is None

    @property
    def writer(self) -> Writer:
        """The one writer, once there is one."""
        if self._writer is None:
            raise NotReady("the service is recovering and compiling; try again when /ready says so")
        return self._writer

    @property
    def learner(self) -> Learner:
        """What is known."""
        return self.writer.learner

    @property
    def recommender(self) -> Recommender:
        """What is asked."""
        return self.writer.learner.recommender

    def start(self, failed: Callable[[], None]) -> None:
        """Begin to recover. `failed` hears of the end where nobody asked for it."""
        self._starting = asyncio.create_task(self._start(failed))

    async def stop(self) -> None:
        """Finish what was accepted, take a snapshot, and give the store back."""
        self._stopping = True
        if self._starting is not None:
            # What is compiled cannot be interrupted, and may take a minute.
            await asyncio.wait({self._starting}, timeout=GRACE)
            if not self._starting.done():
                self.abandoned = True
                return
        if self._sampling is not None:
            self._sampling.cancel()
        if self._writer is None:
            await asyncio.to_thread(self._store.close)
        else:
            await self._writer.stop()
            self.failure = self.failure or self._writer.failed

    async def _start(self, failed: Callable[[], None]) -> None:
        settings = self.settings
        try:
            requested = requested_model(settings)
            self.start_up = StartUp()
            learner = await asyncio.to_thread(recovered, self._store, requested, lambda: self._stopping)
            learner.evaluation = learner.evaluation.resized(settings.evaluate_top, settings.evaluate_window)
            self.start_up.phase = "compiling"
            await asyncio.to_thread(warm_up, learner.recommender.schema, learner.recommender.hyperparameters)
            await asyncio.to_thread(collapse, LONGEST_COLLAPSE)
            writer = Writer(self._store, learner, writer_limits(settings), self._folder())
            await writer.start(failed)
        except Interrupted:
            log.info("stopped before it was ready")
        except Exception as error:
            self.failure = error
            if not isinstance(error, ColdstreamError):
                log.critical("the service could not start", exc_info=error)
            failed()
        else:
            self._writer, self.start_up = writer, None
            self.live_samples.restore(learner.curves())
            learner.curves = self.live_samples.encoded
            _leave_garbage_for_later()
            self._sampling = asyncio.create_task(self._sample())
            log.info("ready", extra={"position": learner.position})

    async def _sample(self) -> None:
        while True:
            try:
                self.live_samples.sample()
            except Exception as error:  # the page would miss a sample; nobody else would miss anything
                log.error("no sample could be taken", exc_info=error)
            await asyncio.sleep(1)

    async def changes(self) -> Changes:
        """The parameters as they were at most a window of events ago. Nobody pays for the copy until somebody asks."""
        async with self._comparing:
            before, window = self._changes, self.learner.evaluation.window
            if before is not None and self.recommender.events - before.events <= window:
                return before
            now = self._changes = await in_turns(self.recommender.inspection.changes_in_steps())
            return before or now

    def _folder(self) -> Path:
        """Where snapshots are made: beside the log, so that they need only a new name; with a server, a place for it."""
        if self.settings.store is None:
            assert self.settings.data is not None
            return self.settings.data
        return private_folder(f"coldstream-{blake2b(self.settings.store.encode(), digest_size=8).hexdigest()}")


def _leave_garbage_for_later() -> None:
    """Look for reference cycles seldom: we make none, and looking through everybody who is known holds up whoever asks."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
