"""The log read in the background: a page at a time in the store's thread, between which the writer gets its turn."""

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
"""The most of the store's time that reading may take, so that those who write hardly notice."""

LOOKED_THROUGH = 100_000
"""Lines that the store looks through in one go."""

Line = tuple[int, Record]


class LogReading:
    """Reads lines and gives others their turn. `unwanted` is asked now and then, and ends it with `Interrupted`."""

    def __init__(self, store: Store, in_store: InStore, unwanted: Callable[[], bool]) -> None:
        self._store, self._in_store, self._unwanted = store, in_store, unwanted

    async def page(self, after: int) -> list[Line]:
        """The first lines behind a position."""
        lines, _ = await self._in_store(partial(_page, self._store, after))
        return lines

    async def pages(self, after: int, until: int) -> AsyncIterator[list[Line]]:
        """The lines behind a position up to another, slowly."""
        while after < until:
            lines, seconds = await self._in_store(partial(_page, self._store, after))
            if not lines:
                return
            yield [line for line in lines if line[0] <= until]
            after = lines[-1][0]
            await self.pause(seconds * (1 / SHARE - 1))

    async def pages_backwards(self, until: int, after: int) -> AsyncIterator[list[Line]]:
        """The lines up to a position and behind another, the last first, slowly."""
        while until > after:
            start = max(after, until - PAGE)
            lines, seconds = await self._in_store(partial(_page, self._store, start, until))
            yield lines[::-1]
            until = start
            await self.pause(seconds * (1 / SHARE - 1))

    async def has_lines(self, user: str, until: int) -> bool:
        """Whether there are lines of a user up to a position, or anything is kept of lines that were deleted."""
        if any(line.user == user for line in await self._in_store(self._store.kept)):
            return True
        for start in range(await self._in_store(self._store.cut), until, LOOKED_THROUGH):
            if await self._in_store(partial(self._store.has_lines, user, start, min(start + LOOKED_THROUGH, until))):
                return True
            await self.pause(0)
        return False

    async def done(self, steps: Steps[Answer]) -> Answer:
        """The answer of work that is done in steps on the event loop."""
        return await in_slices(steps, lambda: self.pause(0))

    async def done_in_store(self, steps: Iterator[None]) -> None:
        """Do work of the store in its thread, a step at a time."""
        while await self._in_store(lambda: next(steps, self) is None):
            await self.pause(0)

    async def pause(self, seconds: float) -> None:
        """Give others their turn."""
        if self._unwanted():
            raise Interrupted("work in the background was interrupted; the next start goes on with it")
        await asyncio.sleep(seconds)


def _page(store: Store, after: int, until: int | None = None) -> tuple[list[Line], float]:
    """Lines, and how long it took to read them."""
    started = perf_counter()
    lines = [(entry.position, record_of(entry)) for entry in islice(store.read(after, until), PAGE)]
    return lines, perf_counter() - started
