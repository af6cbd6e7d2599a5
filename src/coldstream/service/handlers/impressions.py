"""Impressions: the lists that were shown, the items taken from them, and the items passed over.

Lists are kept, handed over, erased and trimmed on disk in the background, in small steps, so that no request waits for a
write to disk. Nothing learned depends on the stored lists: an event that names a list has the items passed over written into
its own line of the log.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from secrets import token_bytes, token_urlsafe
from time import monotonic, time
from typing import TypeVar

import msgspec

from coldstream.errors import Interrupted, StoreDamaged, StoreUnavailable, UnknownId, shown
from coldstream.events.event import MOST_PASSED_OVER
from coldstream.recommender import Recommender
from coldstream.runtime.records import Interaction, Record
from coldstream.service.handlers.shown_lists import Remembered, ShownLists
from coldstream.storage.shown import MOST_POSITIONS, PositionCount, ShownList, ShownStore, Take

log = logging.getLogger(__name__)

KEEP_EVERY = 0.5
"""Seconds between two passes that write shown lists to the store."""

LONGEST_RETRY = 30.0
"""Most seconds between two passes while the store of lists fails. The pause doubles with every failure."""

TRIM_EVERY = 5.0
"""Least seconds between two deletions of the lists that are too old, or beyond the bound on bytes."""

EXPIRE_EVERY = 60.0
"""Seconds after which the lists of users who were erased lately are erased once more."""

LONGEST_FIND = 1.0
"""Most seconds that a request waits for the store to find a list. Then it proceeds as if the list were unknown."""

LONGEST_STOP = 2.0
"""Most seconds that a stop waits for the store to keep the last lists."""

MOST_WAITING = 20_000
"""Most lists that wait for a slow or unavailable store; further lists are not kept. It bounds takes and merges too."""

MOST_WAITING_ITEMS = 1_000_000
"""Most items in all lists that wait to be kept, together."""

KEPT_AT_ONCE = 10_000
"""Items, about, in the lists that are kept in one transaction."""

TROUBLE = (StoreUnavailable, StoreDamaged)
"""Errors of a store of lists, which fail no recommendation and no event."""

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Waiting:
    """Changes that wait to be written to the store of lists."""

    lists: list[ShownList] = field(default_factory=list)
    items: int = 0
    """Number of items in all lists together."""
    takes: list[Take] = field(default_factory=list)
    merges: list[tuple[str, str]] = field(default_factory=list)
    """Sessions, each with the user that it was merged into."""

    def has_room(self, one: ShownList) -> bool:
        """Return whether there is room for a list."""
        return len(self.lists) < MOST_WAITING and self.items + len(one.items) <= MOST_WAITING_ITEMS

    def add(self, one: ShownList) -> None:
        """Queue a list."""
        self.lists.append(one)
        self.items += len(one.items)

    def drop(self, users: Collection[str]) -> None:
        """Drop the queued lists of users."""
        self.lists = [one for one in self.lists if one.user not in users]
        self.items = sum(len(one.items) for one in self.lists)

    def hand_over(self, session: str, user: str) -> None:
        """Give the queued lists of a session to a user."""
        self.lists = [one._replace(user=user) if one.user == session else one for one in self.lists]

    def portion(self) -> list[ShownList]:
        """Remove and return the first lists, as many as are kept in one transaction."""
        count = items = 0
        while count < len(self.lists) and items < KEPT_AT_ONCE:
            items += 1 + len(self.lists[count].items)
            count += 1
        taken, self.lists = self.lists[:count], self.lists[count:]
        self.items -= items - count
        return taken

    def put_back(self, lists: list[ShownList]) -> None:
        """Put lists that could not be kept back at the head of the queue, with the merges since then applied."""
        users = dict(self.merges)
        self.lists = [one._replace(user=users.get(one.user or "", one.user)) for one in lists] + self.lists
        self.items += sum(len(one.items) for one in lists)


class Impressions:
    """Shown lists: those of this process in memory, and with a store those of all processes, for a limited time."""

    def __init__(
        self, store: ShownStore | None = None, share: float = 1.0, retain: float = 0.0, most_bytes: int = 2**63 - 1
    ) -> None:
        self.lost = 0
        """Number of lists that were not kept, because too many waited."""
        self.foreign = 0
        """Number of events that named a list of another user, and so count as if they named none."""
        self.bytes = 0
        """Bytes that the store of lists took on disk when it was last measured."""
        self._store, self._share, self._retain, self._most_bytes = store, share, retain, most_bytes
        self._lists = ShownLists()
        self._waiting = _Waiting()
        self._counts: Counter[tuple[int, bool]] = Counter()  # without a store: (position, whether taken) → count
        self._thread = ThreadPoolExecutor(1, "shown")
        self._task: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()  # held while lists are kept, handed over or erased
        self._works, self._stopped, self._trimmed = True, False, -math.inf
        self._owed: dict[str, bool] = {}  # users to erase from the store → whether to erase them once more
        self._erased: set[str] = set()  # lately erased users, of whom other processes may still keep a list

    # Showing lists

    def remember(self, items: Iterable[str], before: Sequence[str] = (), user: str | None = None) -> str:
        """Remember a list that is shown to a user now, and return its name; `before` has the items of earlier pages."""
        name, own = token_urlsafe(12), (*before, *items)
        kept = Remembered(name, user, time(), own, len(before), self._is_drawn())
        self._lists.add(kept)
        if self._store is None:
            self._counts.update((place, False) for place in range(len(before), min(len(own), MOST_POSITIONS)))
        elif kept.is_kept:
            one = ShownList(name, user, kept.time, own, len(before))
            if self._waiting.has_room(one):
                self._waiting.add(one)
            else:
                self.lost += 1
        return name

    def _is_drawn(self) -> bool:
        return self._share >= 1.0 or int.from_bytes(token_bytes(4)) < self._share * 2**32

    async def items(self, name: str) -> tuple[str, ...]:
        """Return the items of a list and of all pages before it. Raises `UnknownId` if the list is not known."""
        await self.find([name])
        own = self._lists.get(name)
        if own is None:
            message = f"recommendation_id {shown(name)} is not known here, or was too long ago"
            raise UnknownId(f"{message}; ask for the first page again, or name what was shown in deny")
        return own.items

    async def find(self, names: Collection[str]) -> None:
        """Read lists from the store that are not in memory: other processes have shown them, or this one long ago."""
        unknown = {name for name in names if name not in self._lists}
        if not unknown or self._store is None:
            return
        store = self._store
        with suppress(*TROUBLE, TimeoutError):  # the items passed over are then unknown
            found = await asyncio.wait_for(self._in_store(lambda: store.find(unknown)), LONGEST_FIND)
            for one in found.values():
                if one.user not in self._owed:
                    self._lists.add_found(one)

    # Taking items from lists

    async def completed(self, records: Sequence[Record], recommender: Recommender) -> list[Record]:
        """Fill in the items passed over of events: the last ones, at most as many as the model learns from."""
        names = {one.recommendation_id for one in records if isinstance(one, Interaction) and one.recommendation_id}
        await self.find(names)
        most = min(recommender.hyperparameters.passed_over, MOST_PASSED_OVER)
        return [self._completed(one, most, recommender) if isinstance(one, Interaction) else one for one in records]

    def _completed(self, event: Interaction, most: int, recommender: Recommender) -> Interaction:
        named = None if event.recommendation_id is None else self._lists.get(event.recommendation_id)
        own = named if named is None or _was_shown_to(event.user, named, recommender) else None
        self.foreign += named is not own
        passed_over = event.passed_over or (() if own is None else own.passed_over(event.item))
        kept = passed_over[-most:] if most else ()
        return event if kept == event.passed_over else msgspec.structs.replace(event, passed_over=kept)

    def note(self, records: Iterable[Record], recommender: Recommender) -> None:
        """Count the items that written records took from lists shown to their users, each item of a list once."""
        for one in records:
            if not isinstance(one, Interaction) or one.recommendation_id is None or not _is_for(recommender, one):
                continue
            named = self._lists.get(one.recommendation_id)
            if named is not None and _was_shown_to(one.user, named, recommender):
                self._take(one.recommendation_id, one.item)

    def _take(self, name: str, item: str) -> None:
        own = self._lists.get(name)
        if own is None or item not in own.items or (place := own.items.index(item)) in own.taken:
            return
        own.taken.add(place)
        if self._store is None:
            self._counts[place, True] += place < MOST_POSITIONS
        elif own.is_kept and len(self._waiting.takes) < MOST_WAITING:
            self._waiting.takes.append(Take(name, place, own.time))

    async def counts(self) -> list[PositionCount]:
        """Return how often items were shown and taken, by position at which any was shown; none if the store fails."""
        if self._store is None:
            places = sorted({place for place, taken in self._counts if not taken})
            return [PositionCount(place, self._counts[place, False], self._counts[place, True]) for place in places]
        if not self._changing.locked():
            await self._keep()
        try:
            return [one for one in await self._in_store(self._store.counts) if one.shown]
        except TROUBLE:
            return []

    # Erasing and merging users

    async def has(self, user: str) -> bool:
        """Return whether there are lists of a user; true if the store fails, so that no erasure is refused for that."""
        if self._lists.has(user) or any(one.user == user for one in self._waiting.lists):
            return True
        if self._store is None:
            return False
        store = self._store
        try:
            return await asyncio.wait_for(self._in_store(lambda: store.has(user)), LONGEST_FIND)
        except (*TROUBLE, TimeoutError):
            return True

    def forget(self, users: Collection[str]) -> None:
        """Forget the lists of users at once, and erase them from the store in the background, however often it fails."""
        for user in users:
            self._lists.erase(user)
        self._waiting.drop(users)
        if self._store is not None:
            self._owed |= dict.fromkeys(users, True)

    async def erase(self, users: Collection[str]) -> None:
        """Erase the lists of users, now and once more about a minute later. Raises `Interrupted` if a stop comes first."""
        self.forget(users)
        await self._erase_owed()

    async def _erase_owed(self) -> None:
        store = self._store
        if store is None or not self._owed:
            return
        async with self._changing:
            owed = dict(self._owed)
            await self._in_steps(store.erase_in_steps(owed))
            self._owed = {user: first for user, first in self._owed.items() if owed.get(user) != first}
            self._erased |= {user for user, first in owed.items() if first}

    def hand_over(self, session: str, user: str) -> None:
        """Give the lists of a session to a user who has logged in: in memory at once, in the store in the background."""
        self._lists.hand_over(session, user)
        self._waiting.hand_over(session, user)
        if self._store is not None and len(self._waiting.merges) < MOST_WAITING:
            self._waiting.merges.append((session, user))

    # Start, work in the background, stop

    def start(self, forgotten: Callable[[], Collection[str]]) -> None:
        """Start work in the background. `forgotten` returns the users to erase, also those of a process that was killed."""
        if self._store is not None:
            self._task = asyncio.create_task(self._run(forgotten))

    async def stop(self) -> None:
        """Keep the lists that wait, and close the store. The next start continues erasures that are not done."""
        self._stopped = True
        if self._task is not None:
            async with self._changing:  # a write in progress is not cut off
                self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._store is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._keep(), LONGEST_STOP)
            with suppress(*TROUBLE):
                await self._in_store(self._store.close)
        self._thread.shutdown()

    async def _run(self, forgotten: Callable[[], Collection[str]]) -> None:
        """Keep, erase, hand over and trim lists, repeatedly. A part that fails stops no other, but lengthens the pause."""
        known, looked, pause = set[str](), monotonic(), KEEP_EVERY
        while True:
            leaving = set(forgotten())
            self.forget(leaving - known)
            known = leaving
            if monotonic() - looked >= EXPIRE_EVERY:
                self._owed = dict.fromkeys(self._erased, False) | self._owed
                self._erased, looked = set(), monotonic()
            works = [await self._done(part) for part in (self._keep, self._erase_owed, self._hand_over, self._trim)]
            pause = KEEP_EVERY if all(works) else min(2 * pause, LONGEST_RETRY)
            await asyncio.sleep(pause)

    async def _done(self, part: Callable[[], Awaitable[None]]) -> bool:
        """Do a part of the work, log its failure, and return whether it was done."""
        try:
            await part()
        except Interrupted:
            return False
        except TROUBLE as error:
            log.warning("lists that were shown cannot be looked after", extra={"reason": str(error)})
            return False
        except Exception as error:  # requests need not suffer from it
            log.error("lists that were shown cannot be looked after", exc_info=error)
            return False
        return True

    async def _keep(self) -> None:
        """Write the waiting lists and takes to the store. Those that cannot be written now go on waiting."""
        store = self._store
        if store is None:
            return
        async with self._changing:
            waiting = self._waiting
            try:
                while portion := waiting.portion():
                    try:
                        await self._in_store(partial(store.keep, portion))
                    except TROUBLE:
                        waiting.put_back([one for one in portion if one.user not in self._owed])
                        raise
                if takes := waiting.takes[:]:
                    await self._in_store(lambda: store.take(takes))
                    del waiting.takes[: len(takes)]
            except TROUBLE as error:
                if self._works:
                    facts = {"reason": str(error), "count": len(waiting.lists)}
                    log.warning("lists that were shown are not kept yet", extra=facts)
                self._works = False
            else:
                self._works = True

    async def _hand_over(self) -> None:
        store, merges = self._store, self._waiting.merges
        if store is None or not merges:
            return
        async with self._changing:
            while merges:
                await self._in_steps(store.hand_over_in_steps(*merges[0]))
                del merges[0]

    async def _trim(self) -> None:
        store = self._store
        if store is None or monotonic() - self._trimmed < TRIM_EVERY:
            return
        await self._in_steps(store.trim_in_steps(time() - self._retain, self._most_bytes))
        self.bytes = await self._in_store(store.size)
        self._trimmed = monotonic()

    async def _in_steps(self, steps: Iterator[None]) -> None:
        """Run work of the store in its thread, step by step, with other calls in between. Raises `Interrupted` at a stop."""
        while not self._stopped:
            if await self._in_store(lambda: next(steps, self)) is self:
                return
        raise Interrupted("lists that were shown are erased after the next start")

    async def _in_store(self, action: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, action)


def _is_for(recommender: Recommender, event: Interaction) -> bool:
    """Return whether the kind of an event has a positive weight."""
    return recommender.schema.effect_of(event.feedback).weight > 0


def _was_shown_to(user: str, own: Remembered, recommender: Recommender) -> bool:
    """Return whether a list was shown to a user, to a session merged into the user, or to no user in particular."""
    return own.user is None or own.user == user or own.user in recommender.engine.sessions(user)
