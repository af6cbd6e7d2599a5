"""A team of learners: sends them lines in batches, and adopts their merges in the recommender that answers requests."""

from collections.abc import Callable, Sequence

from coldstream.cluster.exchange import adopt
from coldstream.cluster.learners import Learners, LocalLearners
from coldstream.cluster.lines import Lines, batches
from coldstream.recommender import Recommender
from coldstream.runtime.records import Record
from coldstream.runtime.team import Hire
from coldstream.snapshots.increments import State

SENT_TOGETHER = 256
"""Lines collected before they are sent: no request reads from learners, so they may lag a little."""


class LearnerTeam:
    """The learners of one recommender, and the lines on their way to them."""

    def __init__(self, front: Recommender, learners: Learners) -> None:
        self._front, self._learners = front, learners
        self._waiting: list[tuple[int, Record]] = []

    def send(self, lines: Sequence[tuple[int, Record]]) -> None:
        self._waiting += [(position, one) for position, record in lines for one in record.for_team(self._front)]
        if len(self._waiting) >= SENT_TOGETHER:
            self._flush()

    def merge(self) -> None:
        self._flush()
        changes = self._learners.merge_for_front()()
        engine = self._front.engine
        adopt(engine.shared, changes, engine.clock)

    def close(self) -> None:
        self._learners.close()

    def _flush(self) -> None:
        for batch in batches(self._waiting):
            self._learners.take(Lines.of(batch))
            self._learners.learn(len(batch))
        self._waiting = []


def team_of(begin: Callable[[State, int], Learners]) -> Hire:
    """Return a `Hire` of learners that `begin` makes from a state."""
    return lambda front, count: LearnerTeam(front, begin(front.state(), count))


HIRE_HERE = team_of(LocalLearners)
"""A `Hire` of learners in this process, which work one after another."""
