"""Several learners in one process, with the same results, bit by bit, as learners in processes of their own."""

from collections.abc import Callable, Sequence
from typing import Protocol

from coldstream.cluster.exchange import Changes
from coldstream.cluster.lines import Lines
from coldstream.cluster.partition import Partition, Preceding, Tested
from coldstream.snapshots.increments import State


class Learners(Protocol):
    """The protocol of several learners, wherever they run. Calls take effect in order, perhaps after they have returned."""

    count: int

    def take(self, lines: Lines) -> None:
        """Begin a batch."""

    def learn(self, upto: int) -> None:
        """Learn the lines of the batch before line `upto`."""

    def test(self, upto: int, top: int) -> Callable[[], Sequence[Tested]]:
        """Learn the lines before `upto`, ranking each event's item first; return a function that waits for the results."""

    def merge(self) -> None:
        """Merge the changes of all learners into each of them."""

    def merge_for_front(self) -> Callable[[], Sequence[Changes]]:
        """Merge, and return a function that waits for the changes, for a process that does not learn itself."""

    def states(self) -> Sequence[State]:
        """Return the state of each learner."""

    def close(self) -> None:
        """End the learners."""


class LocalLearners:
    """Learners in this process: partitions that work one after another."""

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
        """Do nothing: there is no process to end."""
