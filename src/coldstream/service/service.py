"""The life of the service: its start, its roles and states, and its stop."""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import fields
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from time import monotonic

from coldstream.bounds.bounds import Bounds
from coldstream.errors import ColdstreamError, Interrupted, InvalidInput, StoreDamaged
from coldstream.features.schema import Schema
from coldstream.lists.inspection import Changes
from coldstream.model.factorization_machine import resolve_hyperparameters
from coldstream.recommender import Recommender
from coldstream.runtime.fingerprint import fingerprinted
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.replication.follower import Follower
from coldstream.runtime.replication.progress import Progress
from coldstream.runtime.replication.replica import Replica
from coldstream.runtime.replication.roles import NotTheWriter
from coldstream.runtime.team import Hiring
from coldstream.runtime.turns import in_turns
from coldstream.runtime.warming import warm_up
from coldstream.runtime.writing.writer import NOT_HERE, Stopping, Writer
from coldstream.service.feed import Feed
from coldstream.service.handlers.impressions import Impressions
from coldstream.service.handlers.live_samples import LiveSamples
from coldstream.service.handlers.request_batcher import RequestBatcher
from coldstream.service.http.addresses import is_every, joined
from coldstream.service.http.forwarding import Forwarder
from coldstream.service.metrics import Metrics
from coldstream.service.settings import Settings
from coldstream.storage.sharing import Shared, Sharing
from coldstream.storage.shown import ShownStore
from coldstream.storage.store import Store
from coldstream.support.amounts import bytes_of, seconds_of
from coldstream.support.files import private_folder
from coldstream.support.memory_tuning import freeze_objects

log = logging.getLogger(__name__)

VERSION = version("coldstream")

GRACE = 1.0
"""Seconds that a stop waits for a start that is still running, before it abandons the start."""


class Behind(Stopping):
    """The line of the log that a request names was not learned in time."""


class NotReady(Stopping):
    """The service is still recovering or compiling."""


def requested_model(settings: Settings) -> RequestedModel:
    """Return the model that the settings ask for: schema, hyperparameters, seed, bounds and number of learners."""
    schema = None if settings.schema is None else Schema.from_toml(settings.schema)
    given = {bound.name: getattr(settings, bound.name, None) for bound in fields(Bounds)}
    bounds = {name: value for name, value in given.items() if value is not None}
    if settings.preset is None and not settings.hyperparameters:
        return RequestedModel(schema, None, settings.seed, bounds, settings.learners)
    hyperparameters = resolve_hyperparameters(settings.preset or "default", **settings.hyperparameters)
    return RequestedModel(schema, hyperparameters, settings.seed, bounds, settings.learners)


def shown_bytes(settings: Settings) -> int:
    """Return the most bytes that shown lists may take on disk: at most a tenth of `disk`, to leave the rest to the log."""
    most = bytes_of(settings.shown_disk) or 0
    disk = None if settings.disk is None else bytes_of(settings.disk)
    return most if disk is None else min(most, disk // 10)


def writer_limits(settings: Settings) -> WriterLimits:
    """Return the limits of the writer that the settings ask for."""
    return WriterLimits(
        settings.pending_events,
        settings.evaluate_share,
        settings.merge_events,
        settings.merge_seconds,
        settings.snapshot_events,
        settings.snapshot_minutes * 60,
        settings.erase_minutes * 60,
        0.0 if settings.retain is None else seconds_of(settings.retain) or 0.0,
        0 if settings.disk is None else bytes_of(settings.disk) or 0,
    )


class StartUp:
    """A start in progress: its phase and how long it has lasted."""

    def __init__(self) -> None:
        self.phase = "recovering"
        """`recovering` while the log is read, then `compiling`."""
        self._began = monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start began."""
        return monotonic() - self._began


NOBODY_ELSE = Hiring()
"""A `Hiring` that makes no learners besides this process."""


class Service:
    """A service on one store: it recovers, compiles, answers and stops.

    Recovery and compilation run in threads, everything else on the event loop. With a `Store` this process is the only
    one on it; with a `Shared` store it is one of several replicas.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store | Shared,
        port: int = 0,
        hiring: Hiring = NOBODY_ELSE,
        shown: Callable[[], ShownStore] | None = None,
    ) -> None:
        self.settings = settings
        self._hiring = hiring
        self.failure: BaseException | None = None
        """The error that kept the service from starting, or ended it; None where there was none."""
        self.abandoned = False
        """Whether the service was stopped while a thread was still recovering or compiling.

        Such a thread ends only with the process. Nothing is lost: nothing was acknowledged before the end of the start, and
        recovery writes atomically.
        """
        self.metrics = Metrics(self)
        self.batcher = RequestBatcher()
        self.pausing = asyncio.Lock()
        """Lock shared by all requests whose work grows with the size of their body (`Slices`)."""
        self._shown = shown
        self.impressions = Impressions()
        """The lists that were shown. The start replaces this one, in memory, where there is a store of shown lists."""
        self.live_samples = LiveSamples(self)
        self.feed: Feed | None = None
        """A source of events besides clients; None where there is none."""
        self.start_up: StartUp | None = None
        """The start in progress; None before it begins and once it has succeeded."""
        self._changes: Changes | None = None
        self._comparing = asyncio.Lock()
        self._sampling: asyncio.Task[None] | None = None
        self.leaving = False
        """Whether the service is about to stop, and only answers until proxies send it no more requests."""
        self._progress, self._fingerprinting = Progress(), asyncio.Lock()
        self._port = port
        self._store = None if isinstance(store, Shared) else store
        self._replica = self._as_replica(store) if isinstance(store, Shared) else None
        self.forwarder = None if self._replica is None else self._as_forwarder(self._replica)
        """Forwards writes to the writer; None where no other process can be the writer."""
        self._writer: Writer | None = None
        self._starting: asyncio.Task[None] | None = None
        self._stopping = self._begun = False

    @property
    def ready(self) -> bool:
        """Whether the service answers: it has started, is not stopping, and its role has not failed."""
        return self.has_begun and not self._stopping and self.current.failed is None

    @property
    def writes(self) -> bool:
        """Whether this process takes writes: it is ready, and is the writer."""
        return self.ready and isinstance(self.current, Writer) and not self.current.resigned

    @property
    def has_begun(self) -> bool:
        """Whether the start has succeeded. It stays true during a stop."""
        return self._begun

    @property
    def current(self) -> Writer | Follower:
        """The writer or follower of this process. Raises `NotReady` before the start is over."""
        current = self._writer if self._replica is None else self._replica.current
        if current is None or not self._begun:
            raise NotReady("the service is recovering and compiling; try again when /ready says so")
        return current

    @property
    def writer(self) -> Writer:
        """The writer. Raises `NotTheWriter` where this process follows another, and `NotReady` before the start is over."""
        current = self.current
        if not isinstance(current, Writer):
            raise NotTheWriter(NOT_HERE)
        return current

    @property
    def learner(self) -> Learner:
        """The learner, which holds the state learned from the log. Raises `NotReady` before the start is over."""
        return self.current.learner

    @property
    def recommender(self) -> Recommender:
        """The recommender that answers requests. Raises `NotReady` before the start is over."""
        return self.current.learner.recommender

    async def known_up_to(self, position: int | None) -> None:
        """Wait until a line of the log is learned; None waits for nothing.

        Raises `Behind` after `after_seconds`, and, with a single process, `InvalidInput` for a line that the log does not
        have.
        """
        if position is None or self.learner.position >= position:
            return
        # Of several processes, one that was paused may still believe to be the writer, and know less than others.
        if self._replica is None:
            message = f"after must be a position that an acknowledgement gave, got {position}"
            error = InvalidInput(f"{message}; the log ends at line {self.learner.position}")
            error.field = "after"
            raise error
        seconds = self.settings.after_seconds
        if not await self._progress.wait(position, seconds):
            message = f"line {position} of the log was not learned here within {seconds:g} s"
            remedy = "ask again, or ask without it"
            raise Behind(f"{message}, only what is before line {self.learner.position + 1}; {remedy}")

    def check_stays(self) -> None:
        """Raise `Stopping` if the service is about to stop."""
        if self.leaving:
            raise Stopping("the service is about to stop; ask another one")

    async def fingerprint(self) -> tuple[int, str]:
        """Return the position up to which the log is learned, and a digest of the state learned there."""
        async with self._fingerprinting:
            return await fingerprinted(self.learner)

    async def leave(self) -> None:
        """Hand over the role of the writer, then answer for `drain_seconds`, until proxies send no more requests."""
        self.leaving = True
        if self._replica is not None and self._begun:
            await self._replica.hand_over()
        if self._begun:
            await asyncio.sleep(self.settings.drain_seconds)

    def start(self, failed: Callable[[], None]) -> None:
        """Begin to recover in the background; `failed` is called if the service fails to start or fails later."""
        self._starting = asyncio.create_task(self._start(failed))

    async def started(self) -> None:
        """Start, and return when the start is over; where it did not succeed, `failure` is the error."""
        self.start(lambda: None)
        assert self._starting is not None
        await self._starting

    async def stop(self) -> None:
        """Finish accepted writes, take a snapshot and close the store; abandon a start that is still running."""
        self._stopping = True
        if self._starting is not None:
            # Compilation cannot be interrupted, and may take a minute.
            await asyncio.wait({self._starting}, timeout=GRACE)
            if not self._starting.done():
                self.abandoned = True
                return
        if self._sampling is not None:
            self._sampling.cancel()
        if self.feed is not None:
            await self.feed.stop()
        if self.forwarder is not None:
            self.forwarder.close()
        await self.impressions.stop()
        if self._replica is not None:
            await self._replica.stop()
        elif self._writer is not None:
            await self._writer.stop()
        elif self._store is not None:
            await asyncio.to_thread(self._store.close)
        if self._begun:
            self.failure = self.failure or self.current.failed

    async def _start(self, failed: Callable[[], None]) -> None:
        settings = self.settings
        try:
            requested = self._requested()
            self.start_up = StartUp()
            learner = await self._learner(requested)
            learner.evaluation = learner.evaluation.resized(settings.evaluate_top, settings.evaluate_window)
            self.start_up.phase = "compiling"
            await asyncio.to_thread(warm_up, learner.recommender.schema, learner.recommender.hyperparameters)
            await self._keep_shown()  # before there is a writer, which may have people to erase
            if self._replica is not None:
                await self._replica.start(learner, failed)
            else:
                assert self._store is not None
                own = (self._store, learner, writer_limits(settings), self._folder(), self._progress)
                writer = Writer(*own, erase_beside=self._erase_shown, bytes_beside=lambda: self.impressions.bytes)
                await writer.start(failed)
                self._writer = writer
        except Interrupted:
            log.info("stopped before it was ready")
        except Exception as error:
            self.failure = error
            if not isinstance(error, ColdstreamError):
                log.critical("the service could not start", exc_info=error)
            failed()
        else:
            self._begun, self.start_up = True, None
            self.live_samples.restore(learner.curves())
            learner.curves = self.live_samples.encoded
            freeze_objects()
            self._sampling = asyncio.create_task(self._sample())
            if self.feed is not None:
                self.feed.start(self)
            log.info("ready", extra={"position": learner.position, "role": self.current.role.value})

    async def _keep_shown(self) -> None:
        if self._shown is not None:
            retain = seconds_of(self.settings.shown_retain) or 0.0
            store = await asyncio.to_thread(self._shown)
            self.impressions = Impressions(store, self.settings.shown_share, retain, shown_bytes(self.settings))
            self.impressions.start(self._leaving_people)

    def _leaving_people(self) -> Collection[str]:
        """Return the people who are forgotten and not yet erased, if this process is the writer, which erases them."""
        current = self._writer if self._replica is None else self._replica.current
        return current.erasures.pending if isinstance(current, Writer) else ()

    async def _erase_shown(self, users: Collection[str]) -> None:
        """Erase the lists shown to users before the log forgets them. A damaged store of lists holds up no erasure."""
        try:
            await self.impressions.erase(users)
        except StoreDamaged as error:
            log.error("lists that were shown cannot be erased; remove their file", extra={"reason": str(error)})

    def _requested(self) -> RequestedModel:
        return requested_model(self.settings)._replace(hiring=self._hiring)

    async def _learner(self, requested: RequestedModel) -> Learner:
        if self._replica is not None:
            return await self._replica.begin(lambda: self._stopping)
        return await asyncio.to_thread(recovered, self._store, requested, lambda: self._stopping)  # type: ignore[arg-type]

    def _as_replica(self, shared: Shared) -> Replica:
        settings, requested = self.settings, self._requested()
        return Replica(
            *(shared, requested, writer_limits(settings), self._folder(), self._progress),
            *(settings.failover_seconds, self._address, self._erase_shown, lambda: self.impressions.bytes),
        )

    def _as_forwarder(self, replica: Replica) -> Forwarder:
        seconds = self.settings.forward_seconds
        return Forwarder(lambda: replica.writes, lambda: replica.writer_address, lambda: replica.changed, seconds)

    def _address(self, sharing: Sharing) -> str:
        """Return the address at which other replicas reach this one."""
        settings = self.settings
        host = sharing.local_address() if is_every(settings.host) else settings.host
        return settings.announce or joined(host, self._port)

    async def _sample(self) -> None:
        while True:
            try:
                self.live_samples.sample()
            except Exception as error:  # only the curves of the dashboard miss a sample
                log.error("no sample could be taken", exc_info=error)
            await asyncio.sleep(1)

    async def changes(self) -> Changes:
        """Return an earlier copy of the parameters. A copy older than a window is returned once more, then replaced."""
        async with self._comparing:
            before, window = self._changes, self.learner.evaluation.window
            if before is not None and self.recommender.events - before.events <= window:
                return before
            now = self._changes = await in_turns(self.recommender.inspection.changes_in_steps())
            return before or now

    def _folder(self) -> Path:
        """Return the folder for new snapshots: with SQLite the log's, so that a rename publishes them."""
        if self.settings.store is None:
            assert self.settings.data is not None
            return self.settings.data
        return private_folder(f"coldstream-{blake2b(self.settings.store.encode(), digest_size=8).hexdigest()}")
