"""Failover: a replica follows the writer of a shared store, and becomes the writer when that one is gone.

The writer sends heartbeats through the store. A follower that sees no heartbeat for long enough, or no holder of the right
to write, takes that right, learns the rest of the log, and writes. A writer that lost the right to another process follows.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from coldstream.errors import Interrupted, InvalidInput, StoreInUse, StoreUnavailable
from coldstream.runtime.erasure.erasures import EraseBeside, nothing_beside
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.recovery import RequestedModel, check_requested, followed, recovered, take_up
from coldstream.runtime.replication.follower import Follower
from coldstream.runtime.replication.progress import Progress
from coldstream.runtime.snapshots import NOT_NOW
from coldstream.runtime.writing.writer import Writer
from coldstream.storage.sharing import News, Shared, Sharing
from coldstream.storage.store import ClaimedStore

LONGEST_BLINK = 1.0
"""The most seconds between two looks that count as the writer's silence.

A process that was suspended itself cannot tell whether the writer was silent for longer.
"""


class Watch:
    """A failure detector: declares the writer gone after `patience` seconds without a heartbeat, or if its lock is free."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._seen: tuple[int, int] | None = None
        self._looked: float | None = None
        self._silent = 0.0

    def begin(self) -> None:
        """Start over with the present writer."""
        self._seen = self._looked = None
        self._silent = 0.0

    def is_due(self, now: float, every: float) -> bool:
        """Return whether `every` seconds have passed between the last look and the time `now`, or there was no look yet."""
        return self._looked is None or now - self._looked >= every

    def is_gone(self, news: News, now: float) -> bool:
        """Take in news of the writer at the time `now`, and return whether the writer is gone."""
        passed = 0.0 if self._looked is None else min(now - self._looked, LONGEST_BLINK)
        self._looked = now
        seen = (news.epoch, news.beat)
        self._silent = self._silent + passed if seen == self._seen else 0.0
        self._seen = seen
        return not news.held or self._silent >= self._patience


log = logging.getLogger(__name__)

BEAT_EVERY = 0.5
"""Seconds between two heartbeats of the writer."""

LOOK_EVERY = 0.25
"""Seconds between two looks of a follower at the writer's state."""

UNSEATED = 2.0
"""Seconds that a process which ended a writer's session waits for its lock."""

LONGEST_BEGINNING = 60.0
"""Seconds that a starting process waits for another one to begin the log or to change its learning rule."""

Answer = TypeVar("Answer")


class Replica:
    """A process on a shared store, with its present role as writer or follower and the changes between them."""

    def __init__(
        self,
        shared: Shared,
        requested: RequestedModel,
        limits: WriterLimits,
        folder: Path,
        progress: Progress,
        failover: float,
        address: Callable[[Sharing], str],
        erase_beside: EraseBeside = nothing_beside,
        bytes_beside: Callable[[], int] = lambda: 0,
    ) -> None:
        self.current: Writer | Follower | None = None
        """The writer or follower that runs in this process; None before `start`."""
        self.news: News | None = None
        """The state of the store and its writer at the last look."""
        self.changed = asyncio.Event()
        """An event that is set when the writer or its address changes; a new event replaces it at once."""
        self._shared, self._requested, self._limits = shared, requested, limits
        self._folder, self._progress = folder, progress
        self._address, self._beside = address, (erase_beside, bytes_beside)
        self._sharing: Sharing | None = None
        self._thread = ThreadPoolExecutor(1, "sharing")
        self._watch = Watch(failover)
        self._claimed: ClaimedStore | None = None
        self._lost, self._changing = asyncio.Event(), asyncio.Lock()
        self._leaving = self._stopping = False
        self._failed: Callable[[], None] = lambda: None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def writes(self) -> bool:
        """Whether this process is the writer and accepts records."""
        return isinstance(self.current, Writer) and not self.current.resigned

    @property
    def writer_address(self) -> str | None:
        """The address of the writer, or None where it is not known."""
        return None if self.news is None else self.news.address

    # Life cycle

    async def begin(self, unwanted: Callable[[], bool]) -> Learner:
        """Recover the learner from the store, after taking the right to write if no other process has it.

        Raises `Interrupted` once `unwanted` returns True.
        """
        store = await asyncio.to_thread(self._opened, unwanted)
        self._sharing = self._shared.sharing()
        self._tasks.append(asyncio.create_task(self._beat()))
        if not isinstance(store, ClaimedStore):
            return await asyncio.to_thread(self._anew, unwanted)
        self._claimed = store
        return await asyncio.to_thread(recovered, store, self._requested, unwanted)

    async def start(self, learner: Learner, failed: Callable[[], None]) -> None:
        """Start to write or to follow. `failed` is called if the writer or the follower ends because of an error."""
        self._failed = failed
        if self._claimed is None:
            await self._follow(learner)
        else:
            await self._lead(self._claimed, learner)
        self._tasks.append(asyncio.create_task(self._run()))

    async def hand_over(self) -> None:
        """Hand the right to write over to a follower, if there is one. From now on this process never takes it again."""
        self._leaving = True
        async with self._changing:
            writer = self.current
            if not isinstance(writer, Writer):
                return
            with suppress(StoreUnavailable):
                self.news = await self._in_sharing(lambda sharing: sharing.look())
                if self.news.followed:
                    await self._step_down(writer, writer.hand_over)
                    log.info("handed over", extra={"position": writer.learner.position})

    async def stop(self) -> None:
        """Write and learn all accepted records, take a snapshot if no other process continues, and close the store."""
        self._leaving = self._stopping = True
        async with self._changing:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if isinstance(self.current, Writer):
            if not self.current.resigned:
                await self.current.stop()
        elif self.current is not None and not self.current.stopped:
            if self.news is not None and not self.news.held and self.current.failed is None:
                await self.current.finish()
            await self.current.stop()
        elif self._claimed is not None:
            await asyncio.to_thread(self._claimed.close)
        if self._sharing is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._sharing.close)
        self._thread.shutdown()

    # Background tasks

    async def _run(self) -> None:
        while True:
            try:
                if isinstance(self.current, Follower):
                    await self._watch_writer(self.current)
                elif isinstance(self.current, Writer):
                    await self._write_on(self.current)
            except NOT_NOW as error:
                log.warning("the store cannot be asked who writes", extra={"reason": str(error)})
                await asyncio.sleep(LOOK_EVERY)
            except Exception as error:
                log.critical("the role of this process is not clear any more", exc_info=error)
                self.current.failed = error  # type: ignore[union-attr]
                self._failed()
                return

    async def _watch_writer(self, follower: Follower) -> None:
        if follower.stopped:  # a takeover failed after the follower was stopped
            await self._follow(follower.learner)
            return
        heard = await self._in_sharing(lambda sharing: sharing.wait(LOOK_EVERY))
        if heard:
            follower.notice(heard)
            if not self._watch.is_due(monotonic(), LOOK_EVERY):
                return
        news = await self._in_sharing(lambda sharing: sharing.look())
        self._note(news)
        follower.notice(news.last)
        if self._leaving:
            if follower.takes_snapshots:
                follower.takes_snapshots = False
                await self._in_sharing(lambda sharing: sharing.give_up_duty())
            return
        if follower.takes_snapshots != (duty := await self._in_sharing(lambda sharing: sharing.take_duty())):
            follower.takes_snapshots = duty
            await follower.snapshots.look_again()
        if self._watch.is_gone(news, monotonic()):
            async with self._changing:
                if not self._leaving:
                    await self._take_over(follower, news)

    async def _write_on(self, writer: Writer) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._lost.wait(), BEAT_EVERY)
        async with self._changing:
            if self.current is not writer:
                return
            if writer.resigned:  # stepping down failed because the store was unavailable
                await self._follow(writer.learner)
                return
            if self._lost.is_set():
                self._lost.clear()
                await self._step_down(writer, writer.resign)
                return
            self._note(news := await self._in_sharing(lambda sharing: sharing.look()))
            store = self._claimed
            if store is not None and news.epoch == store.epoch and news.address is None:
                await self._announce(store)  # its session was lost, and it regained the right to write
            writer.followed = news.followed
            if news.followed:
                await writer.snapshots.look_again()

    async def _beat(self) -> None:
        """Send heartbeats as long as this process has the right to write."""
        missed = 0
        while True:
            store = self._claimed
            if store is not None:
                with suppress(StoreUnavailable):
                    # One miss is tolerated: the store may just be taking the right again, which begins another epoch.
                    its_turn = await self._in_sharing(partial(_beat, store.epoch))
                    missed = 0 if its_turn else missed + 1
                if missed > 1 and store is self._claimed:
                    missed = 0
                    self._lost.set()
            await asyncio.sleep(BEAT_EVERY if not missed else BEAT_EVERY / 5)

    # Role changes

    async def _take_over(self, follower: Follower, news: News) -> None:
        """Become the writer, unless another process is quicker."""
        if news.held and not await self._in_sharing(lambda sharing: sharing.unseat(news.epoch)):
            return
        try:
            store = await asyncio.to_thread(self._taken, UNSEATED if news.held else 0.0)
        except StoreInUse:
            return
        self._claimed = store
        self._lost.clear()
        try:
            await follower.catch_up()
            await self._in_sharing(lambda sharing: sharing.give_up_duty())
            await follower.stop()
            await self._lead(store, follower.learner)
        except BaseException:
            if self.current is follower:
                self._claimed = None
                await asyncio.to_thread(store.close)
            raise
        log.warning("this process writes now", extra={"epoch": store.epoch, "position": follower.learner.position})

    async def _lead(self, store: ClaimedStore, learner: Learner) -> None:
        writer = Writer(store, learner, self._limits, self._folder, self._progress, self._lost.set, *self._beside)
        if self.current is not None:  # at the start of the process, `recovered` has done this
            await asyncio.to_thread(self._take_up, store, learner)
        await writer.start(self._failed)
        self.current = writer
        await self._announce(store)

    def _taken(self, patience: float) -> ClaimedStore:
        """Return the store with the right to write, which a session that was ended may hold for a moment longer."""
        until = monotonic() + patience
        while True:
            try:
                return self._shared.claimed()
            except StoreInUse:
                if monotonic() > until:
                    raise

    def _take_up(self, store: ClaimedStore, learner: Learner) -> None:
        try:
            check_requested(self._requested, learner)
            take_up(store, self._requested, learner)
        except InvalidInput as error:
            log.warning("the settings of this process are not those of the log any more", extra={"reason": str(error)})

    async def _announce(self, store: ClaimedStore) -> None:
        await self._in_sharing(lambda sharing: sharing.announce(store.epoch, self._address(sharing)))
        self._note(await self._in_sharing(lambda sharing: sharing.look()))

    async def _follow(self, learner: Learner) -> None:
        store = await asyncio.to_thread(self._shared.followed)
        anew = partial(self._anew, lambda: self._stopping)
        follower = Follower(store, learner, self._limits, self._folder, self._progress, anew)
        await follower.start(self._failed)
        self._watch.begin()
        self.current = follower

    async def _step_down(self, writer: Writer, leave: Callable[[], object]) -> None:
        """Give up the right to write with `leave`, and follow the new writer."""
        store, self._claimed = self._claimed, None
        leaving = leave()
        assert asyncio.iscoroutine(leaving)
        await leaving
        if writer.failed is not None:
            self._failed()
            return
        if store is not None:
            with suppress(StoreUnavailable):
                await self._in_sharing(lambda sharing: sharing.announce(store.epoch, None))
        await self._follow(writer.learner)
        log.warning("this process follows now", extra={"position": writer.learner.position})

    # Start

    def _opened(self, unwanted: Callable[[], bool]) -> ClaimedStore | None:
        """Return the store with the right to write, or None where another process writes or follows."""
        until = monotonic() + LONGEST_BEGINNING
        while True:
            if unwanted():
                raise Interrupted("stopped before it was ready")
            there = self._shared.is_there()
            if there and self._is_served():
                return None
            try:
                return self._shared.claimed()
            except StoreInUse:
                if there:
                    return None
                if monotonic() > until:
                    raise
            sleep(LOOK_EVERY)

    def _is_served(self) -> bool:
        """Return whether a follower is there, which is further ahead than a process that has only just started."""
        sharing = self._shared.sharing()
        try:
            return sharing.look().followed
        finally:
            sharing.close()

    def _anew(self, unwanted: Callable[[], bool]) -> Learner:
        """Recover the learner of the log to which another process writes."""
        until = monotonic() + LONGEST_BEGINNING
        store = self._shared.followed()
        try:
            while True:
                try:
                    return followed(store, self._requested, unwanted)
                except StoreUnavailable:
                    if monotonic() > until:
                        raise
                sleep(LOOK_EVERY)
        finally:
            store.close()

    def _note(self, news: News) -> None:
        before, self.news = self.news, news
        if before is None or (before.epoch, before.address) != (news.epoch, news.address):
            self.changed.set()
            self.changed = asyncio.Event()

    async def _in_sharing(self, action: Callable[[Sharing], Answer]) -> Answer:
        sharing = self._sharing
        assert sharing is not None
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: action(sharing))


def _beat(epoch: int, sharing: Sharing) -> bool:
    return sharing.beat(epoch)
