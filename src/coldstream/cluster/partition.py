"""A partition: one of several learners of a log, which applies every line and learns from its own users' events only."""

from collections.abc import Iterator, Sequence
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np

from coldstream.bounds.bounds import Bounds
from coldstream.cluster.exchange import Changes, Exchange, owner
from coldstream.cluster.learning import Elsewhere, replay_own
from coldstream.cluster.lines import Lines
from coldstream.cluster.partitioning import own_bounds, part_of
from coldstream.errors import Diverged, Interrupted
from coldstream.events.event import Event
from coldstream.recommender import Recommender
from coldstream.runtime.records import BoundsChanged, Interaction, Record, UserPut
from coldstream.snapshots.increments import State
from coldstream.support.arrays import Doubles, Flags, Integers, Longs
from coldstream.support.memory_tuning import collection_paused


class Preceding(NamedTuple):
    """The recent items before the events of one learner's users in a batch, one event after another."""

    slot: Integers
    length: Integers
    counted: Flags
    """Whether each event counts in trends, neighbours and choices."""

    @classmethod
    def of(cls, found: Sequence[tuple[Sequence[int], bool]]) -> "Preceding":
        """Pack lists of slots, each with whether its event counts."""
        slots = [slot for own, _ in found for slot in own]
        lengths, counted = [len(own) for own, _ in found], [own for _, own in found]
        return cls(np.array(slots, np.int32), np.array(lengths, np.int32), np.array(counted, np.uint8))

    def lists(self) -> Iterator[tuple[list[int], bool]]:
        """Unpack the lists of slots, each with whether its event counts."""
        slots, end = self.slot.tolist(), 0
        for length, counted in zip(self.length.tolist(), self.counted.tolist(), strict=True):
            end += length
            yield slots[end - length : end], bool(counted)


class Tested(NamedTuple):
    """Ranks of the events of one learner's users, taken before each was learned."""

    number: Longs
    """Number of each event in the batch."""
    rank: Doubles
    candidates: Longs
    recommend_ns: Longs
    update_ns: Longs
    recommended: Integers
    """Slots of all recommended items, each once."""


class Partition:
    """A recommender with all items and with the users of one learner.

    Batches are numbered: each must be taken once, in order.
    """

    def __init__(self, state: State, learner: int, learners: int) -> None:
        self.recommender = Recommender.from_state(*part_of(state, learner, learners))
        self._engine = self.recommender.engine
        self._engine.follow_learners(learners)
        self.exchange = Exchange(self._engine.shared, self._engine.users, learner, learners)
        self.number = 0
        """Number of the last batch taken."""
        self.learned = 0
        """Number of events of its own users learned so far."""
        self._lines: list[tuple[int, Record]] = []
        self._done = 0
        self._events: Iterator[tuple[Event, int]] = iter(())
        self._slots: list[int] = []
        self._others: list[Iterator[tuple[list[int], bool]]] = []

    # A batch

    def take(self, number: int, lines: Lines) -> Preceding:
        """Take a batch to learn in steps; return what other learners must know of it. Raise `Interrupted` out of order."""
        if number != self.number + 1:
            raise Interrupted(f"batch {number} does not follow batch {self.number}; begin again from a snapshot")
        if self._done < len(self._lines):
            raise Interrupted(f"batch {self.number} is learned up to line {self._done} only; begin again from a snapshot")
        with collection_paused():
            self.number, self._lines, self._done = number, lines.records(), 0
            events = [record.event() for _, record in self._lines if isinstance(record, Interaction)]
            owners = [owner(event.user, self.exchange.learners) for event in events]
            self._events, self._slots, self._others = zip(events, owners, strict=True), [], []
            return Preceding.of(self.exchange.preceding(events, owners) if self.exchange.learners > 1 else [])

    def learn(self, upto: int, preceding: Sequence[Preceding]) -> None:
        """Apply the lines of the batch before line `upto`."""
        self._meet(preceding)
        events = list[tuple[int, Event | Elsewhere]]()
        for position, record in self._lines[self._done : upto]:
            if isinstance(record, Interaction):
                events.append((position, self._own_or_elsewhere()))
            else:
                self._replay(events)
                self._apply(record)
                self.exchange.follow_releases()
        self._replay(events)
        self._done = upto

    def test(self, upto: int, preceding: Sequence[Preceding], top: int) -> Tested:
        """Apply the lines before `upto`, ranking the item of each event of its own users before learning from it."""
        self._meet(preceding)
        recommender, before, found = self.recommender, list[tuple[int, Event | Elsewhere]](), list[tuple[int, ...]]()
        ranks, recommended = list[float](), set[int]()
        for position, record in self._lines[self._done : upto]:
            if not isinstance(record, Interaction):
                self._replay(before)
                self._apply(record)
                continue
            line = self._own_or_elsewhere()
            if isinstance(line, Elsewhere):
                before.append((position, line))
                continue
            self._replay(before)
            number, context, time = len(self._slots), line.context, line.time
            started = perf_counter_ns()
            best = recommender.recommend(line.user, top, context=context, time=time)
            recommend_ns = perf_counter_ns() - started
            recommended.update(recommender.engine.place(one.item).number for one in best)
            rank = recommender.rank(line.user, line.item, context=context, time=time)
            started = perf_counter_ns()
            self._learn_one(position, line)
            ranks.append(rank.position)
            found.append((number, rank.candidates, recommend_ns, perf_counter_ns() - started))
        self._replay(before)
        self._done = upto
        columns = np.array(found, np.int64).reshape(len(found), 4).T
        shown = np.array(sorted(recommended), np.int32)
        return Tested(columns[0], np.array(ranks, np.float64), columns[1], columns[2], columns[3], shown)

    def _meet(self, preceding: Sequence[Preceding]) -> None:
        if not self._others:
            self._others = [one.lists() for one in preceding]

    def _own_or_elsewhere(self) -> Event | Elsewhere:
        """Return the next event of the batch."""
        event, whose = next(self._events)
        if self.exchange.learners == 1:
            return event
        before, counted = next(self._others[whose])
        return event if whose == self.exchange.learner else Elsewhere(event, before, counted)

    def _replay(self, events: list[tuple[int, Event | Elsewhere]]) -> None:
        if events:
            self.learned += sum(isinstance(line, Event) for _, line in events)
            replay_own(self._engine, events, self._slots)
            self.exchange.follow_releases()
            events.clear()

    def _learn_one(self, position: int, event: Event) -> None:
        """Learn from one event as a single process does."""
        self.learned += 1
        try:
            self.recommender.learn(event, position=position)
        except Diverged:
            self.recommender.observe(event, position=position)
        self._slots.append(self.recommender.engine.place(event.item).number)

    def _apply(self, record: Record) -> None:
        match record:
            case UserPut() if not self.exchange.is_own(record.id):
                pass  # the user belongs to another learner
            case BoundsChanged() if self.exchange.learners > 1:
                self._engine.follow_bounds(own_bounds(Bounds.from_document(record.bounds)))
            case _:
                record.change(self.recommender)

    # Changes since the last merge

    def changes(self) -> Changes:
        """Return the changes since the last merge, except the rows of its own users' ids."""
        return self.exchange.changes()

    def own_changes(self) -> Changes:
        """Return the changes since the last merge in the rows of its own users' ids."""
        return self.exchange.own_changes()

    def merge(self, changes: Sequence[Changes]) -> int:
        """Merge the changes of all learners, and return the number of rows concerned."""
        return self.exchange.merge(changes, self._engine.clock)
