"""Learning on the event loop, in slices between which others get their turn, and ranking before it while there is time."""

import asyncio
from collections.abc import Iterable
from time import perf_counter

from coldstream.runtime.learner import Learner
from coldstream.runtime.records import Interaction, ItemPut, Record, UserPut
from coldstream.runtime.replication.progress import Progress
from coldstream.runtime.turns import SLICE, TURNS
from coldstream.runtime.writing.time_budget import TimeBudget
from coldstream.scoring.ranking import Rank
from coldstream.support.memory_tuning import RoomAhead

LONGEST_PIECE = 16
"""Records that are learned in one go: enough to share the price of a call, few enough for a slice."""

VALUES = 16
"""So many values of a context or of attributes count as much as a record does: all of them may be new."""


class LiveLearning:
    """Learns lines of the log as they come. A share of the time may go into ranking them before."""

    def __init__(self, learner: Learner, share: float, progress: Progress) -> None:
        self._learner, self._budget, self._progress = learner, TimeBudget(share), progress
        self._room = RoomAhead(lambda: learner.recommender.inspection)
        self._since = perf_counter()

    def begin(self) -> None:
        """Begin a slice: others had their turn until now."""
        self._since = perf_counter()

    async def learn(self, lines: Iterable[tuple[int, Record]]) -> None:
        """Do what lines say, in order."""
        unranked, weight = list[tuple[int, Record]](), 0  # those that nothing has to be asked before, learned in one go
        for position, record in lines:
            if isinstance(record, Interaction) and self._budget.left():
                self._apply(unranked)
                self._learner.apply(position, record, self._ranks(record))
                weight = 0
            else:
                unranked.append((position, record))
                weight += _weight(record)
            if weight >= LONGEST_PIECE or perf_counter() - self._since > SLICE:
                self._apply(unranked)
                weight = 0
                if perf_counter() - self._since > SLICE:
                    self._progress.reached(self._learner.position)
                    for _ in range(TURNS):
                        await asyncio.sleep(0)
                    self._since = perf_counter()
        self._apply(unranked)
        self._progress.reached(self._learner.position)
        self._room.see_to_it()

    def _apply(self, unranked: list[tuple[int, Record]]) -> None:
        self._learner.apply_all(unranked)
        unranked.clear()

    def _ranks(self, interaction: Interaction) -> list[Rank] | None:
        started = perf_counter()
        ranks = self._learner.test(interaction)
        self._budget.spend(perf_counter() - started)
        return ranks


def _weight(record: Record) -> int:
    """How long it takes to learn a record, as a multiple of what most take."""
    match record:
        case Interaction():
            values = record.context.values()
        case ItemPut() | UserPut():
            values = record.attributes.values()
        case _:
            return 1
    return 1 + sum(len(own) if isinstance(own, list) else 1 for own in values) // VALUES
