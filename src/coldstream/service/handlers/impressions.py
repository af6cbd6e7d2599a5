"""Impressions: which lists were shown, what was taken of them, and what was passed over.

Nobody who asks for a list waits for a disk: lists are kept in the background, moments later. Nothing that is learned depends
on them. An event that names a list has what was passed over written into its own line of the log.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_bytes, token_urlsafe
from time import monotonic, time
from typing import TypeVar

import msgspec

from coldstream.errors import StoreDamaged, StoreUnavailable, UnknownId, shown
from coldstream.events.event import MOST_PASSED_OVER
from coldstream.recommender import Recommender
from coldstream.runtime.records import Interaction, Record
from coldstream.service.handlers.shown_lists import Remembered, ShownLists
from coldstream.storage.shown import MOST_POSITIONS, PositionCount, ShownList, ShownStore, Take

log = logging.getLogger(__name__)

KEEP_EVERY = 0.5
"""Seconds after which lists that were shown are kept."""

EXPIRE_EVERY = 60.0
"""Seconds after which it is looked for lists that are too old."""

MOST_WAITING = 20_000
"""Lists that wait to be kept, where the store is slow or away; more are not."""

TROUBLE = (StoreUnavailable, StoreDamaged)
"""What a store of lists may raise, which concerns nobody who asks, learns or leaves: nothing else depends on it."""

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Waiting:
    """What the store is to be told."""

    lists: list[ShownList] = field(default_factory=list)
    takes: list[Take] = field(default_factory=list)


class Impressions:
    """What was shown by this process, in memory, and by all processes on a store, for a while."""

    def __init__(self, store: ShownStore | None = None, share: float = 1.0, retain: float = 0.0) -> None:
        self.lost = 0
        """Lists that were not kept, because too many waited."""
        self._store, self._share, self._retain = store, share, retain
        self._lists = ShownLists()
        self._waiting = _Waiting()
        self._counts: Counter[tuple[int, bool]] = Counter()  # without a store: by position, and whether it was taken
        self._thread = ThreadPoolExecutor(1, "shown")
        self._task: asyncio.Task[None] | None = None
        self._works = True
        self._owed: set[str] = set()  # whose lists the store still has, because it was away
        self._erased: set[str] = set()  # lately: another process may keep a list of theirs a moment later

    # What is shown

    def remember(self, items: Iterable[str], before: Sequence[str] = (), user: str | None = None) -> str:
        """The name of a list that is shown to a user now, after others."""
        name, own = token_urlsafe(12), (*before, *items)
        kept = Remembered(name, user, time(), own, len(before), self._is_drawn())
        self._lists.add(kept)
        if self._store is None:
            self._counts.update((place, False) for place in range(len(before), min(len(own), MOST_POSITIONS)))
        elif kept.is_kept:
            if len(self._waiting.lists) < MOST_WAITING:
                self._waiting.lists.append(ShownList(name, user, kept.time, own, len(before)))
            else:
                self.lost += 1
        return name

    def _is_drawn(self) -> bool:
        return self._share >= 1.0 or int.from_bytes(token_bytes(4)) < self._share * 2**32

    async def items(self, name: str) -> tuple[str, ...]:
        """All that was shown up to a list."""
        await self.find([name])
        own = self._lists.get(name)
        if own is None:
            message = f"recommendation_id {shown(name)} is not known here, or was too long ago"
            raise UnknownId(f"{message}; ask for the first page again, or name what was shown in deny")
        return own.items

    async def find(self, names: Collection[str]) -> None:
        """Remember those lists of some names that other processes have shown, or this one long ago."""
        unknown = {name for name in names if name not in self._lists}
        if not unknown or self._store is None:
            return
        store = self._store
        with suppress(*TROUBLE):  # what was passed over is then not known
            for one in (await self._in_store(lambda: store.find(unknown))).values():
                self._lists.add_found(one)

    # What is taken

    async def completed(self, records: Sequence[Record], recommender: Recommender) -> list[Record]:
        """Records as they are to be written: with what was passed over, as far as it is learned from."""
        names = {one.recommendation_id for one in records if isinstance(one, Interaction) and one.recommendation_id}
        await self.find(names)
        most = min(recommender.hyperparameters.passed_over, MOST_PASSED_OVER)
        return [self._completed(one, most) if isinstance(one, Interaction) else one for one in records]

    def _completed(self, event: Interaction, most: int) -> Interaction:
        own = None if event.recommendation_id is None else self._lists.get(event.recommendation_id)
        passed_over = event.passed_over or (() if own is None else own.passed_over(event.item))
        kept = passed_over[-most:] if most else ()
        return event if kept == event.passed_over else msgspec.structs.replace(event, passed_over=kept)

    def note(self, records: Iterable[Record], recommender: Recommender) -> None:
        """Records were written: what they took of lists counts, each item of a list once."""
        for one in records:
            if isinstance(one, Interaction) and one.recommendation_id is not None and _is_for(recommender, one):
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
        """How often something was shown at each position, and taken there; what was not shown is left out."""
        if self._store is None:
            places = sorted({place for place, taken in self._counts if not taken})
            return [PositionCount(place, self._counts[place, False], self._counts[place, True]) for place in places]
        await self._keep()
        try:
            return [one for one in await self._in_store(self._store.counts) if one.shown]
        except TROUBLE:
            return []

    # People

    async def erase(self, users: Collection[str]) -> None:
        """Erase the lists of users, now and once more within a minute."""
        await self._erase(users)
        self._erased |= set(users)

    async def _erase(self, users: Collection[str]) -> None:
        for user in users:
            self._lists.erase(user)
        self._waiting.lists = [one for one in self._waiting.lists if one.user not in users]
        if self._store is not None and users:
            store = self._store
            self._owed |= set(users)
            await self._in_store(lambda: store.erase(users))
            self._owed -= set(users)

    async def hand_over(self, session: str, user: str) -> None:
        """Let the lists of a session be those of a user who has logged in."""
        self._lists.hand_over(session, user)
        waiting = self._waiting
        waiting.lists = [one._replace(user=user) if one.user == session else one for one in waiting.lists]
        if self._store is not None:
            store = self._store
            await self._in_store(lambda: store.hand_over(session, user))

    # Its life

    def start(self, forgotten: Callable[[], Collection[str]]) -> None:
        """Begin to keep lists. `forgotten` tells who is to be erased: a process may have been killed before it was done."""
        if self._store is not None:
            self._task = asyncio.create_task(self._run(forgotten))

    async def stop(self) -> None:
        """Keep what is waiting, and give everything back."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._store is not None:
            await self._keep()
            with suppress(*TROUBLE):
                await self._erase(set(self._owed))
            with suppress(*TROUBLE):
                await self._in_store(self._store.close)
        self._thread.shutdown()

    async def _run(self, forgotten: Callable[[], Collection[str]]) -> None:
        store, erased, expired = self._store, set[str](), -math.inf
        assert store is not None
        while True:
            try:
                await self._keep()
                leaving = set(forgotten())
                if due := (leaving - erased) | self._owed:  # those who are owed may be out of the log by now
                    await self.erase(due)
                erased = leaving
                if monotonic() - expired >= EXPIRE_EVERY:  # a clock that is set back must not hold it up
                    again, self._erased = self._erased, set()
                    await self._erase(again)
                    await self._in_store(lambda: store.expire(time() - self._retain))
                    expired = monotonic()
            except TROUBLE as error:
                log.warning("lists that were shown cannot be looked after", extra={"reason": str(error)})
            except Exception as error:  # who is served need not suffer from it
                log.error("lists that were shown cannot be looked after", exc_info=error)
            await asyncio.sleep(KEEP_EVERY)

    async def _keep(self) -> None:
        store, waiting = self._store, self._waiting
        if store is None or not (waiting.lists or waiting.takes):
            return
        self._waiting = _Waiting()
        try:
            await self._in_store(lambda: _kept(store, waiting))
        except TROUBLE as error:
            if self._works:
                log.warning("lists that were shown are not kept", extra={"reason": str(error), "count": len(waiting.lists)})
            self._works = False
            self.lost += len(waiting.lists)
        else:
            self._works = True

    async def _in_store(self, action: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, action)


def _is_for(recommender: Recommender, event: Interaction) -> bool:
    """Whether an event speaks for its item."""
    return recommender.schema.effect_of(event.feedback).weight > 0


def _kept(store: ShownStore, waiting: _Waiting) -> None:
    if waiting.lists:
        store.keep(waiting.lists)
    if waiting.takes:
        store.take(waiting.takes)
