"""The follower: a replica that reads the lines which the writer appends to the log, learns them, and holds the same bits.

As in the writer, all code that touches the learner runs on the event loop, and the store has a thread of its own.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import NamedTuple, TypeVar

from coldstream.errors import StoreUnavailable
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import Record, record_of
from coldstream.runtime.replication.progress import Progress
from coldstream.runtime.replication.roles import Lag, Role
from coldstream.runtime.snapshots import NOT_NOW, Snapshots
from coldstream.runtime.writing.live_learning import LiveLearning
from coldstream.storage.log_pages import PAGE
from coldstream.storage.sharing import Followed
from coldstream.storage.store import Saved
from coldstream.storage.view import View

log = logging.getLogger(__name__)

READ_EVERY = 0.5
"""Seconds after which the log is read without a notification of new lines."""

Answer = TypeVar("Answer")


class _Page(NamedTuple):
    lines: list[tuple[int, Record]]
    base: int
    last: int


class Follower:
    """A process that learns the lines of another process's log until it is stopped."""

    role = Role.FOLLOWER
    waiting = commits = 0
    """The counterparts of the writer's figures, always 0 because a follower writes no records."""

    def __init__(
        self,
        store: Followed,
        learner: Learner,
        limits: WriterLimits,
        folder: Path,
        progress: Progress,
        anew: Callable[[], Learner],
    ) -> None:
        self.learner = learner
        self.failed: BaseException | None = None
        """The error that ended the follower; None while it runs or after a regular stop."""
        self.store_works = True
        """Whether the last call of the store succeeded."""
        self.takes_snapshots = False
        """Whether it is this follower's duty to take snapshots."""
        self.snapshots = Snapshots(store, self._in_store, folder)
        self._store, self._limits, self._progress, self._anew = store, limits, progress, anew
        self._learning = LiveLearning(learner, limits.evaluation_share, progress)
        self._thread = ThreadPoolExecutor(1, "store")
        self._wake, self._stopping = asyncio.Event(), False
        self._last, self._level = learner.position, monotonic()
        self._reading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def lag(self) -> Lag:
        """The present lag behind the log."""
        lines = max(0, self._last - self.learner.position)
        late = monotonic() - self._level
        return Lag(lines, late if lines or not self.store_works or late > 2 * READ_EVERY else 0.0)

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    def notice(self, last: int) -> None:
        """Note that the log extends to the position `last`, and wake the reading if lines are missing."""
        self._last = max(self._last, last)
        if self._last > self.learner.position:
            self._wake.set()

    async def start(self, failed: Callable[[], None]) -> None:
        """Start to follow. `failed` is called if the follower ends because of an error."""
        await self.snapshots.look(self.learner)
        self._task = asyncio.create_task(self._run(failed))

    async def snapshot(self) -> Saved:
        """Take a snapshot now."""
        return await self.snapshots.take(self.learner)

    async def catch_up(self) -> None:
        """Learn all lines that the log has now."""
        async with self._reading:
            while await self._read():
                pass

    async def finish(self) -> None:
        """Take a last snapshot, for a shutdown in which no other process continues. A failure is only logged."""
        try:
            await self.snapshots.finish(self.learner)
        except NOT_NOW as error:
            log.warning("no last snapshot; the log will be replayed", extra={"reason": str(error)})

    async def stop(self) -> None:
        """Stop reading and close the store."""
        self._stopping = True
        self._wake.set()
        await self.snapshots.give_up()
        if self._task is not None:
            await self._task
        await self._in_store(self._store.close)
        self._thread.shutdown()

    async def _run(self, failed: Callable[[], None]) -> None:
        try:
            while not self._stopping:
                self._wake.clear()
                with suppress(*NOT_NOW):
                    async with self._reading:
                        while not self._stopping and await self._read():
                            pass
                if self.takes_snapshots:
                    self.snapshots.begin_if_due(self.learner, self._limits.snapshot_lines, self._limits.snapshot_seconds)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), READ_EVERY)
        except Exception as error:  # a line may be half applied, so only a restart gives a state known to be right
            self.failed = error
            log.critical("the log cannot be followed any further", exc_info=error)
            failed()

    async def _read(self) -> bool:
        """Learn the next page of lines, and return whether there may be more."""
        begun, after = monotonic(), self.learner.position
        page = await self._in_store(partial(_page, self._store, after))
        if page.base > after:
            await self._begin_anew()
            return True
        self._last = max(self._last, page.last)
        self._learning.begin()
        await self._learning.learn(page.lines)
        if self.learner.position >= page.last:
            self._level = begun
        return self.learner.position < self._last and bool(page.lines)

    async def _begin_anew(self) -> None:
        """Reload from a snapshot, because lines were erased or deleted before they were learned here."""
        log.warning("lines were erased before they were learned here", extra={"position": self.learner.position})
        curves = self.learner.curves
        self.learner = await self._in_store(self._anew)
        self.learner.curves = curves
        self._learning = LiveLearning(self.learner, self._limits.evaluation_share, self._progress)
        self._progress.reached(self.learner.position)
        await self.snapshots.look(self.learner)

    async def _in_store(self, action: Callable[[], Answer]) -> Answer:
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._thread, action)
        except StoreUnavailable:
            self.store_works = False
            raise
        self.store_works = True
        return answer


def _page(store: View, after: int) -> _Page:
    """Return the next page of lines. The base is read last, so that an erasure during the reading is noticed."""
    last = store.last()
    lines = [(entry.position, record_of(entry)) for entry in islice(store.read(after), PAGE)] if last > after else []
    return _Page(lines, store.base(), last)
