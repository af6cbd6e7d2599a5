"""The thread in which the writer calls its store, because commits wait for the disk, and the health of the store."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeVar

from coldstream.errors import StoreDamaged, StoreInUse, StoreMovedOn
from coldstream.runtime.snapshots import NOT_NOW, RETRY_AFTER
from coldstream.storage.store import LogLine, Store

QUIET = 2 * RETRY_AFTER
"""Seconds after a failure in the background until the store counts as healthy: longer than the time between two retries."""


class StoreHealth:
    """The health of a store: after a failure, it counts as working only once a write has succeeded."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self.owes_proof = False
        """Whether a call failed since the last successful write."""
        self._now, self._quiet_from = now, 0.0
        self._ails = False

    @property
    def works(self) -> bool:
        """Whether no call failed since the last successful write, and no background work within `QUIET` seconds."""
        return not self.owes_proof and self._now() >= self._quiet_from

    def failed(self) -> None:
        """Note that a call failed."""
        self.owes_proof = self._ails = True

    def failed_in_background(self) -> None:
        """Note that background work failed, which counts for `QUIET` seconds even if writes succeed meanwhile."""
        self.failed()
        self._quiet_from = self._now() + QUIET

    def wrote(self) -> None:
        """Note that a write succeeded."""
        self.owes_proof = False

    def recovered(self) -> bool:
        """Return True once after a failure, when the store works again."""
        again = self._ails and self.works
        self._ails = self._ails and not again
        return again


Answer = TypeVar("Answer")


class StoreThread:
    """A thread that runs the calls of a store one after the other.

    `alert` is called at once when the writer must end: when the store is damaged, or, if `can_give_way` is set, when another
    process has the right to write.
    """

    def __init__(self, store: Store, can_give_way: bool, alert: Callable[[], None]) -> None:
        self.health = StoreHealth()
        self.is_behind = False
        """Whether the log may have lines that are not known here, because after a failure it is unclear what was written."""
        self.is_lost = False
        """Whether another process has the right to write, so that this one must stop writing."""
        self.damage: StoreDamaged | None = None
        """The damage that was found in the store, after which nothing may be written; None while there is none."""
        self._store, self._can_give_way, self._alert = store, can_give_way, alert
        self._thread = ThreadPoolExecutor(1, "store")

    async def done(self, action: Callable[[], Answer]) -> Answer:
        """Run a call of the store, and return its answer; its errors are noted and raised."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, action)
        except NOT_NOW as error:
            if not isinstance(error, StoreMovedOn):
                self.health.failed()
            self.is_behind = (
                True  # whichever call failed: this process may have lost the right to write, and others may have written
            )
            if isinstance(error, StoreInUse) and self._can_give_way:
                self.is_lost = True
                self._alert()
            raise
        except StoreDamaged as error:
            self.damage = error  # noted here, because any caller may be the one that finds it
            self._alert()
            raise

    async def done_in_background(self, action: Callable[[], Answer]) -> Answer:
        """Run a call of background work that is retried after a failure, and return its answer."""
        try:
            return await self.done(action)
        except NOT_NOW as error:
            if not isinstance(error, StoreMovedOn):
                self.health.failed_in_background()
            raise

    async def append(self, lines: Sequence[LogLine], after: int) -> list[int | None]:
        """Append lines to the log after a position, and return their positions once they are durable."""
        positions = await self.done(lambda: self._store.append(lines, after))
        self.health.wrote()
        return positions

    async def can_write(self) -> bool:
        """Return whether the store can be written to; after a failure, test it, as no record may arrive for long."""
        if self.health.owes_proof:
            try:
                await self.done(self._store.touch)
            except NOT_NOW:
                return False
            self.health.wrote()
        return True

    async def close(self) -> None:
        """Close the store, and end the thread."""
        await self.done(self._store.close)
        self._thread.shutdown()
