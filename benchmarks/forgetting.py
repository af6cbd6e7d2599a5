"""Does learning freeze? A stream whose taste changes at half: plain AdaGrad, AdaGrad that begins anew, and a newcomer.

AdaGrad's sums only grow, and steps shrink with their root: after millions of events a change of taste is hardly followed.
Here everybody's taste is drawn anew at half of the stream. 100,000 events later, recall@10 of a recommender that notices
(`renewal`), of one that only fades (`adagrad_window`) and of one that does neither are compared with one that never saw the
old taste.

    python benchmarks/forgetting.py --events 10000000 --after 100000
"""

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream import Event, Recommender, Schema

USERS, ITEMS, FACTORS = 2_000, 1_000, 8
AFTER, TESTED, TOP = 100_000, 5_000, 10
PIECE = 10_000


def choices(seed: int) -> NDArray[np.float64]:
    """For every user, the cumulative probabilities of the items: one taste."""
    rng = np.random.default_rng(seed)
    liking = 1.5 * rng.normal(size=(USERS, FACTORS)) @ rng.normal(size=(ITEMS, FACTORS)).T
    odds = np.exp(liking - liking.max(axis=1, keepdims=True))
    return np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)


def stream(taste: NDArray[np.float64], count: int, seed: int) -> Iterator[list[Event]]:
    """Events of one taste, in pieces."""
    rng = np.random.default_rng(seed)
    for first in range(0, count, PIECE):
        users = rng.integers(USERS, size=min(PIECE, count - first)).tolist()
        drawn = rng.random(len(users)).tolist()
        items = [int(np.searchsorted(taste[user], one)) for user, one in zip(users, drawn, strict=True)]
        yield [Event(f"u{user}", f"i{min(item, ITEMS - 1)}") for user, item in zip(users, items, strict=True)]


def recall(recommender: Recommender, taste: NDArray[np.float64], seed: int) -> float:
    """Of events that are ranked and then learned, how many had their item among the first."""
    hits = 0
    for piece in stream(taste, TESTED, seed):
        for event in piece:
            hits += recommender.rank(event.user, event.item).position < TOP
            recommender.learn(event)
    return hits / TESTED


class Outcome(NamedTuple):
    """Recall at the end of the old taste, 100,000 events into the new one, and at the end; and µs per event."""

    name: str
    old: float
    new: float
    end: float
    cost: float


def run(name: str, renewal: float, window: float, before: int, after: int) -> Outcome:
    """One recommender through its part of the stream."""
    recommender = Recommender(Schema(exclude_seen=False), seed=1, renewal=renewal, adagrad_window=window)
    recommender.put_items((f"i{n}", {}) for n in range(ITEMS))
    old, new, start = choices(1), choices(2), time.perf_counter()
    learned = [_learned(recommender, old, before, 3), _learned(recommender, new, AFTER, 4)]
    learned.append(_learned(recommender, new, max(after - AFTER, 0), 5))
    events = before + max(after, AFTER)
    return Outcome(name, *learned, (time.perf_counter() - start) / events * 1e6)


def _learned(recommender: Recommender, taste: NDArray[np.float64], count: int, seed: int) -> float:
    """Learn events of a taste, the last of them one by one and ranked before; recall of those."""
    if not count:
        return float("nan")
    for piece in stream(taste, count - TESTED, seed):
        first = recommender.position + 1
        recommender.engine.replay(list(enumerate(piece, first)))
    return recall(recommender, taste, seed + 100)


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="of the whole stream (a million)")
    parser.add_argument("--after", type=int, help="events of the new taste (half of them)")
    parser.add_argument("--renewal", type=float, nargs="*", default=[1.0], help="surprise at which sums begin anew")
    parser.add_argument("--window", type=float, nargs="*", default=[20_000], help="updates that are remembered")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    half = options.events // 2
    after = half if options.after is None else options.after
    asked = [("never saw the old taste", 0.0, 0.0, 0, AFTER), ("plain AdaGrad", 0.0, 0.0, half, after)]
    asked += [(f"renewal at {renewal:g}", renewal, 0.0, half, after) for renewal in options.renewal]
    asked += [(f"window of {window:,.0f}", 0.0, window, half, after) for window in options.window]
    print(f"{options.events:,} events of {USERS:,} users with {ITEMS:,} items; the taste changes at half; recall@{TOP}")
    print(f"{'':>26}{'old taste':>12}{'+100,000':>12}{'of newcomer':>13}{'at the end':>12}{'µs an event':>13}")
    with ProcessPoolExecutor(options.jobs) as pool:
        outcomes = [pool.submit(run, *one) for one in asked]
        newcomer = outcomes[0].result()
        for outcome in outcomes:
            name, old, new, end, cost = outcome.result()
            print(f"{name:>26}{old:>12.4f}{new:>12.4f}{new / newcomer.new:>12.1%} {end:>12.4f}{cost:>13.0f}", flush=True)


if __name__ == "__main__":
    main()
