"""A team of learners: lines travel to them in batches, and the recommender that answers takes over merges."""

from collections.abc import Callable, Sequence

from coldstream.cluster.exchange import adopt
from coldstream.cluster.learners import Learners, LocalLearners
from coldstream.cluster.lines import Lines, batches
from coldstream.increments import State
from coldstream.recommender import Recommender
from coldstream.runtime.records import FeaturesReleased, Record, UserForgotten, ValuesReleased
from coldstream.runtime.team import Hire

SENT_TOGETHER = 256
"""Lines that wait to be sent: nobody reads from learners, so that they may be a little behind."""


class LearnerTeam:
    """Learners of one recommender, and the lines that are on their way to them."""

    def __init__(self, front: Recommender, learners: Learners) -> None:
        self._front, self._learners = front, learners
        self._waiting: list[tuple[int, Record]] = []

    def send(self, lines: Sequence[tuple[int, Record]]) -> None:
        self._waiting += [(position, one) for position, record in lines for one in self._translated(record)]
        if len(self._waiting) >= SENT_TOGETHER:
            self._flush()

    def merge(self) -> None:
        self._flush()
        changes = self._learners.merge_for_front()()
        self._front.update_parameters(lambda shared, clock: adopt(shared, changes, clock))

    def close(self) -> None:
        self._learners.close()

    def _flush(self) -> None:
        for batch in batches(self._waiting):
            self._learners.take(Lines.of(batch))
            self._learners.learn(len(batch))
        self._waiting = []

    def _translated(self, record: Record) -> list[Record]:
        """A record as learners understand it, whose columns have other numbers."""
        match record:
            case ValuesReleased():
                return [FeaturesReleased(tuple(self._front.names_of(record.columns)))]
            case UserForgotten(columns=columns) if columns:
                return [record, FeaturesReleased(tuple(self._front.names_of(columns)))]
            case _:
                return [record]


def team_of(begin: Callable[[State, int], Learners]) -> Hire:
    """A `Hire` of learners that `begin` makes of a state."""
    return lambda front, count: LearnerTeam(front, begin(front.state(), count))


HIRE_HERE = team_of(LocalLearners)
"""Learners in this process, one after the other."""
