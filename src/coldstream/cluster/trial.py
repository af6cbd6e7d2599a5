"""Trials with several learners: test, then learn, with the usual protocol and global ranks, in batches."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from coldstream.cluster.learners import Learners
from coldstream.cluster.lines import Lines
from coldstream.cluster.partition import Tested
from coldstream.evaluation.model import Model
from coldstream.evaluation.prequential import Arrivals, Trial, check_trial, split, train
from coldstream.events.event import Event
from coldstream.events.stream import Stream
from coldstream.runtime.records import Interaction, ItemPut, Record, UserPut
from coldstream.snapshots.increments import State

AHEAD = 3
"""Most steps in progress before the results of the first are awaited."""

STEPS = 4
"""Merges per batch."""


class _Batch(NamedTuple):
    """Events of a stream with the arrivals before them, and the lines after which to merge."""

    lines: Lines
    steps: Sequence[tuple[int, int]]
    """The line that each step ends before, and its number of events."""


def run_trial(
    model: Model,
    stream: Stream,
    top: int,
    begin: Callable[[State], Learners],
    merge_every: int,
    advance: Callable[[int], None],
) -> Trial:
    """Train in one process, then continue with several learners, which merge after every `merge_every` events."""
    check_trial(stream, top)
    arrivals, (learned, first) = _Lines(model, stream), split(len(stream.events))
    train_ns = train(model, stream.events, arrivals)
    learners = begin(model.recommender.state())
    try:
        for batch in arrivals.batches(stream.events[learned:first], merge_every):
            learners.take(batch.lines)
            for upto, _ in batch.steps:
                learners.learn(upto)
                learners.merge()
        advance(first)
        arrivals.new.clear()
        found, done = list[tuple[int, Sequence[Tested]]](), 0
        for number, results in _tested(learners, arrivals.batches(stream.events[first:], merge_every), top):
            found.append((number, results))
            done += sum(len(one.rank) for one in results)
            advance(first + done)
    finally:
        learners.close()
    return _trial(first, found, arrivals, train_ns)


class _Lines(Arrivals):
    """Events as lines of a log, each after the puts of its new user and item."""

    def __init__(self, model: Model, stream: Stream) -> None:
        super().__init__(model, stream)
        self.new: list[tuple[bool, bool]] = []
        """For every event, whether its user and its item were new."""
        self._model = model
        self._position = 0

    def batches(self, events: Sequence[Event], merge_every: int) -> Iterator[_Batch]:
        """Split events into batches; the very last step may be shorter than the others."""
        self._position = self._position or self._model.recommender.position
        for begin in range(0, len(events), STEPS * merge_every):
            lines, steps = list[tuple[int, Record]](), list[tuple[int, int]]()
            for start in range(begin, min(begin + STEPS * merge_every, len(events)), merge_every):
                some = events[start : start + merge_every]
                for event in some:
                    lines += self._lines(event)
                steps.append((len(lines), len(some)))
            yield _Batch(Lines.of(lines), steps)

    def _lines(self, event: Event) -> list[tuple[int, Record]]:
        new_user, new_item, records = event.user not in self.users, event.item not in self.items, list[Record]()
        self.new.append((new_user, new_item))
        if new_user:
            self.users.add(event.user)
            records.append(UserPut(event.user, dict(self.stream.users.get(event.user, {}))))
        if new_item:
            self.items.add(event.item)
            records.append(ItemPut(event.item, dict(self.stream.items.get(event.item, {}))))
        self._position += 1
        records.append(Interaction(event.user, event.item, event.time, dict(event.context)))
        return [(self._position, record) for record in records]


def _tested(learners: Learners, batches: Iterator[_Batch], top: int) -> Iterator[tuple[int, Sequence[Tested]]]:
    """Yield the results of every step, with the number of the first event of its batch."""
    waiting: deque[tuple[int, Callable[[], Sequence[Tested]]]] = deque()
    first = 0
    for batch in batches:
        learners.take(batch.lines)
        for upto, _ in batch.steps:
            waiting.append((first, learners.test(upto, top)))
            learners.merge()
            if len(waiting) > AHEAD:
                number, results = waiting.popleft()
                yield number, results()
        first += sum(events for _, events in batch.steps)
    for number, results in waiting:
        yield number, results()


def _trial(first: int, found: Sequence[tuple[int, Sequence[Tested]]], arrivals: _Lines, train_ns: int) -> Trial:
    parts = [(start + one.number, one) for start, results in found for one in results]
    events = len(arrivals.new)
    candidates, recommend_ns, update_ns = (np.zeros(events, np.int64) for _ in range(3))
    rank, recommended = np.zeros(events), set[int]()
    for at, one in parts:
        rank[at], candidates[at] = one.rank, one.candidates
        recommend_ns[at], update_ns[at] = one.recommend_ns, one.update_ns
        recommended.update(one.recommended.tolist())
    new = np.array(arrivals.new, np.bool_).reshape(events, 2)
    return Trial(
        first=first,
        rank=rank,
        candidates=candidates,
        new_user=new[:, 0],
        new_item=new[:, 1],
        recommend_ns=recommend_ns,
        update_ns=update_ns,
        train_ns=train_ns,
        recommended=len(recommended),
        registered=len(arrivals.items),
    )
