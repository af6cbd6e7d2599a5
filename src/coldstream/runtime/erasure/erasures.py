"""Erasure of deleted users from everything on disk, in the background.

When the service answers a deletion, its line in the log is durable and the user is gone from memory. The steps that follow
are resumed after a crash, because the deletion's line stays in the log until all of them are done:

1. The log is read, to find the sessions that were merged into the user, and the values that no other person had.
2. A line that releases these values is logged, so that a replay releases them at the same point.
3. New snapshots replace all those that contain the user or the values.
4. The lines of the user and of the sessions are purged, and the deletion's own line last.

Data beside the log, such as lists that were shown, is erased as soon as the sessions are known. If that fails, it is retried
with growing pauses. The other steps do not wait for it, but the deletion's line stays in the log until it has succeeded.
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
"""The number of values whose digests are compared in one step."""


class UnclaimedValues:
    """User and context values that occur in no line read so far, apart from lines of the people to erase.

    Values that people erased earlier have left behind are among them.
    """

    def __init__(self, values: set[FieldValue], leaving: Leaving) -> None:
        self._unclaimed, self._leaving, self._said = values, leaving, Said()

    def read_kept(self, inspection: Inspection, kept: Iterable[LogLine]) -> Steps[None]:
        """Remove the values that claims kept of deleted lines give to people who stay, in steps."""
        own = [claim for claim in claimed(kept) if claim.person not in self._leaving.people]
        values = {value for claim in own for value in claim.values}
        # Older releases kept columns instead of digests; they are interpreted by the present vocabulary.
        columns = {column for claim in own for column in claim.columns}
        if not values and not columns:
            return
        for number, value in enumerate(list(self._unclaimed)):
            if digest(inspection, value) in values or not columns.isdisjoint(inspection.columns([value])):
                self._unclaimed.discard(value)
            if number % STEP == STEP - 1:
                yield

    def read(self, inspection: Inspection, position: int, record: Record) -> None:
        """Remove the values in a line, unless the line is to be erased."""
        said = self._said.values(inspection, record)
        if said is not None and not self._leaving.has_left(said[0], position):
            self._unclaimed.difference_update(said[1])

    def columns(self, inspection: Inspection) -> tuple[int, ...]:
        """Return the present columns of the unclaimed values, in ascending order."""
        return tuple(sorted(inspection.columns(self._unclaimed)))


log = logging.getLogger(__name__)

NEAR = 1000
"""The largest number of unread lines with which the writer may be asked to log the release; it waits until they are read."""
SHORTEST_RETRY, LONGEST_RETRY = 1.0, 300.0
"""Seconds before erasing data beside the log is retried: the first pause and the longest. It doubles with every failure."""


EraseBeside: TypeAlias = Callable[[Collection[str]], Awaitable[None]]
"""A function that erases people from data beside the log. If it raises, the log keeps their deletion lines for a retry."""


async def nothing_beside(_: Collection[str]) -> None:
    """Erase nothing: for a service that keeps no data beside the log."""


class Pending(NamedTuple):
    """The deletion of a user who is not erased from the store yet."""

    position: int
    """The position of the deletion's line."""
    since: float
    """When the deletion was requested, in seconds of the monotonic clock."""


class Erasures:
    """The users waiting to be erased, and the work that erases them."""

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
        self._purged: dict[str, Pending] = {}  # users of whom only the deletion line is left, until data beside is erased
        self._people: dict[str, int] = {}  # the purged users and their sessions, with positions
        self._store, self._in_store, self._snapshots, self._now = store, in_store, snapshots, now
        self._unclaimed: UnclaimedValues | None = None
        self._read = 0

    @property
    def oldest_seconds(self) -> float:
        """The age of the oldest pending deletion in seconds; 0 where there is none."""
        return max((monotonic() - pending.since for pending in self.pending.values()), default=0.0)

    async def look(self) -> None:
        """Read the pending deletions from the store."""
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
            waited = self._now() - (asked or self._now())  # older releases did not log the time
            # A time in the future comes from a clock that was ahead. The deletion's true age is unknown, so it is due now.
            found[user] = Pending(position, monotonic() - (waited if waited >= 0 else self._wait))
        return found

    async def erase(self, learner: Learner, reading: LogReading, release: Callable[[], Awaitable[object]]) -> None:
        """Erase all users who are pending now from the store and from data beside it.

        `release` must make the writer log the columns that `columns` returns.
        """
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
            stays = new if is_beside else {}  # users whose deletion lines are kept
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
        # A user who was added and deleted again meanwhile stays pending.
        done = self._purged | new
        self.pending = {user: one for user, one in self.pending.items() if done.get(user) != one}
        self._purged, self._people = {}, {}

    async def _erased_beside(self, people: Collection[str]) -> bool:
        """Erase people from data beside the log and return whether that was done; after a failure, wait before a retry."""
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
        """Return the columns of values that only the people to erase have. Nothing may be learned meanwhile."""
        assert self._unclaimed is not None
        while self._read < learner.position and (lines := await reading.page(self._read)):
            await reading.done(self._take(learner, lines))
        return self._unclaimed.columns(learner.recommender.inspection)

    async def _read_log(self, learner: Learner, reading: LogReading, leaving: Leaving) -> None:
        """Find the sessions and the values to erase.

        It reads the log backwards from the present position, and then forwards what was appended meanwhile.
        """
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
            self._read = until  # set explicitly, because the last line may have been purged and thus not read

    def _take(self, learner: Learner, lines: Iterable[Line]) -> Steps[None]:
        assert self._unclaimed is not None
        inspection = learner.recommender.inspection
        for number, (position, record) in enumerate(lines):
            self._unclaimed.read(inspection, position, record)
            self._read = position
            if number % 50 == 49:
                yield
