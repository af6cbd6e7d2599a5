"""Learning on the event loop, in slices between which others get their turn, and ranking before it while there is time."""

import asyncio
from collections.abc import Iterable
from time import perf_counter, process_time

from coldstream.runtime.learner import Learner
from coldstream.runtime.records import Interaction, ItemPut, Record, UserPut
from coldstream.runtime.replication.progress import Progress
from coldstream.runtime.turns import SLICE, TURNS
from coldstream.scoring.ranking import Rank
from coldstream.support.memory_tuning import RoomAhead

MOST_SAVED = 0.05
"""Seconds that can be saved up."""

ALWAYS = 0.02
"""The share of all time that is earned however busy the process is, so that nothing ever stops for good."""


class TimeBudget:
    """Seconds earned as a share of the time in which the process had nothing to do, and spent by what is measured.

    A share of 1 or more is never used up.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._saved = MOST_SAVED
        self._since, self._worked = perf_counter(), process_time()

    def left(self) -> bool:
        """Whether there is anything to spend."""
        now, worked = perf_counter(), process_time()
        passed = now - self._since
        idle = max(passed - (worked - self._worked), 0.0)
        self._saved = min(self._saved + max(self._share * idle, min(self._share, ALWAYS) * passed), MOST_SAVED)
        self._since, self._worked = now, worked
        return self._share >= 1.0 or self._saved > 0

    def spend(self, seconds: float) -> None:
        """So much was spent, perhaps more than there was: the next then waits longer."""
        self._saved -= seconds


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
