"""People who were forgotten, and how they are erased from all that is on disk, in the background.

When a deletion is answered, its line is durable and the person is gone from what is known. What follows is found again after
a crash, because the line that asks for it is in the log until the end:

1. the log is read, to find the sessions that were folded into the person, and the values that nobody else had;
2. a line of the log releases them, so that a replay knows what and when;
3. new snapshots take the place of all that knew the person or the values;
4. what is kept of the person beside the log goes, such as lists that were shown;
5. the lines of the person and of the sessions are purged, and the line that asked for it last.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import NamedTuple, TypeAlias

from coldstream.lists.inspection import Steps
from coldstream.runtime.erasure.erasure import UnclaimedValues
from coldstream.runtime.erasure.leaving import Leaving
from coldstream.runtime.erasure.log_reading import Line, LogReading
from coldstream.runtime.learner import Learner
from coldstream.runtime.records import UserForgotten, record_of
from coldstream.runtime.snapshots import InStore, Snapshots
from coldstream.storage.store import Store

log = logging.getLogger(__name__)

NEAR = 1000
"""Lines that may be left to read when the writer is asked to write the values down, which then waits for them."""


EraseBeside: TypeAlias = Callable[[Collection[str]], Awaitable[None]]
"""Erases people from what is kept beside the log; what it raises has the log remember them, and it is tried again."""


async def nothing_beside(_: Collection[str]) -> None:
    """There is nothing but the log."""


class Pending(NamedTuple):
    """A person who is forgotten and not erased yet."""

    position: int
    """Of the line that asks for it."""
    time: float
    """When it was asked for."""


class Erasures:
    """Those who are to be erased, and the work of it."""

    def __init__(
        self, store: Store, in_store: InStore, snapshots: Snapshots, now: Callable[[], float], beside: EraseBeside
    ) -> None:
        self.pending: dict[str, Pending] = {}
        self._beside = beside
        self._store, self._in_store, self._snapshots, self._now = store, in_store, snapshots, now
        self._unclaimed: UnclaimedValues | None = None
        self._read = 0

    @property
    def oldest_seconds(self) -> float:
        """How long ago the first of those was asked for who are not erased yet; 0 where there are none."""
        return max((self._now() - pending.time for pending in self.pending.values()), default=0.0)

    async def look(self) -> None:
        """Find out who is to be erased."""
        self.pending = await self._in_store(self._found)

    def _found(self) -> dict[str, Pending]:
        found = {}
        for user, position in self._store.forgotten().items():
            entry = next(iter(self._store.read(position - 1)), None)
            record = None if entry is None else record_of(entry)
            time = record.time if isinstance(record, UserForgotten) else 0.0
            found[user] = Pending(position, time or self._now())  # older releases did not say when
        return found

    async def erase(self, learner: Learner, reading: LogReading, release: Callable[[], Awaitable[object]]) -> None:
        """Erase those who are pending now from everything. `release` has the writer write down what `columns` tells."""
        leaving = dict(self.pending)
        found = Leaving({user: one.position for user, one in leaving.items()})
        await self._read_log(learner, reading, found)
        try:
            await release()
        finally:
            self._unclaimed = None
        position = await self._snapshots.replace(learner)
        await self._beside(found.people)  # before the log forgets who it was
        await reading.done_in_store(self._store.purge_in_steps(found.people, position))
        # Whoever came back and left again meanwhile is still to be erased.
        self.pending = {user: one for user, one in self.pending.items() if leaving.get(user) != one}
        facts = {"count": len(leaving), "sessions": len(found.people) - len(leaving), "position": position}
        log.info("people were erased from the log", extra=facts)

    async def columns(self, learner: Learner, reading: LogReading) -> tuple[int, ...]:
        """The columns of values that nobody has but those who leave. Nothing may be learned while it is asked for."""
        assert self._unclaimed is not None
        while self._read < learner.position and (lines := await reading.page(self._read)):
            await reading.done(self._take(learner, lines))
        return self._unclaimed.columns(learner.recommender.inspection)

    async def _read_log(self, learner: Learner, reading: LogReading, leaving: Leaving) -> None:
        """Find out who leaves, and which values with them. Backwards from here, and then what has come since."""
        inspection = learner.recommender.inspection
        values = await reading.done(inspection.given_in_steps())
        until, cut = learner.position, await self._in_store(self._store.cut)
        self._unclaimed = UnclaimedValues(values, leaving)
        async for lines in reading.pages_backwards(until, cut):
            for position, record in lines:
                leaving.follow(position, record)
            await reading.done(self._take(learner, lines))
        self._read = until
        kept = await self._in_store(self._store.kept)
        await reading.done(leaving.follow_kept(kept))
        await reading.done(self._unclaimed.read_kept(inspection, kept))
        while learner.position - self._read > NEAR:
            until = learner.position
            async for lines in reading.pages(self._read, until):
                await reading.done(self._take(learner, lines))
            self._read = until  # the last of them may be purged

    def _take(self, learner: Learner, lines: Iterable[Line]) -> Steps[None]:
        assert self._unclaimed is not None
        inspection = learner.recommender.inspection
        for number, (position, record) in enumerate(lines):
            self._unclaimed.read(inspection, position, record)
            self._read = position
            if number % 50 == 49:
                yield
