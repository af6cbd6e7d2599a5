"""People who were forgotten, and how they are erased from all that is on disk, in the background.

When a deletion is answered, its line is durable and the person is gone from what is known. What follows is found again after
a crash, because the line that asks for it is in the log until the end:

1. the log is read, to find the sessions that were folded into the person, and the values that nobody else had;
2. a line of the log releases them, so that a replay knows what and when;
3. new snapshots take the place of all that knew the person or the values;
4. the lines of the person and of the sessions are purged, and the line that asked for it last.

What is kept of the person beside the log, such as lists that were shown, is erased as soon as it is known who goes. Where
that fails, it is tried again with growing pauses and holds nothing else up: the line that asked for it stays in the log.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable
from time import monotonic
from typing import NamedTuple, TypeAlias

from coldstream.errors import ColdstreamError, Interrupted
from coldstream.lists.inspection import FieldValue, Inspection
from coldstream.runtime.erasure.claims import Said, claimed, digest
from coldstream.runtime.erasure.leaving import Leaving
from coldstream.runtime.erasure.log_reading import Line, LogReading
from coldstream.runtime.learner import Learner
from coldstream.runtime.records import Record, UserForgotten, record_of
from coldstream.runtime.snapshots import InStore, Snapshots
from coldstream.storage.store import LogLine, Store
from coldstream.support.steps import Steps

STEP = 500
"""Values whose digests are compared in one step."""


class UnclaimedValues:
    """Users' and contexts' values that no line has but those of people who leave, as far as lines were read.

    Values that were left behind by people who went before are found as well.
    """

    def __init__(self, values: set[FieldValue], leaving: Leaving) -> None:
        self._unclaimed, self._leaving, self._said = values, leaving, Said()

    def read_kept(self, inspection: Inspection, kept: Iterable[LogLine]) -> Steps[None]:
        """What is kept of deleted lines claims what it says."""
        own = [claim for claim in claimed(kept) if claim.person not in self._leaving.people]
        values = {value for claim in own for value in claim.values}
        # Older releases kept columns, which are taken for what they stand for now.
        columns = {column for claim in own for column in claim.columns}
        if not values and not columns:
            return
        for number, value in enumerate(list(self._unclaimed)):
            if digest(inspection, value) in values or not columns.isdisjoint(inspection.columns([value])):
                self._unclaimed.discard(value)
            if number % STEP == STEP - 1:
                yield

    def read(self, inspection: Inspection, position: int, record: Record) -> None:
        """One more line, which claims what it says."""
        said = self._said.values(inspection, record)
        if said is not None and not self._leaving.has_left(said[0], position):
            self._unclaimed.difference_update(said[1])

    def columns(self, inspection: Inspection) -> tuple[int, ...]:
        """The columns, now, of what is unclaimed by all lines that were read, in ascending order."""
        return tuple(sorted(inspection.columns(self._unclaimed)))


log = logging.getLogger(__name__)

NEAR = 1000
"""Lines that may be left to read when the writer is asked to write the values down, which then waits for them."""


SHORTEST_RETRY, LONGEST_RETRY = 1.0, 300.0
"""Seconds after which it is tried again to erase what is kept beside the log. The pause doubles with every failure."""


EraseBeside: TypeAlias = Callable[[Collection[str]], Awaitable[None]]
"""Erases people from what is kept beside the log; what it raises has the log remember them, and it is tried again."""


async def nothing_beside(_: Collection[str]) -> None:
    """There is nothing but the log."""


class Pending(NamedTuple):
    """A person who is forgotten and not erased yet."""

    position: int
    """Of the line that asks for it."""
    since: float
    """When it was asked for, by the monotonic clock."""


class Erasures:
    """Those who are to be erased, and the work of it."""

    def __init__(
        self,
        store: Store,
        in_store: InStore,
        snapshots: Snapshots,
        now: Callable[[], float],
        beside: EraseBeside,
        wait: float,
    ) -> None:
        self.pending: dict[str, Pending] = {}
        self._beside, self._wait = beside, wait
        self._beside_after, self._beside_pause = -math.inf, SHORTEST_RETRY
        self._purged: dict[str, Pending] = {}  # of whom the log has only the line that asks, until all else is done
        self._people: dict[str, int] = {}  # those, with their sessions
        self._store, self._in_store, self._snapshots, self._now = store, in_store, snapshots, now
        self._unclaimed: UnclaimedValues | None = None
        self._read = 0

    @property
    def oldest_seconds(self) -> float:
        """How long ago the first of those was asked for who are not erased yet; 0 where there are none."""
        return max((monotonic() - pending.since for pending in self.pending.values()), default=0.0)

    async def look(self) -> None:
        """Find out who is to be erased."""
        found, known = await self._in_store(self._found), self.pending
        for user, one in known.items():
            if user in found and found[user].position == one.position:
                found[user] = one
        self.pending = found

    def _found(self) -> dict[str, Pending]:
        found = {}
        for user, position in self._store.forgotten().items():
            entry = next(iter(self._store.read(position - 1)), None)
            record = None if entry is None else record_of(entry)
            asked = record.time if isinstance(record, UserForgotten) else 0.0
            waited = self._now() - (asked or self._now())  # older releases did not say when
            # A time to come is that of a clock which was ahead. How long ago it was then is not known: it is due now.
            found[user] = Pending(position, monotonic() - (waited if waited >= 0 else self._wait))
        return found

    async def erase(self, learner: Learner, reading: LogReading, release: Callable[[], Awaitable[object]]) -> None:
        """Erase those who are pending now from everything. `release` has the writer write down what `columns` tells."""
        new = {user: one for user, one in self.pending.items() if self._purged.get(user) != one}
        self._purged = {user: one for user, one in self._purged.items() if self.pending.get(user) == one}
        found = Leaving({user: one.position for user, one in new.items()})
        if new:
            await self._read_log(learner, reading, found)
        try:
            people = self._people | found.people
            is_beside = bool(people) and not await self._erased_beside(people)
            if new:
                await release()
        finally:
            self._unclaimed = None
        if new:
            position = await self._snapshots.replace(learner)
            stays = new if is_beside else {}  # the lines that ask for it
            until = {user: stays[user].position - 1 if user in stays else last for user, last in found.people.items()}
            await reading.done_in_store(self._store.purge_in_steps(until, position))
            facts = {"count": len(new), "sessions": len(found.people) - len(new), "position": position}
            log.info("people were erased from the log", extra=facts)
        if is_beside:
            self._purged, self._people = self._purged | new, people
            return
        if self._purged:
            base = await self._in_store(self._store.base)
            await reading.done_in_store(self._store.purge_in_steps(self._people, base))
        # Whoever came back and left again meanwhile is still to be erased.
        done = self._purged | new
        self.pending = {user: one for user, one in self.pending.items() if done.get(user) != one}
        self._purged, self._people = {}, {}

    async def _erased_beside(self, people: Collection[str]) -> bool:
        """Whether people are erased from what is kept beside the log. After a failure it is not tried at once again."""
        if monotonic() < self._beside_after:
            return False
        try:
            await self._beside(people)
        except Interrupted:
            raise
        except Exception as error:
            trace = None if isinstance(error, ColdstreamError) else error
            facts = {"reason": str(error), "seconds": self._beside_pause}
            message = "people were not erased from what is kept beside the log; it is tried again"
            log.warning(message, extra=facts, exc_info=trace)
            self._beside_after = monotonic() + self._beside_pause
            self._beside_pause = min(2 * self._beside_pause, LONGEST_RETRY)
            return False
        self._beside_after, self._beside_pause = -math.inf, SHORTEST_RETRY
        return True

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
