"""The schedule of snapshots, the choice between full ones and increments, and the deletion of old ones.

A forked process writes a snapshot from its copy of the memory, so that the event loop is only blocked for the fork itself.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import Protocol, TypeVar

from coldstream.errors import StoreDamaged, StoreInUse, StoreUnavailable
from coldstream.runtime.chain import Chain
from coldstream.runtime.learner import KnownLine, Learner
from coldstream.snapshots.fork import LONGEST, Base, Cut, WrittenFile
from coldstream.storage.store import Saved, SnapshotStore
from coldstream.support.memory_tuning import Collapsing

log = logging.getLogger(__name__)

MOST_INCREMENTS = 8
"""The largest number of increments before a full snapshot is due, because a recovery reads all of them."""

MOST_BYTES = 0.5
"""The total size of the increments, as a fraction of the full snapshot's size, beyond which a full one is due."""

Answer = TypeVar("Answer")

TRIES = 10
"""The largest number of attempts to read the checksum of the last line while new lines arrive."""

RETRY_AFTER = 10.0
"""Seconds before a failed snapshot or other background work is tried again, such as after a full disk."""

LONGEST_LAST = 2.0
"""Seconds that a shutdown grants the last snapshot, which only saves a replay: the log has everything."""

NOT_NOW = (StoreUnavailable, StoreInUse)
"""Transient errors of a store, such as a full disk or a server that is down."""


class InStore(Protocol):
    """A function that runs an action in the store's thread."""

    def __call__(self, action: Callable[[], Answer], /) -> Awaitable[Answer]:
        """Run an action, and return its answer."""


class Snapshots:
    """The snapshots of one process. One is taken at a time, and reading and learning go on except during the fork."""

    def __init__(self, store: SnapshotStore, in_store: InStore, folder: Path) -> None:
        self.newest: Saved | None = None
        """The newest readable snapshot in the store, as of the last look or save."""
        self.pause = 0.0
        """Seconds for which the last snapshot blocked the event loop."""
        self._store, self._in_store, self._folder = store, in_store, folder
        self._useless: Sequence[Saved] = ()
        self._chain: Chain | None = None
        self._cut: Cut | None = None
        self._collapsing = Collapsing()
        self._lock = asyncio.Lock()
        self._taken, self._not_before = monotonic(), 0.0
        self._background: asyncio.Task[None] | None = None

    async def look(self, learner: Learner) -> None:
        """Find the usable snapshots of the store, and delete unfinished files of processes that were killed.

        The next increment builds on the snapshot from which the learner was loaded. From now on memory is collapsed into
        huge pages in the background, in preparation for later forks.
        """
        for left in self._folder.glob(".*taking.snapshot*"):
            if not _is_being_written(left):
                left.unlink(missing_ok=True)
        self._useless, self._chain, learner.chain = learner.passed_over, learner.chain, None
        self.newest = next(iter(await self._whole()), None)
        self._collapsing.begin()

    async def look_again(self) -> None:
        """Check whether another process has saved a newer snapshot."""
        newest = next(iter(await self._whole()), None)
        if newest != self.newest:
            self.newest, self._taken = newest, monotonic()

    @property
    def seconds_ago(self) -> float:
        """The seconds since the newest snapshot was taken or noticed, or since this process started."""
        return monotonic() - self._taken

    async def take(self, learner: Learner, longest: float = LONGEST) -> Saved:
        """Take a snapshot now, an increment where possible, within `longest` seconds.

        The last two full snapshots are kept with their increments, and older ones are deleted. Raises `StoreUnavailable`
        where it cannot be written or takes too long.
        """
        async with self._lock:
            there, before = await self._whole(), self._chain
            chain = before if before is not None and _goes_on(before, there) else None
            saved = await self._save(await self._written(learner, chain, longest), chain)
            old = [] if before is None or chain is not None else [one for one in there if one.number < before.full.number]
            await self._discard([*self._useless, *old])
            return saved

    def begin_if_due(self, learner: Learner, lines: int, seconds: float) -> None:
        """Begin a snapshot in the background if one is due.

        One is due after `lines` new lines, or after `seconds` if there was any new line; 0 switches either condition off.
        """
        behind = learner.position - (0 if self.newest is None else self.newest.position)
        due = (lines and behind >= lines) or (seconds and behind > 0 and monotonic() - self._taken >= seconds)
        if due and self._background is None and monotonic() >= self._not_before:
            self._background = asyncio.create_task(self._try_to_take(learner))

    async def replace(self, learner: Learner) -> int:
        """Replace all snapshots by new ones, and return the position of the new ones.

        Two identical full snapshots are saved before the others are deleted, because a single one could be damaged.
        """
        async with self._lock:
            written = await self._written(learner, None, LONGEST)
            try:
                own = [await self._save(one, None) for one in (await self._copied(written), written)]
            finally:
                written.file.unlink(missing_ok=True)  # or it would stay on disk for ever if saving the copy failed
            there = await self._in_store(self._store.snapshots)  # including one that a follower saved meanwhile
            await self._discard(one for one in there if one.number < own[-1].number and one not in own)
            return written.position

    async def oldest_kept(self) -> int:
        """Return the position up to which no snapshot needs the log.

        It is 0 while there is only one chain, because that could be damaged and the log is then needed from its beginning.
        """
        whole = await self._whole()
        if self._chain is None or all(one.number >= self._chain.full.number for one in whole):
            return 0
        return min(one.position for one in whole)

    async def give_up(self) -> None:
        """Abort the snapshot that is being taken, if any, and wait until it has ended."""
        await self._collapsing.end()
        if self._cut is not None:
            self._cut.end()
        if self._background is not None:
            await self._background

    async def finish(self, learner: Learner) -> None:
        """Take a last snapshot before a shutdown if any line was learned since the newest, within `LONGEST_LAST` seconds."""
        until = monotonic() + LONGEST_LAST
        await self._collapsing.end()
        if (background := self._background) is not None:
            await asyncio.wait({background}, timeout=LONGEST_LAST)
            if self._cut is not None:
                self._cut.end()
            await background
        if self.newest is None or self.newest.position < learner.position:
            await self.take(learner, max(0.0, until - monotonic()))

    async def _whole(self) -> list[Saved]:
        return [saved for saved in await self._in_store(self._store.snapshots) if saved not in self._useless]

    async def _discard(self, old: Iterable[Saved]) -> None:
        for one in old:
            await self._in_store(partial(self._store.discard, one))
        self._useless = ()

    async def _try_to_take(self, learner: Learner) -> None:
        try:
            await self.take(learner)
        except (*NOT_NOW, StoreDamaged) as error:
            self._not_before = monotonic() + RETRY_AFTER
            log.warning("no snapshot could be taken; it will be tried again", extra={"reason": str(error)})
        finally:
            self._background = None

    async def _written(self, learner: Learner, chain: Chain | None, longest: float) -> WrittenFile:
        """Write the present state of the learner to a file."""
        started = perf_counter()
        await self._find_line(learner)
        try:
            async with asyncio.timeout(longest):
                await learner.settled()  # there must be no other await between this and the fork
        except TimeoutError as error:
            raise StoreUnavailable("learners have not merged in time for a snapshot; it is tried again") from error
        try:
            base = None if chain is None else Base(chain.newest.position, chain.fingerprint)
            self._cut = Cut(learner.view, learner.position, self._folder, base)
            self.pause = self._cut.pause
            written = await self._cut.written(longest)
        except OSError as error:
            raise StoreUnavailable(f"the snapshot cannot be written ({error}); make room, and it is tried again") from error
        finally:
            self._cut = None
            self._collapsing.begin()
        kind = "full" if chain is None else "increment"
        facts = {"position": written.position, "kind": kind, "bytes": written.size, "pause": round(self.pause, 4)}
        log.info("a snapshot was written", extra={**facts, "seconds": round(perf_counter() - started, 3)})
        return written

    async def _find_line(self, learner: Learner) -> None:
        """Set the learner's `line` to the last line and its checksum, by which a snapshot's log can be identified.

        While new lines arrive all the time, a slightly older line is used, which identifies the log up to that line.
        """
        for _ in range(TRIES):
            position = learner.position
            checksum = await self._in_store(partial(self._store.checksum, position))
            learner.line = None if checksum is None else KnownLine(position, checksum)
            if learner.position == position:
                return

    async def _copied(self, written: WrittenFile) -> WrittenFile:
        copy = written.file.with_name(f".copy{written.file.name}")
        try:
            await asyncio.to_thread(shutil.copyfile, written.file, copy)
        except OSError as error:
            written.file.unlink(missing_ok=True)
            copy.unlink(missing_ok=True)
            raise StoreUnavailable(f"the snapshot cannot be copied ({error}); make room, and it is tried again") from error
        return written._replace(file=copy)

    async def _save(self, written: WrittenFile, chain: Chain | None) -> Saved:
        """Save a file as a snapshot of the store, on which the next increment builds."""
        try:
            saved = await self._in_store(partial(self._store.save, written.position, written.file))
        finally:
            written.file.unlink(missing_ok=True)
        self.newest, self._taken = saved, monotonic()
        known, size = written.fingerprint, written.size
        if chain is None:
            self._chain = Chain(saved, saved, known, 0, size, 0)
        else:
            more = chain.increments + 1, chain.full_bytes, chain.increment_bytes + size
            self._chain = Chain(chain.full, saved, known, *more)
        return saved


def _is_being_written(file: Path) -> bool:
    """Return whether another living process is writing a file, as several processes may share the folder."""
    pid = next((part for part in file.name.split("-") if part.isdigit()), "")
    try:
        facts = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    except OSError:
        return False
    is_process = facts.get("Tgid", "").strip() == pid and not facts.get("State", "").strip().startswith(("Z", "X"))
    return is_process and int(pid) != os.getpid()


def _goes_on(chain: Chain, there: Sequence[Saved]) -> bool:
    """Return whether an increment may follow: the chain is short, and no other process has taken a snapshot since."""
    small = chain.increments < MOST_INCREMENTS and chain.increment_bytes <= MOST_BYTES * chain.full_bytes
    return small and bool(there) and there[0] == chain.newest
