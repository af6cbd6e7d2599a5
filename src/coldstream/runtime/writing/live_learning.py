"""Learning on the event loop in time slices, and ranking of events before they are learned within a time budget."""

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
"""The largest number of seconds that a budget can save up."""

ALWAYS = 0.02
"""The fraction of all time that is earned however busy the process is, so that the evaluation never stops entirely."""


class TimeBudget:
    """A budget of seconds, earned as a share of the process's idle time and spent by measured work.

    With a share of 1 or more, the budget never runs out.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._saved = MOST_SAVED
        self._since, self._worked = perf_counter(), process_time()

    def left(self) -> bool:
        """Earn for the time since the last call, and return whether the budget is positive."""
        now, worked = perf_counter(), process_time()
        passed = now - self._since
        idle = max(passed - (worked - self._worked), 0.0)
        self._saved = min(self._saved + max(self._share * idle, min(self._share, ALWAYS) * passed), MOST_SAVED)
        self._since, self._worked = now, worked
        return self._share >= 1.0 or self._saved > 0

    def spend(self, seconds: float) -> None:
        """Take seconds from the budget, which may become negative."""
        self._saved -= seconds


LONGEST_PIECE = 16
"""The largest weight of records learned in one call: enough to share the cost of a call, little enough for a slice."""

VALUES = 16
"""The number of context or attribute values that weigh as much as one record, since all of them may be new."""


class LiveLearning:
    """Learning of log lines as they arrive, with ranking of events before they are learned for a `share` of idle time."""

    def __init__(self, learner: Learner, share: float, progress: Progress) -> None:
        self._learner, self._budget, self._progress = learner, TimeBudget(share), progress
        self._room = RoomAhead(lambda: learner.recommender.inspection)
        self._since = perf_counter()

    def begin(self) -> None:
        """Begin a time slice, after other tasks have run."""
        self._since = perf_counter()

    async def learn(self, lines: Iterable[tuple[int, Record]]) -> None:
        """Apply lines in order, and yield to other tasks after each slice."""
        unranked, weight = list[tuple[int, Record]](), 0  # lines that need no ranking are learned in one call
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
    """Return the cost of learning a record, as a multiple of the usual cost."""
    match record:
        case Interaction():
            values = record.context.values()
        case ItemPut() | UserPut():
            values = record.attributes.values()
        case _:
            return 1
    return 1 + sum(len(own) if isinstance(own, list) else 1 for own in values) // VALUES
