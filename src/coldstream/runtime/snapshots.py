"""When snapshots are taken, and how many are kept."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import Protocol, TypeVar

from coldstream.errors import StoreDamaged, StoreInUse, StoreUnavailable
from coldstream.runtime.learner import Learner, State, save
from coldstream.storage.store import Saved, Store

log = logging.getLogger(__name__)

KEPT = 2
"""Snapshots that are kept: should the newest be damaged, there is one before."""

Answer = TypeVar("Answer")

RETRY_AFTER = 10.0
"""Seconds that a full disk is given before the next try."""

NOT_NOW = (StoreUnavailable, StoreInUse)
"""What goes over: a full disk, a server that is down."""


class InStore(Protocol):
    """Runs an action in the store's thread."""

    def __call__(self, action: Callable[[], Answer], /) -> Awaitable[Answer]:
        """The action's answer."""


class Snapshots:
    """Takes one at a time, while others go on reading and learning: only copying what is known makes them wait."""

    def __init__(self, store: Store, in_store: InStore, folder: Path) -> None:
        self.newest: Saved | None = None
        self.pause = 0.0
        """Seconds for which the last one held everybody up."""
        self._store, self._in_store, self._folder = store, in_store, folder
        self._useless: Sequence[Saved] = ()
        self._lock = asyncio.Lock()
        self._taken, self._not_before = monotonic(), 0.0
        self._background: asyncio.Task[None] | None = None

    async def look(self, useless: Sequence[Saved]) -> None:
        """Find out what the store has besides the useless, and clear away what a killed process left half-written."""
        for left in self._folder.glob(".*taking.snapshot*"):
            left.unlink()
        self._useless = useless
        self.newest = next(iter(await self._whole()), None)

    @property
    def seconds_ago(self) -> float:
        """How long ago the newest was taken, or this process was started."""
        return monotonic() - self._taken

    async def take(self, learner: Learner) -> Saved:
        """Take a snapshot now, and keep the last two."""
        async with self._lock:
            saved = await self._save(self._copied(learner), learner.position)
            for old in (*self._useless, *(await self._whole())[KEPT:]):
                await self._in_store(partial(self._store.discard, old))
            self._useless = ()
            return saved

    def begin_if_due(self, learner: Learner, lines: int, seconds: float) -> None:
        """Begin a snapshot in the background after so many lines, or after so long if there was any; 0 is never."""
        behind = learner.position - (0 if self.newest is None else self.newest.position)
        due = (lines and behind >= lines) or (seconds and behind and monotonic() - self._taken >= seconds)
        if due and self._background is None and monotonic() >= self._not_before:
            self._background = asyncio.create_task(self._try_to_take(learner))

    async def replace(self, learner: Learner) -> int:
        """Take new snapshots in place of all that there are; the position that they know.

        Two are taken, because those before go, and one alone could be damaged.
        """
        async with self._lock:
            before = await self._in_store(self._store.snapshots)
            state, position = self._copied(learner), learner.position
            for _ in range(KEPT):
                await self._save(state, position)
            for old in before:
                await self._in_store(partial(self._store.discard, old))
            self._useless = ()
            return position

    async def oldest_kept(self) -> int:
        """The position before which no snapshot needs a line; 0 while there are fewer than are kept."""
        kept = (await self._whole())[:KEPT]
        return min(saved.position for saved in kept) if len(kept) == KEPT else 0

    async def finish(self, learner: Learner) -> None:
        """The last one, if anything was learned since the newest."""
        if self._background is not None:
            await self._background
        if self.newest is None or self.newest.position < learner.position:
            await self.take(learner)

    async def _whole(self) -> list[Saved]:
        return [saved for saved in await self._in_store(self._store.snapshots) if saved not in self._useless]

    async def _try_to_take(self, learner: Learner) -> None:
        try:
            await self.take(learner)
        except (*NOT_NOW, StoreDamaged) as error:
            self._not_before = monotonic() + RETRY_AFTER
            log.warning("no snapshot could be taken; it will be tried again", extra={"reason": str(error)})
        finally:
            self._background = None

    def _copied(self, learner: Learner) -> State:
        started = perf_counter()
        state = learner.state()
        self.pause = perf_counter() - started
        return state

    async def _save(self, state: State, position: int) -> Saved:
        started, file = perf_counter(), self._folder / ".taking.snapshot"
        try:
            await asyncio.to_thread(save, file, state)
        except OSError as error:
            raise StoreUnavailable(f"the snapshot cannot be written ({error}); make room, and it is tried again") from error
        saved = self.newest = await self._in_store(partial(self._store.save, position, file))
        facts = {"position": position, "pause": round(self.pause, 4), "seconds": round(perf_counter() - started, 3)}
        log.info("a snapshot was taken", extra=facts)
        self._taken = monotonic()
        return saved
