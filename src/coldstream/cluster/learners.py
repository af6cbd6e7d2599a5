"""Several learners in one process: what learners elsewhere lead to, in every bit, without them."""

from collections.abc import Callable, Sequence
from typing import Protocol

from coldstream.cluster.exchange import Changes
from coldstream.cluster.lines import Lines
from coldstream.cluster.partition import Partition, Preceding, Tested
from coldstream.snapshots.increments import State


class Learners(Protocol):
    """Several learners, wherever they are. What is asked of them is done in order, perhaps after the call has returned."""

    count: int

    def take(self, lines: Lines) -> None:
        """Begin a batch."""

    def learn(self, upto: int) -> None:
        """Learn the batch as far as a line."""

    def test(self, upto: int, top: int) -> Callable[[], Sequence[Tested]]:
        """The same, ranked before; the results, once they are asked for."""

    def merge(self) -> None:
        """Let all of them know what each has learned."""

    def merge_for_front(self) -> Callable[[], Sequence[Changes]]:
        """The same; what has changed by it, for whoever does not learn, once it is asked for."""

    def states(self) -> Sequence[State]:
        """What each knows."""

    def close(self) -> None:
        """Let them go."""


class LocalLearners:
    """So many partitions, one after the other."""

    def __init__(self, state: State, count: int) -> None:
        self.count = count
        self.partitions = [Partition(state, number, count) for number in range(count)]
        self._number = 0
        self._preceding: list[Preceding] = []

    def take(self, lines: Lines) -> None:
        self._number += 1
        self._preceding = [one.take(self._number, lines) for one in self.partitions]

    def learn(self, upto: int) -> None:
        for one in self.partitions:
            one.learn(upto, self._preceding)

    def test(self, upto: int, top: int) -> Callable[[], Sequence[Tested]]:
        tested = [one.test(upto, self._preceding, top) for one in self.partitions]
        return lambda: tested

    def merge(self) -> None:
        changes = [one.changes() for one in self.partitions]
        for one in self.partitions:
            one.merge(changes)

    def merge_for_front(self) -> Callable[[], Sequence[Changes]]:
        own = [one.own_changes() for one in self.partitions]
        changes = [one.changes() for one in self.partitions]
        for one in self.partitions:
            one.merge(changes)
        merged = [self.partitions[0].exchange.merged(changes), *own]
        return lambda: merged

    def states(self) -> Sequence[State]:
        return [one.recommender.state() for one in self.partitions]

    def close(self) -> None:
        """There is nothing to let go."""
