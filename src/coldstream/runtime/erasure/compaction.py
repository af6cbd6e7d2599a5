"""Log compaction: delete lines that are older than the retention time or exceed the disk limit, in the background.

Only lines covered by every kept snapshot are deleted, so a restart never needs them. The age of lines is known from marks:
from time to time the store records the end of the log together with the time.
"""

import logging
from collections.abc import Callable
from functools import partial

from coldstream.runtime.erasure.claims import Claims, Said, digest
from coldstream.runtime.erasure.log_reading import Line, LogReading
from coldstream.runtime.learner import Learner
from coldstream.runtime.records import UserMerged
from coldstream.runtime.snapshots import InStore, Snapshots
from coldstream.storage.store import Store
from coldstream.support.steps import Steps

log = logging.getLogger(__name__)

MARKS = 100
"""The number of marks within the retention time. Lines may be kept longer than that time by one part in so many."""

LONGEST_BETWEEN_MARKS, LOOK_EVERY = 3600.0, 60.0
"""The longest time between two marks, and the longest time between two checks of the store's size; both in seconds."""

MOST_AT_ONCE = 100_000
"""The largest number of lines deleted in one pass. The size is measured again after each pass."""

WORTH_NEW_SNAPSHOTS = 0.1
"""The fraction of the log that is due for deletion but needed by old snapshots, from which on new snapshots are taken."""

MAX_SHARE_BESIDE = 0.1
"""The largest fraction of the disk limit that data beside the log may take from the log."""

ENOUGH = 0.9
"""The fraction of the disk limit down to which lines are deleted once the limit is exceeded."""


class Compaction:
    """Deletes the oldest lines of a log: those older than `retain` seconds, and more where the store exceeds `disk` bytes.

    0 stands for no limit of either.
    """

    def __init__(
        self,
        store: Store,
        in_store: InStore,
        snapshots: Snapshots,
        now: Callable[[], float],
        retain: float,
        disk: int,
        bytes_beside: Callable[[], int] = lambda: 0,
    ) -> None:
        self.size: int | None = None
        """The bytes of log, snapshots and data beside them when last measured; None before the first measurement."""
        self.cut = 0
        """The position up to which lines were deleted, when last read from the store."""
        self._store, self._in_store, self._snapshots, self._now = store, in_store, snapshots, now
        self._retain, self._disk, self._bytes_beside = retain, disk, bytes_beside
        self._between = min(retain / MARKS, LONGEST_BETWEEN_MARKS) if retain else LONGEST_BETWEEN_MARKS
        self._look_at = 0.0
        self._beside = 0  # bytes beside log and snapshots when last measured
        self._begun = self._told = False

    @property
    def is_due(self) -> bool:
        """Whether the time for the next `compact` has come."""
        return self._now() >= self._look_at

    async def compact(self, learner: Learner, reading: LogReading) -> None:
        """Record a mark if one is due, measure the store, and delete the lines that exceed a limit."""
        self._look_at = self._now() + max(1.0, min(self._between, LOOK_EVERY))
        if not self._begun:  # a process may have been killed while it deleted
            await reading.done_in_store(self._store.clear_in_steps())
            self._begun = True
        await self._mark()
        while True:
            self.size, self.cut = await self._measured(), await self._in_store(self._store.cut)
            wanted = min(await self._wanted(learner), learner.position)
            until = min(wanted, await self._kept(learner, wanted), self.cut + MOST_AT_ONCE)
            if until <= self.cut:
                self._tell_of_too_little_room()
                return
            await self._delete(learner, reading, until)

    async def _measured(self) -> int:
        """Return the size in bytes, measured again after giving back unused space where it is above the limit."""
        beside = self._beside = self._bytes_beside()
        size = await self._in_store(self._store.size) + beside
        if self._disk and size > self._disk:
            await self._in_store(self._store.trim)
            size = await self._in_store(self._store.size) + beside
        return size

    async def _kept(self, learner: Learner, wanted: int) -> int:
        """Return the last position that no snapshot needs, after replacing all snapshots if they keep too many lines."""
        kept = await self._snapshots.oldest_kept()
        if wanted - max(kept, self.cut) >= WORTH_NEW_SNAPSHOTS * (learner.position - self.cut):
            kept = await self._snapshots.replace(learner)
        return kept

    async def _mark(self) -> None:
        marks = await self._in_store(self._store.marks)
        if not marks or self._now() - marks[-1][1] >= self._between:
            await self._in_store(partial(self._store.mark, self._now()))

    async def _wanted(self, learner: Learner) -> int:
        """Return the last position that the retention time or the disk limit requires to delete."""
        wanted = 0
        if self._retain:
            marks = await self._in_store(self._store.marks)
            wanted = max((position for position, time in marks if time <= self._now() - self._retain), default=0)
        assert self.size is not None
        # Lists that were shown have a share of the disk and a bound of their own: beyond it they must not cost lines.
        own, room = self.size - self._beside, self._disk - min(self._beside, int(self._disk * MAX_SHARE_BESIDE))
        if self._disk and own > room:
            each = own / max(learner.position - self.cut, 1)
            wanted = max(wanted, self.cut + int((own - ENOUGH * room) / each))
        return wanted

    def _tell_of_too_little_room(self) -> None:
        """Log once that the store exceeds its limit although no more lines can be deleted."""
        too_much = self._disk and (self.size or 0) > self._disk
        if too_much and not self._told:
            facts = {"bytes": self.size, "disk": self._disk}
            log.warning("the store takes more than it may, and snapshots need what is left of the log", extra=facts)
        self._told = bool(too_much)

    async def _delete(self, learner: Learner, reading: LogReading, until: int) -> None:
        claims, said = Claims(await self._in_store(self._store.kept)), Said()
        async for lines in reading.pages(self.cut, until):
            await reading.done(_taken(learner, claims, said, lines))
        await self._in_store(partial(self._store.cut_off, until, claims.new()))
        await reading.done_in_store(self._store.clear_in_steps())
        log.info("old lines were deleted", extra={"until": until, "lines": until - self.cut})


def _taken(learner: Learner, claims: Claims, said: Said, lines: list[Line]) -> Steps[None]:
    inspection = learner.recommender.inspection
    for number, (_, record) in enumerate(lines):
        own = said.values(inspection, record)
        if isinstance(record, UserMerged):
            claims.fold(record.id, record.into)
        elif own is not None:
            known = (value for value in own[1] if inspection.columns([value]))  # values without a column need no release
            claims.add(own[0], [digest(inspection, value) for value in known])
        if number % 50 == 49:
            yield
