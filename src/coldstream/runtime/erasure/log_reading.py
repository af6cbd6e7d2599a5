"""Background reading of the log, page by page in the store's thread, so that the writer's commits run in between."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import islice
from time import perf_counter

from coldstream.errors import Interrupted
from coldstream.runtime.records import Record, record_of
from coldstream.runtime.snapshots import InStore
from coldstream.runtime.turns import in_slices
from coldstream.storage.log_pages import PAGE
from coldstream.storage.store import Store
from coldstream.support.steps import Answer, Steps

SHARE = 0.5
"""The largest fraction of the store thread's time that reading may take, so that commits are hardly delayed."""

LOOKED_THROUGH = 100_000
"""The number of lines that the store searches in one call."""

Line = tuple[int, Record]
"""A position of the log and the record there."""


class LogReading:
    """A reader of the log that yields to other work. Its methods raise `Interrupted` once `unwanted` returns True."""

    def __init__(self, store: Store, in_store: InStore, unwanted: Callable[[], bool]) -> None:
        self._store, self._in_store, self._unwanted = store, in_store, unwanted

    async def page(self, after: int) -> list[Line]:
        """Return the first page of lines after a position."""
        lines, _ = await self._in_store(partial(_page, self._store, after))
        return lines

    async def pages(self, after: int, until: int) -> AsyncIterator[list[Line]]:
        """Yield the lines after a position up to another, page by page, with pauses that keep within `SHARE`."""
        while after < until:
            lines, seconds = await self._in_store(partial(_page, self._store, after))
            if not lines:
                return
            yield [line for line in lines if line[0] <= until]
            after = lines[-1][0]
            await self.pause(seconds * (1 / SHARE - 1))

    async def pages_backwards(self, until: int, after: int) -> AsyncIterator[list[Line]]:
        """Yield the lines up to a position and after another, the last first, with pauses that keep within `SHARE`."""
        while until > after:
            start = max(after, until - PAGE)
            lines, seconds = await self._in_store(partial(_page, self._store, start, until))
            yield lines[::-1]
            until = start
            await self.pause(seconds * (1 / SHARE - 1))

    async def has_lines(self, user: str, until: int) -> bool:
        """Return whether the log has lines of a user up to a position, or the store keeps claims of the user."""
        if any(line.user == user for line in await self._in_store(self._store.kept)):
            return True
        for start in range(await self._in_store(self._store.cut), until, LOOKED_THROUGH):
            if await self._in_store(partial(self._store.has_lines, user, start, min(start + LOOKED_THROUGH, until))):
                return True
            await self.pause(0)
        return False

    async def done(self, steps: Steps[Answer]) -> Answer:
        """Run work in steps on the event loop, and return its answer."""
        return await in_slices(steps, lambda: self.pause(0))

    async def done_in_store(self, steps: Iterator[None]) -> None:
        """Run work in steps in the store's thread."""
        while await self._in_store(lambda: next(steps, self) is None):
            await self.pause(0)

    async def pause(self, seconds: float) -> None:
        """Sleep, or raise `Interrupted` if the work is unwanted."""
        if self._unwanted():
            raise Interrupted("work in the background was interrupted; the next start goes on with it")
        await asyncio.sleep(seconds)


def _page(store: Store, after: int, until: int | None = None) -> tuple[list[Line], float]:
    """Return a page of lines, and the seconds that it took to read them."""
    started = perf_counter()
    lines = [(entry.position, record_of(entry)) for entry in islice(store.read(after, until), PAGE)]
    return lines, perf_counter() - started
