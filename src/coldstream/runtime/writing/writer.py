"""The single writer: check waiting records, make them durable in one commit (group commit), learn them, answer the callers.

All code that touches the learner runs on the event loop, so that requests read without a lock. The store has a thread of its
own, where a commit waits for the disk while the loop goes on answering.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from time import monotonic, time
from typing import NamedTuple, cast

from coldstream.errors import (
    ColdstreamError,
    Interrupted,
    StoreDamaged,
    StoreInUse,
    StoreMovedOn,
    StoreUnavailable,
    UnknownId,
)
from coldstream.runtime.erasure.compaction import Compaction
from coldstream.runtime.erasure.erasures import EraseBeside, Erasures, Pending, nothing_beside
from coldstream.runtime.erasure.log_reading import LogReading
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.merges import Merges, hired_again
from coldstream.runtime.records import Merged, Record, UserForgotten, ValuesReleased, line
from coldstream.runtime.replication.progress import Progress
from coldstream.runtime.replication.roles import Lag, NotTheWriter, Role
from coldstream.runtime.snapshots import NOT_NOW, Snapshots
from coldstream.runtime.team import LearnersLost
from coldstream.runtime.turns import in_slices
from coldstream.runtime.writing.checks import Checks, Refused
from coldstream.runtime.writing.live_learning import LiveLearning
from coldstream.runtime.writing.store_thread import StoreThread
from coldstream.runtime.writing.upkeep import Upkeep
from coldstream.runtime.writing.write_queue import Call, Outcome, WriteQueue
from coldstream.storage.store import LogLine, Saved, Store
from coldstream.support.steps import Steps

log = logging.getLogger(__name__)

LONGEST_GROUP = 2000
"""The largest number of lines in one commit: many enough to share the cost of a sync, few enough to be learned quickly."""

TIDY_EVERY = 1.0
"""Seconds between two checks for due maintenance."""

NOT_HERE = "this process does not write any more; send the same to the one that does"

STOPPING = "the service is stopping; try again when it is back"

FAILED = "the service has failed and stops; what was written may be learned when it is back"


class Stopping(ColdstreamError):
    """Raised where the service is stopping and accepts no more records."""


class Overtaken(ColdstreamError):
    """Raised where another process erased or deleted log lines that this one has not learned yet."""


class Forgotten(NamedTuple):
    """The deletion of a user."""

    position: int
    """The position of the deletion's line in the log."""
    people: frozenset[str]
    """The ids of the user and of the sessions that were merged into the user."""


class Writer:
    """The process's writer: takes records from a queue in groups, commits, learns and answers each group in order."""

    role = Role.WRITER

    def __init__(
        self,
        store: Store,
        learner: Learner,
        limits: WriterLimits,
        folder: Path,
        progress: Progress | None = None,
        lost: Callable[[], None] | None = None,
        erase_beside: EraseBeside = nothing_beside,
        bytes_beside: Callable[[], int] = lambda: 0,
    ) -> None:
        self.learner = learner
        self.commits = 0
        """The number of groups that were committed."""
        self.failed: BaseException | None = None
        """The error that ended the writer; None while it runs or after a regular stop."""
        self.followed = False
        """Whether a follower takes the snapshots. The writer then takes one only after twice the usual interval."""
        self._queue = WriteQueue(limits.pending)
        self._thread = StoreThread(store, lost is not None, self._queue.wake.set)
        in_background = self._thread.done_in_background
        self.snapshots = Snapshots(store, in_background, folder)
        self.erasures = Erasures(store, in_background, self.snapshots, time, erase_beside, limits.erase_seconds)
        keeping = (time, limits.retain_seconds, limits.disk_bytes, bytes_beside)
        self.compaction = Compaction(store, in_background, self.snapshots, *keeping)
        self._store, self._limits = store, limits
        self._reading_to_the_end = LogReading(store, self._thread.done, lambda: False)
        self._reading = LogReading(store, in_background, lambda: self._stopping)
        self._upkeep = Upkeep(self.erasures, self.compaction, self._reading, limits.erase_seconds, self._release)
        self._in_log: list[str] = []  # users to delete who are not in memory but have data in the log or beside it
        self._group: list[Call] = []
        self._stopping = False
        self._tidied, self._merges = monotonic(), Merges(limits)
        self._progress = progress or Progress()
        self._learning = LiveLearning(learner, limits.evaluation_share, self._progress)
        self.resigned = False
        """Whether the writer accepts no more records because another process takes over."""
        self._tell_lost = lost
        self._task: asyncio.Task[None] | None = None

    @property
    def store_works(self) -> bool:
        """Whether the store works: after a failure, whether a write has succeeded again."""
        return self._thread.health.works

    @property
    def waiting(self) -> int:
        """The number of records that were accepted and not yet taken from the queue."""
        return self._queue.waiting

    @property
    def lag(self) -> Lag:
        """The lag behind the log, which is always zero for the writer."""
        return Lag(0, 0.0)

    # Requests

    async def write(self, records: Sequence[Record]) -> list[int | None]:
        """Write records, all or none, and return their positions once they are durable and learned.

        The position of a record that the log already has is None. Raises `Refused` for the first record that is invalid.
        """
        return cast(list[int | None], await self._queued(records).answer) if records else []

    async def write_each(self, records: Sequence[Record]) -> list[Outcome]:
        """Write the valid ones of some records, and return the outcome of each once these are durable and learned."""
        return await self._queued(records, one_by_one=True).answer if records else []

    def _queued(self, records: Sequence[Record], one_by_one: bool = False) -> Call:
        if self.resigned:
            raise NotTheWriter(NOT_HERE)
        if self._stopping:
            raise Stopping(STOPPING)
        return self._queue.add(records, one_by_one)

    async def forget(self, user: str, is_beside: Callable[[str], Awaitable[bool]] | None = None) -> Forgotten:
        """Delete a user and the sessions that were merged into the user. Background work erases them from the store.

        A user who is not in memory can be deleted if the log has lines of the user, or if `is_beside` returns True because
        data of the user is kept beside the log. Otherwise `Refused` is raised.
        """
        try:
            return await self._forget(user)
        except Refused as refused:
            if not isinstance(refused.error, UnknownId) or user in self.erasures.pending:
                raise
            if not (is_beside is not None and await is_beside(user)) and not await self._has_lines(user):
                raise
        self._in_log.append(user)
        try:
            return await self._forget(user)
        finally:
            self._in_log.remove(user)

    async def _has_lines(self, user: str) -> bool:
        try:
            return await self._reading.has_lines(user, self.learner.position)
        except Interrupted as error:
            raise Stopping(STOPPING) from error

    async def _forget(self, user: str) -> Forgotten:
        call = self._queued([UserForgotten(user, time=time())])
        position = (await call.answer)[-1]
        assert isinstance(position, int)
        return Forgotten(position, frozenset(one.id for one in call.records if isinstance(one, UserForgotten)))

    async def snapshot(self) -> Saved:
        """Take a snapshot now."""
        try:
            return await self.snapshots.take(self.learner)
        except StoreDamaged as error:
            raise Stopping(FAILED) from error

    # Life cycle

    async def start(self, failed: Callable[[], None]) -> None:
        """Start to take records. `failed` is called if the writer ends because of an error."""
        await self.snapshots.look(self.learner)
        await self.erasures.look()
        if self.learner.unmerged:
            await self._merge()
        if self.learner.rule_since:
            await self._begin_rule()
        self._task = asyncio.create_task(self._run(failed))

    async def stop(self) -> None:
        """Write and learn all accepted records, take a last snapshot, and close the store."""
        self._stopping = True
        self._queue.wake.set()
        await self._upkeep.end()
        if self._task is not None:
            await self._task
        try:
            if self.failed is None:
                await self.snapshots.finish(self.learner)
            else:
                await self.snapshots.give_up()
        except NOT_NOW as error:
            log.warning("no last snapshot; the log will be replayed", extra={"reason": str(error)})
        except StoreDamaged as error:
            self.failed = error
        finally:
            self.learner.dismiss()
            await self._thread.close()

    async def hand_over(self) -> None:
        """Write and learn all accepted records, and close the store so that another process can write.

        Later calls raise `NotTheWriter`.
        """
        await self._leave()
        self._queue.refuse_all(NotTheWriter(NOT_HERE))

    async def resign(self) -> None:
        """Close the store because another process has the right to write. Unwritten calls raise `NotTheWriter`."""
        self._thread.is_lost = True
        await self.hand_over()

    async def _leave(self) -> None:
        self._stopping = self.resigned = True
        self._queue.wake.set()
        await self.snapshots.give_up()
        await self._upkeep.end()
        if self._task is not None:
            await self._task
        await self._thread.close()

    async def _begin_rule(self) -> None:
        """Replace all snapshots, so that no replay begins before the line that changed the learning rule."""
        position = await self.snapshots.replace(self.learner)
        await self._thread.done(lambda: self._store.purge({}, position))
        self.learner.rule_since = 0

    async def _run(self, failed: Callable[[], None]) -> None:
        try:
            while (self._queue or not self._stopping) and not self._thread.is_lost:
                if not self._queue:
                    await self._sleep()
                if self._thread.damage is not None:
                    raise self._thread.damage
                await self._tidy()
                await self._take()
                if not self._thread.is_behind and self._merges.are_due(self.learner):
                    await self._merge()
            if self.learner.unmerged and not self._thread.is_lost:
                await self._merge()
            if self._thread.is_lost and not self.resigned and self._tell_lost is not None:
                log.warning("another process has the right to write", extra={"position": self.learner.position})
                self._tell_lost()
        except Exception as error:
            # A record may be half applied, so only a restart, which replays the log, gives a state known to be right.
            self.failed, self._stopping = error, True
            log.critical("the writer failed; restart the service", exc_info=error)
            for call in self._group:
                call.give(Stopping(FAILED))
            self._queue.refuse_all(Stopping(FAILED))
            failed()

    async def _sleep(self) -> None:
        self._queue.wake.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._queue.wake.wait(), TIDY_EVERY)

    async def _tidy(self) -> None:
        """Begin maintenance and snapshots that are due, whether records arrive or not."""
        if monotonic() - self._tidied >= TIDY_EVERY:
            self._tidied = monotonic()
            if await self._caught_up() and await self._thread.can_write():
                self._tell_recovered()
                self._upkeep.begin_if_due(self.learner)
        late = 2 if self.followed else 1
        self.snapshots.begin_if_due(self.learner, late * self._limits.snapshot_lines, late * self._limits.snapshot_seconds)

    def _tell_recovered(self) -> None:
        if self._thread.health.recovered():
            log.info("the store works again", extra={"position": self.learner.position})

    async def _merge(self) -> None:
        """Log and apply a merge of the parallel learners. If one of them is lost, replace the whole team."""
        merged = Merged(self.learner.learners)
        try:
            (position,) = await self._thread.append([line(merged)], self.learner.position)
        except (StoreUnavailable, StoreInUse) as error:
            log.warning("learners could not merge", extra={"reason": str(error)})
            return
        assert position is not None
        try:
            self.learner.apply(position, merged)
        except LearnersLost as error:
            await self._hire_again(error)
        self._merges.note()
        self._progress.reached(self.learner.position)
        await asyncio.sleep(0)  # tasks that wait for the merge run before anything else is learned

    async def _hire_again(self, lost: LearnersLost) -> None:
        log.warning("learners were lost; others take their place", extra={"reason": str(lost)})
        self.learner = await hired_again(self.learner, self._store, self._thread.done)
        self._learning = LiveLearning(self.learner, self._limits.evaluation_share, self._progress)
        await self.snapshots.look(self.learner)

    # One group

    async def _take(self) -> None:
        self._group = []
        if not self._queue:
            return
        caught_up = await self._caught_up()
        longest = min(LONGEST_GROUP, self._limits.merge_events) if self.learner.has_team else LONGEST_GROUP
        await self._queue.take(self._group, Checks(self.learner.recommender, self._in_log), longest)
        if not self._group:
            return
        lines = list[LogLine]()
        try:
            if not caught_up:
                raise StoreUnavailable("the store does not answer; try again later")
            await self._complete()
            if not self._group:
                return
            await in_slices(self._encode_in_steps(lines))
            positions = await self._thread.append(lines, self.learner.position)
        except StoreMovedOn as error:
            log.warning("another process wrote to the log; what it wrote is learned first", extra={"reason": str(error)})
            self._put_back()
            return
        except (StoreUnavailable, StoreInUse) as error:
            if self._thread.is_lost and (not lines or isinstance(error, StoreInUse)):  # certainly nothing was written
                self._put_back()
                return
            log.warning("the store did not take what was written", extra={"reason": str(error), "records": len(lines)})
            for call in self._group:
                call.give(error)
            return
        self.commits += 1
        await self._learn(positions)

    def _encode_in_steps(self, lines: list[LogLine]) -> Steps[None]:
        """Append the group's records to `lines`, encoded for the log."""
        for call in self._group:
            for record in call.records:
                lines.append(line(record))
                yield

    def _put_back(self) -> None:
        self._queue.put_back(self._group)
        self._group = []

    async def _release(self) -> None:
        """Log the release of values that only erased people had. If this process stops, the next one does it."""
        try:
            await self.write([ValuesReleased(())])
        except Stopping as error:
            raise Interrupted(str(error)) from error

    async def _complete(self) -> None:
        """Complete the records of the group with facts that hold only if nothing is learned before they are written.

        A deletion also gets the sessions merged into the user; a release of values gets the columns to release.
        """
        call = self._group[0]
        if isinstance(call.asked[0], UserForgotten):  # then the other records of the group are deletions as well
            for own in self._group:
                own.records = [one for record in own.asked for one in self._with_sessions(record)]
        if isinstance(call.records[0], ValuesReleased):
            columns = await self.erasures.columns(self.learner, self._reading_to_the_end)
            call.records = [ValuesReleased(columns)]
            if not columns:
                call.give([])
                self._group = []

    def _with_sessions(self, record: Record) -> list[Record]:
        """Return a record; if it deletes a user, preceded by deletions of the sessions that were merged into the user."""
        if not isinstance(record, UserForgotten):
            return [record]
        sessions = self.learner.recommender.engine.sessions(record.id)
        return [*(UserForgotten(session, time=record.time) for session in sessions), record]

    async def _caught_up(self) -> bool:
        """Learn lines of the log that are not known here, and return whether the learner is level with the log.

        There may be such lines after a commit whose outcome is unknown, or after another process wrote.
        """
        if not self._thread.is_behind:
            return True
        try:
            entries = await self._thread.done(lambda: list(self._store.read(self.learner.position)))
            await self.erasures.look()
            base = await self._thread.done(self._store.base)
        except (StoreUnavailable, StoreInUse):
            return False
        if base > self.learner.position and self._tell_lost is not None:
            self._thread.is_lost = True  # this process becomes a follower, which reloads from a snapshot
            return False
        if base > self.learner.position:
            message = (
                f"another process erased or deleted lines of the log up to line {base}, and this one knows it up to line"
            )
            raise Overtaken(f"{message} {self.learner.position}; restart the service, which begins behind them")
        found = self.learner.replay(entries)
        self._thread.is_behind = False
        self._progress.reached(self.learner.position)
        if found:
            log.info("lines were found whose end was not known", extra={"position": self.learner.position, "found": found})
        return True

    async def _learn(self, positions: list[int | None]) -> None:
        given = iter(positions)
        self._learning.begin()
        for call in self._group:
            own = list(islice(given, len(call.records)))
            new = [(position, record) for position, record in zip(own, call.records, strict=True) if position is not None]
            if new and new[-1][0] > self.learner.position:
                try:
                    await self._learning.learn(new)
                except LearnersLost as error:  # the new team has learned all lines of the log
                    await self._hire_again(error)
            for position, record in new:
                if isinstance(record, UserForgotten):
                    self.erasures.pending[record.id] = Pending(position, monotonic())
            call.give(own)
