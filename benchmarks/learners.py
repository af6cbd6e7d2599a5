"""How much faster several learners learn, and what a merge takes.

A plain process, one learner on Ray and two, in turns on the same events; ratios are of one run. It needs ML-1M in
$COLDSTREAM_DATA, and as many free cores as learners.
"""

import argparse
import os
from collections.abc import Callable
from time import perf_counter

os.environ.setdefault("RAY_AUTH_MODE", "disabled")

from coldstream import Recommender
from coldstream.engines.ray.learners import RayLearners
from coldstream.engines.ray.session import connected
from coldstream.evaluation.methods import parse_method
from coldstream.evaluation.model import Model
from coldstream.evaluation.workload import Known, loaded
from coldstream.increments import State
from coldstream.runtime.learners import LocalLearners
from coldstream.runtime.lines import Lines
from coldstream.runtime.records import Interaction

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
        own.replay([(position, record.event()) for position, record in lines.records()])
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


def merges(state: State, given: list[Lines], learners: int, every: int) -> tuple[float, float, int]:
    """Milliseconds to find out what was changed and to merge it, and bytes that a learner sends."""
    own = LocalLearners(state, learners)
    found, merged, sizes = list[float](), list[float](), list[int]()
    for lines in given[:4]:
        own.take(lines)
        for upto in range(every, len(lines.position) + 1, every):
            own.learn(upto)
            started = perf_counter()
            changes = [one.changes() for one in own.partitions]
            found.append((perf_counter() - started) / learners)
            sizes += [one.size for one in changes]
            started = perf_counter()
            for one in own.partitions:
                one.merge(changes)
            merged.append((perf_counter() - started) / learners)
    return 1e3 * min(found), 1e3 * min(merged), sorted(sizes)[len(sizes) // 2]


def main() -> None:
    """Measure, and say it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--past", type=int, default=40_000)
    parser.add_argument("--events", type=int, default=30_000)
    parser.add_argument("--every", type=int, default=500)
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    state, given = begun(args.data, args.past), batches(args.data, args.past, args.events)
    for learners in (2, 4):
        changes, merge, size = merges(state, given, learners, args.every)
        print(f"{learners} learners, a merge after {args.every} events: {changes:.1f} ms to find what changed,", end=" ")
        print(f"{merge:.1f} ms to merge, {size / 1e6:.2f} MB from each", flush=True)
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
