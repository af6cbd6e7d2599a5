"""How much faster several learners learn, and what a merge takes.

First what an event costs, and what that lets one hope for; then a plain process, one learner on Ray and two, in turns on the
same events. Ratios are of one run. It needs ML-1M in $COLDSTREAM_DATA, and as many free cores as learners.
"""

import argparse
import os
from collections.abc import Callable
from time import perf_counter, process_time
from typing import NamedTuple

os.environ.setdefault("RAY_AUTH_MODE", "disabled")

from coldstream import Recommender
from coldstream.cluster.learners import LocalLearners
from coldstream.cluster.lines import Lines
from coldstream.cluster.ray.learners import RayLearners
from coldstream.cluster.ray.session import connected
from coldstream.evaluation.methods import parse_method
from coldstream.evaluation.model import Model
from coldstream.evaluation.workload import Known, loaded
from coldstream.runtime.records import Interaction
from coldstream.snapshots.increments import State

BATCH = 2000


def begun(data: str, past: int) -> State:
    """A recommender that knows everybody and has learned some of the stream."""
    workload = loaded(Known(data))
    method = parse_method("coldstream").build(workload, 0)
    assert isinstance(method, Model)
    own, stream = method.recommender, workload.stream
    own.put_users((user, stream.users.get(user, {})) for user in dict.fromkeys(event.user for event in stream.events))
    own.put_items((item, stream.items.get(item, {})) for item in dict.fromkeys(event.item for event in stream.events))
    own.learn(stream.events[:past])
    return own.state()


def batches(data: str, past: int, events: int) -> list[Lines]:
    """The events behind the past, as lines of a log."""
    stream = loaded(Known(data)).stream
    some = [Interaction(e.user, e.item, e.time, dict(e.context)) for e in stream.events[past : past + events]]
    numbered = list(enumerate(some, past + 1))
    return [Lines.of(numbered[first : first + BATCH]) for first in range(0, len(numbered), BATCH)]


def plain(state: State, given: list[Lines]) -> float:
    """Seconds of a single process, decoding included."""
    own = Recommender.from_state(*state)
    started = perf_counter()
    for lines in given:
        own.engine.replay([(position, record.event()) for position, record in lines.records()])
    return perf_counter() - started


def on_ray(make: Callable[[State, int], RayLearners], state: State, given: list[Lines], learners: int, every: int) -> float:
    """Seconds of learners on Ray."""
    own = make(state, learners)
    try:
        _go(own, given[:1], every)  # what is compiled or loaded first does not count
        own.wait()
        started = perf_counter()
        _go(own, given[1:], every)
        own.wait()
        return (perf_counter() - started) * len(given) / (len(given) - 1)
    finally:
        own.close()


def _go(own: RayLearners, given: list[Lines], every: int) -> None:
    for lines in given:
        own.take(lines)
        for upto in range(every, len(lines.position) + every, every):
            own.learn(min(upto, len(lines.position)))
            own.merge()


class Costs(NamedTuple):
    """What several learners in one process take, in seconds of a core for all events and all learners together."""

    take: float
    learn: float
    change: float
    merge: float
    merges: int
    sizes: list[int]
    """Bytes that each learner sent at each merge."""


def costs(state: State, given: list[Lines], learners: int, every: int) -> Costs:
    """What learners spend on batches, on their own events and those of others, and on merges."""
    own, spent, sizes, merged = LocalLearners(state, learners), [0.0] * 4, list[int](), 0
    for number, lines in enumerate(given, 1):
        started = process_time()
        preceding = [one.take(number, lines) for one in own.partitions]
        spent[0] += process_time() - started
        for upto in range(every, len(lines.position) + every, every):
            started = process_time()
            for one in own.partitions:
                one.learn(min(upto, len(lines.position)), preceding)
            learned = process_time()
            changes = [one.changes() for one in own.partitions]
            found = process_time()
            for one in own.partitions:
                one.merge(changes)
            spent[1:] = spent[1] + learned - started, spent[2] + found - learned, spent[3] + process_time() - found
            sizes += [one.size for one in changes]
            merged += 1
    return Costs(*spent, merged, sizes)


def observed(state: State, given: list[Lines]) -> float:
    """Seconds of a core that the process in front takes to observe the same events."""
    own, spent = Recommender.from_state(*state), 0.0
    for lines in given:
        events = [(position, record.event()) for position, record in lines.records()]
        started = process_time()
        own.engine.replay_observed(events)
        spent += process_time() - started
    return spent


def _least(found: list[Costs]) -> Costs:
    """The fastest of several runs, step by step."""
    spent = [min(getattr(one, name) for one in found) for name in ("take", "learn", "change", "merge")]
    return Costs(*spent, found[0].merges, found[0].sizes)


def tell_costs(state: State, given: list[Lines], every: int, runs: int) -> None:
    """Say what an event costs, and how much faster two learners can be at most, with a core each and nothing else to do."""
    events = sum(len(lines.position) for lines in given)
    costs(state, given[:1], 2, every)  # what is compiled or loaded first does not count
    found = {learners: _least([costs(state, given, learners, every) for _ in range(runs)]) for learners in (1, 2, 4)}
    each = {n: 1e6 * (one.take + one.learn + one.change + one.merge) / n / events for n, one in found.items()}
    others = 1e6 * (found[4].learn - found[2].learn) / 2 / events
    own = 1e6 * found[2].learn / events - others
    front = 1e6 * min(observed(state, given) for _ in range(runs)) / events
    print(f"microseconds of a core: {front:.1f} to observe an event in front;", end=" ")
    print(f"at a learner {own:.1f} for an event of its own users, {others:.1f} for one of others'", end=" ")
    print(f"and {1e6 * found[2].take / 2 / events:.1f} to take either; {others / own:.2f} of an own event", flush=True)
    for learners in (2, 4):
        one, calls = found[learners], learners * found[learners].merges
        size = sorted(one.sizes)[len(one.sizes) // 2]
        print(
            f"{learners} learners, a merge after {every} events: {1e3 * one.change / calls:.1f} ms to find what changed,",
            end=" ",
        )
        print(f"{1e3 * one.merge / calls:.1f} ms to merge, {size / 1e6:.2f} MB from each;", end=" ")
        print(f"at most {each[1] / each[learners]:.2f} times one learner", flush=True)


def main() -> None:
    """Measure, and say it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--past", type=int, default=40_000)
    parser.add_argument("--events", type=int, default=30_000)
    parser.add_argument("--every", type=int, default=500)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--costs", action="store_true", help="only what an event costs; it needs one core, and no Ray")
    args = parser.parse_args()
    state, given = begun(args.data, args.past), batches(args.data, args.past, args.events)
    tell_costs(state, given, args.every, args.runs)
    if args.costs:
        return
    with connected(None, 2) as ray:
        best = dict.fromkeys(("plain", "1 on Ray", "2 on Ray"), float("inf"))
        for _ in range(args.runs):
            best["plain"] = min(best["plain"], plain(state, given))
            for learners in (1, 2):
                name = f"{learners} on Ray"
                seconds = on_ray(lambda known, count: RayLearners(ray, known, count), state, given, learners, args.every)
                best[name] = min(best[name], seconds)
            for name, seconds in best.items():
                print(f"{name:10} {args.events / seconds:8.0f} events/s  {best['plain'] / seconds:.2f} of plain", flush=True)
    print(f"two learners are {best['1 on Ray'] / best['2 on Ray']:.2f} times one")


if __name__ == "__main__":
    main()
