"""One of several processes on one store: it follows the one that writes, and takes its place when that is gone.

Whoever writes beats; a follower that sees neither a beat nor anybody with the right to write takes the right, learns what is
left of the log, and writes. A writer that finds another in its place follows it.
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
"""Seconds between two looks that count at most: whoever was stopped itself has not seen that a writer was silent."""


class Watch:
    """Looks at a writer again and again. The time is passed in."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._seen: tuple[int, int] | None = None
        self._looked: float | None = None
        self._silent = 0.0

    def begin(self) -> None:
        """Begin anew, with whoever writes now."""
        self._seen = self._looked = None
        self._silent = 0.0

    def is_due(self, now: float, every: float) -> bool:
        """Whether it is time for another look."""
        return self._looked is None or now - self._looked >= every

    def is_gone(self, news: News, now: float) -> bool:
        """Whether the writer is gone, by what was seen so far."""
        passed = 0.0 if self._looked is None else min(now - self._looked, LONGEST_BLINK)
        self._looked = now
        seen = (news.epoch, news.beat)
        self._silent = self._silent + passed if seen == self._seen else 0.0
        self._seen = seen
        return not news.held or self._silent >= self._patience


log = logging.getLogger(__name__)

BEAT_EVERY = 0.5
"""Seconds between two signs of life."""

LOOK_EVERY = 0.25
"""Seconds after which a follower looks at how the writer is."""

UNSEATED = 2.0
"""Seconds that whoever ended a writer's session waits for its lock."""

LONGEST_BEGINNING = 60.0
"""Seconds that a start waits for another process that is about to begin the log, or to change its rule."""

Answer = TypeVar("Answer")


class Replica:
    """Holds the role that this process has, and changes it."""

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
        self.news: News | None = None
        """How the store and its writer stood when they were looked at last."""
        self.changed = asyncio.Event()
        """Set, and at once taken back, whenever another writes, or says where it is reached."""
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
        """Whether this process takes what is written."""
        return isinstance(self.current, Writer) and not self.current.resigned

    @property
    def writer_address(self) -> str | None:
        """Where the writer is reached, as far as is known."""
        return None if self.news is None else self.news.address

    # Its life

    async def begin(self, unwanted: Callable[[], bool]) -> Learner:
        """Take the right to write if nobody has it, or else begin to follow; the learner that the log leads to."""
        store = await asyncio.to_thread(self._opened, unwanted)
        self._sharing = self._shared.sharing()
        self._tasks.append(asyncio.create_task(self._beat()))
        if not isinstance(store, ClaimedStore):
            return await asyncio.to_thread(self._anew, unwanted)
        self._claimed = store
        return await asyncio.to_thread(recovered, store, self._requested, unwanted)

    async def start(self, learner: Learner, failed: Callable[[], None]) -> None:
        """Begin to write or to follow. `failed` hears of the end where nobody asked for it."""
        self._failed = failed
        if self._claimed is None:
            await self._follow(learner)
        else:
            await self._lead(self._claimed, learner)
        self._tasks.append(asyncio.create_task(self._run()))

    async def hand_over(self) -> None:
        """Let a follower write, if there is one; from now on this process only follows, until it stops."""
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
        """Finish what was accepted, take a snapshot where nobody else goes on, and give the store back."""
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

    # What it does all the time

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
        if follower.stopped:  # it was about to write, and could not
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
            if writer.resigned:  # the store was away when it was about to follow
                await self._follow(writer.learner)
                return
            if self._lost.is_set():
                self._lost.clear()
                await self._step_down(writer, writer.resign)
                return
            self._note(news := await self._in_sharing(lambda sharing: sharing.look()))
            store = self._claimed
            if store is not None and news.epoch == store.epoch and news.address is None:
                await self._announce(store)  # its session was lost, and the right had again before anybody else had it
            writer.followed = news.followed
            if news.followed:
                await writer.snapshots.look_again()

    async def _beat(self) -> None:
        """Show that this process is alive as long as it has the right to write."""
        missed = 0
        while True:
            store = self._claimed
            if store is not None:
                with suppress(StoreUnavailable):
                    # Once may be while the store takes the right again, which begins another epoch.
                    its_turn = await self._in_sharing(partial(_beat, store.epoch))
                    missed = 0 if its_turn else missed + 1
                if missed > 1 and store is self._claimed:
                    missed = 0
                    self._lost.set()
            await asyncio.sleep(BEAT_EVERY if not missed else BEAT_EVERY / 5)

    # Changes of the role

    async def _take_over(self, follower: Follower, news: News) -> None:
        """Become the writer, unless another is quicker."""
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
        if self.current is not None:  # at a start it was done when the log was read
            await asyncio.to_thread(self._take_up, store, learner)
        await writer.start(self._failed)
        self.current = writer
        await self._announce(store)

    def _taken(self, patience: float) -> ClaimedStore:
        """The store with the right to write. A session that was ended may hold it for a moment."""
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
        """Follow whoever writes now."""
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

    # At the beginning

    def _opened(self, unwanted: Callable[[], bool]) -> ClaimedStore | None:
        """The store with the right to write; None where it can be followed."""
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
        """Whether some follower is there: it knows more than a process that has only just begun."""
        sharing = self._shared.sharing()
        try:
            return sharing.look().followed
        finally:
            sharing.close()

    def _anew(self, unwanted: Callable[[], bool]) -> Learner:
        """The learner that the log leads to, which another writes to."""
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
