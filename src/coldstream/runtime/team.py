"""Several who learn for one who answers: it observes every line at once, and takes over at a merge what they learned."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from coldstream.recommender import Recommender
from coldstream.runtime.learners import Learners
from coldstream.runtime.lines import Lines, batches
from coldstream.runtime.records import Record
from coldstream.snapshots.increments import State

Hire: TypeAlias = Callable[[State, int], Learners]
"""Makes so many learners that know a state."""

SENT_TOGETHER = 256
"""Lines that wait to be sent: nobody reads from learners, so that they may be a little behind."""


class Team:
    """Learners, and the lines that are on their way to them."""

    def __init__(self, learners: Learners) -> None:
        self._learners = learners
        self._waiting: list[tuple[int, Record]] = []

    def send(self, lines: Sequence[tuple[int, Record]]) -> None:
        """Let them learn lines, now or later."""
        self._waiting += lines
        if len(self._waiting) >= SENT_TOGETHER:
            self._flush()

    def merge(self, front: Recommender) -> None:
        """Let `front` know what they have learned of all lines so far. Raises `LearnersLost` where some do not answer."""
        self._flush()
        front.engine.adopt(self._learners.merge_for_front()())

    def close(self) -> None:
        """Let them go."""
        self._learners.close()

    def _flush(self) -> None:
        for batch in batches(self._waiting):
            self._learners.take(Lines.of(batch))
            self._learners.learn(len(batch))
        self._waiting = []
