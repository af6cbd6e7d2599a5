"""The store in a thread of its own, where a commit waits for the disk, and what came of what it was asked for."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeVar

from coldstream.errors import StoreDamaged, StoreInUse, StoreMovedOn
from coldstream.runtime.snapshots import NOT_NOW, RETRY_AFTER
from coldstream.storage.store import LogLine, Store

QUIET = 2 * RETRY_AFTER
"""Seconds without a failure of what is done in the background: longer than between two tries."""


class StoreHealth:
    """After a failure the store is said to work only when something was written again."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self.owes_proof = False
        """Whether something failed since something was written."""
        self._now, self._quiet_from = now, 0.0
        self._ails = False

    @property
    def works(self) -> bool:
        """Whether what was asked last was done, and in the background everything lately."""
        return not self.owes_proof and self._now() >= self._quiet_from

    def failed(self) -> None:
        """Something was not done."""
        self.owes_proof = self._ails = True

    def failed_in_background(self) -> None:
        """Something was not done that is tried again before long, whatever else is written meanwhile."""
        self.failed()
        self._quiet_from = self._now() + QUIET

    def wrote(self) -> None:
        """Something was written."""
        self.owes_proof = False

    def recovered(self) -> bool:
        """Whether it works again; it is told once."""
        again = self._ails and self.works
        self._ails = self._ails and not again
        return again


Answer = TypeVar("Answer")


class StoreThread:
    """Does what it is asked for one after the other. `alert` hears at once of what ends whoever writes."""

    def __init__(self, store: Store, can_give_way: bool, alert: Callable[[], None]) -> None:
        self.health = StoreHealth()
        self.is_behind = False
        """Whether the log may have lines that are not known here: after a failure nobody can say what was written."""
        self.is_lost = False
        """Whether another process has the right to write, and this one gives way."""
        self.damage: StoreDamaged | None = None
        """Damage that was found: nothing may be written any more."""
        self._store, self._can_give_way, self._alert = store, can_give_way, alert
        self._thread = ThreadPoolExecutor(1, "store")

    async def done(self, action: Callable[[], Answer]) -> Answer:
        """The answer of something that is asked of the store."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, action)
        except NOT_NOW as error:
            if not isinstance(error, StoreMovedOn):
                self.health.failed()
            self.is_behind = (
                True  # whatever failed: the right to write may have been lost with it, and others may have had it
            )
            if isinstance(error, StoreInUse) and self._can_give_way:
                self.is_lost = True
                self._alert()
            raise
        except StoreDamaged as error:
            self.damage = error  # whoever asked
            self._alert()
            raise

    async def done_in_background(self, action: Callable[[], Answer]) -> Answer:
        """The same for what is tried again before long, whatever else is written meanwhile."""
        try:
            return await self.done(action)
        except NOT_NOW as error:
            if not isinstance(error, StoreMovedOn):
                self.health.failed_in_background()
            raise

    async def append(self, lines: Sequence[LogLine], after: int) -> list[int | None]:
        """Make lines durable behind a position."""
        positions = await self.done(lambda: self._store.append(lines, after))
        self.health.wrote()
        return positions

    async def can_write(self) -> bool:
        """Whether anything can be written. Nobody may write for long: after a failure it is tried."""
        if self.health.owes_proof:
            try:
                await self.done(self._store.touch)
            except NOT_NOW:
                return False
            self.health.wrote()
        return True

    async def close(self) -> None:
        """Give the store back."""
        await self.done(self._store.close)
        self._thread.shutdown()
