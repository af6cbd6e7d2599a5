"""Prequential evaluation: learn the first 30 % of a stream, then rank each later event before learning it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.errors import InvalidInput, shown
from coldstream.evaluation.method import Method, TakesMany
from coldstream.events.event import Event
from coldstream.events.stream import Stream
from coldstream.support.arrays import Doubles, Longs

EVENTS_BETWEEN_ADVANCES = 256
"""Number of events between two reports of progress."""


class Split(NamedTuple):
    """Indices of the first event learned in order and of the first event tested. Events before `learned` are trained on."""

    learned: int
    tested: int


def split(events: int) -> Split:
    """Split n events: the first int(.2 n) are trained on, the next int(.1 n) are learned in order, the rest is tested.

    >>> split(21_201)
    Split(learned=4240, tested=6360)
    """
    trained = int(0.2 * events)
    return Split(trained, trained + int(0.1 * events))


def untested(stream: Stream) -> Stream:
    """Return the part of a stream before the test, which is all that tuning may read."""
    return stream.first(split(len(stream.events)).tested)


@dataclass(frozen=True, slots=True)
class Trial:
    """The results of one method on one stream: arrays with one row per tested event, in order."""

    first: int
    """Index in the stream of the event where the test begins."""
    rank: Doubles
    """Rank of the chosen item, from 0; each tie counts half a rank."""
    candidates: Longs
    """Number of items that the chosen item was ranked among, itself included."""
    new_user: NDArray[np.bool_]
    """True where the stream has no earlier event of the user, the untested part included."""
    new_item: NDArray[np.bool_]
    """True where the stream has no earlier event of the item, the untested part included."""
    recommend_ns: Longs
    """Nanoseconds of each call of `recommend`."""
    update_ns: Longs
    """Nanoseconds of each call of `learn`."""
    train_ns: int
    """Nanoseconds of training."""
    recommended: int
    """Number of distinct items that were in the top n at least once."""
    registered: int
    """Number of items registered at the end."""
    place: Longs | None = None
    """Index in the stream of each tested event; None if all events from `first` on were tested."""


def of_known_items(trial: Trial) -> Trial:
    """Return the part of a trial whose items had earlier events; a new item is registered just before its first test."""
    known = ~trial.new_item
    rows = ("rank", "candidates", "new_user", "new_item", "recommend_ns", "update_ns")
    place = None if trial.place is None else trial.place[known]
    return replace(trial, place=place, **{name: getattr(trial, name)[known] for name in rows})


def unwatched(done: int) -> None:
    """Ignore a report of progress: the default `advance` of `run_trial`."""


def check_trial(stream: Stream, top: int) -> None:
    """Raise `InvalidInput` for a stream without events or a `top` that is not a whole number of at least 1."""
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise InvalidInput(f"top must be a whole number of 1 or more, got {shown(top)}")
    if not stream.events:
        raise InvalidInput(f"stream {stream.name!r} must have events, got {shown(stream.events)}")


def run_trial(
    method: Method,
    stream: Stream,
    top: int,
    advance: Callable[[int], None] = unwatched,
    targets: Collection[str | None] | None = None,
) -> Trial:
    """Evaluate a method on a stream, testing each event before learning it.

    `advance` is called now and then with the number of events done, and at the end with the number of all events. With
    `targets`, only events of these kinds are tested; others are only learned. Raise `InvalidInput` if no event is to be
    tested.
    """
    check_trial(stream, top)
    arrivals = Arrivals(method, stream)
    first, train_ns = _learn_the_past(method, stream.events, top, arrivals)
    advance(first)
    after, recommended = stream.events[first:], set[str]()
    tested = after if targets is None else [event for event in after if event.kind in targets]
    if not tested and targets is not None:
        met = ", ".join(sorted({str(event.kind) for event in after})) or "none"
        raise InvalidInput(f"target must be a kind of the tested events ({met}), got {shown(sorted(map(str, targets)))}")
    place = np.array([n for n, event in enumerate(after, first) if targets is None or event.kind in targets], np.int64)
    rank, candidates = np.zeros(len(tested)), np.zeros(len(tested), np.int64)
    new_user, new_item = np.zeros(len(tested), np.bool_), np.zeros(len(tested), np.bool_)
    recommend_ns, update_ns = np.zeros(len(tested), np.int64), np.zeros(len(tested), np.int64)
    t = 0
    for n, event in enumerate(after, 1):
        new = arrivals.admit(event)
        if targets is None or event.kind in targets:
            new_user[t], new_item[t] = new
            started = perf_counter_ns()
            best = method.recommend(event.user, top, context=event.context, time=event.time)
            recommend_ns[t] = perf_counter_ns() - started
            recommended.update(best)
            rank[t], candidates[t] = method.rank(event.user, event.item, context=event.context, time=event.time)
            started = perf_counter_ns()
            method.learn(event)
            update_ns[t] = perf_counter_ns() - started
            t += 1
        else:
            method.learn(event)
        if n % EVENTS_BETWEEN_ADVANCES == 0:
            advance(first + n)
    advance(len(stream.events))
    return Trial(
        first=first,
        rank=rank,
        candidates=candidates,
        new_user=new_user,
        new_item=new_item,
        recommend_ns=recommend_ns,
        update_ns=update_ns,
        train_ns=train_ns,
        recommended=len(recommended),
        registered=len(arrivals.items),
        place=None if targets is None else place,
    )


def _learn_the_past(method: Method, events: Sequence[Event], top: int, arrivals: "Arrivals") -> tuple[int, int]:
    """Train, then learn the untested events in order. Return the index where the test begins and the ns of training."""
    learned, tested = split(len(events))
    train_ns = train(method, events, arrivals)
    if isinstance(method, TakesMany):
        method.learn_many(events[learned:tested])
    else:
        for event in events[learned:tested]:
            method.learn(event)
    if tested:  # The first call may compile, which would be measured as time to recommend.
        method.recommend(events[0].user, top, context=events[0].context, time=events[0].time)
    return tested, train_ns


def train(method: Method, events: Sequence[Event], arrivals: "Arrivals") -> int:
    """Register the users and items of the untested events, and train. Return the nanoseconds of training."""
    learned, tested = split(len(events))
    arrivals.admit_all(events[:tested])
    started = perf_counter_ns()
    method.train(events[:learned])
    return perf_counter_ns() - started


class Arrivals:
    """Registration of users and items with a method, each just before its first event."""

    def __init__(self, method: Method, stream: Stream) -> None:
        self.users: set[str] = set()
        self.items: set[str] = set()
        self._method, self.stream = method, stream

    def admit_all(self, events: Sequence[Event]) -> None:
        """Register the users and items of events, in a batch if the method takes batches."""
        if not isinstance(self._method, TakesMany):
            for event in events:
                self.admit(event)
            return
        users, items = dict.fromkeys(event.user for event in events), dict.fromkeys(event.item for event in events)
        self.users.update(users)
        self.items.update(items)
        self._method.add_many(
            {user: self.stream.users.get(user, {}) for user in users},
            {item: self.stream.items.get(item, {}) for item in items},
        )

    def admit(self, event: Event) -> tuple[bool, bool]:
        """Register the user and the item of an event if they are new. Return whether the user and the item were new."""
        new_user, new_item = event.user not in self.users, event.item not in self.items
        if new_user:
            self.users.add(event.user)
            self._method.add_user(event.user, self.stream.users.get(event.user, {}))
        if new_item:
            self.items.add(event.item)
            self._method.add_item(event.item, self.stream.items.get(event.item, {}))
        return new_user, new_item
