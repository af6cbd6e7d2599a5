"""What shards of the catalogue do to the time of one `recommend`, and how much travels.

For each size: the plain scan, and shards on Ray, in turns within one run, so that ratios mean something; then the bytes of a
request, and of an update after a merge of 500 events. It needs a core for each shard and one for this process:

    python benchmarks/shards.py                                     # 200,000 and 1,000,000 items, 1, 2 and 4 shards
    python benchmarks/shards.py --items 20000 --shards 1 2          # a first look
    python benchmarks/shards.py --local                             # without Ray: what parting and merging cost
"""

import argparse
import os
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter, sleep
from typing import Any

os.environ.setdefault("RAY_AUTH_MODE", "disabled")

import numpy as np

from coldstream import Categories, Category, Event, Id, Number, Recommender, Schema
from coldstream.engines.ray.session import connected
from coldstream.engines.ray.shards import RayShards
from coldstream.scoring.questions import Part, Question
from coldstream.scoring.shards import BeginShards, LocalShards

SCHEMA = Schema(user=[Id()], item=[Id(), Category("brand"), Categories("genre"), Number("price", scale=10)])
LEARNED_BY_OTHERS = 500


def shop(items: int) -> Recommender:
    """A shop with so many items, some of which were chosen."""
    rng, own = np.random.default_rng(1), Recommender(SCHEMA, seed=1)
    genres, brands = rng.integers(20, size=(items, 2)).tolist(), rng.integers(200, size=items).tolist()
    own.put_items(
        (f"i{n}", {"brand": f"b{brand}", "genre": [f"g{one}" for one in sorted(set(pair))], "price": n % 50})
        for n, (brand, pair) in enumerate(zip(brands, genres, strict=True))
    )
    learn(own, rng, 3000)
    return own


def learn(own: Recommender, rng: np.random.Generator, events: int) -> None:
    """So many events at once, of popular items and others."""
    items, count = own.size.items, events
    chosen = (rng.random(count) ** 3 * items).astype(int).tolist()
    last = own.position
    own.replay([(last + 1 + n, Event(f"u{rng.integers(100)}", f"i{one}")) for n, one in enumerate(chosen)])


def size_of(value: Any) -> int:
    """Bytes of the arrays in it."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(size_of, value)) if isinstance(value, tuple) else 0


class Weighed:
    """Shards that note how many bytes go through."""

    def __init__(self, shards: Any) -> None:
        self._shards = shards
        self.asked: list[int] = []
        self.told: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shards, name)

    def best(self, known: int, question: Question, parts: list[Part]) -> Any:
        self.asked.append(size_of(question) * self.count + sum(map(size_of, parts)))
        return self._shards.best(known, question, parts)

    def update(self, number: int, updates: Any) -> None:
        self.told.append(sum(map(size_of, updates)))
        self._shards.update(number, updates)


def milliseconds(action: Callable[[], object], calls: int) -> list[float]:
    """How long each of so many calls took."""
    times = []
    for _ in range(calls):
        started = perf_counter()
        action()
        times.append(1000 * (perf_counter() - started))
    return times


def compare(own: Recommender, shards: int, begin: BeginShards, rounds: int) -> None:
    """One request by shards and by the plain scan, in turns."""
    made: list[Weighed] = []

    def begun(shape: Any) -> Any:
        made.append(Weighed(begin(shape)))
        return made[-1]

    shared, plain = own._shared, own._shared.scorer
    own.scan_in_shards(begun)
    started = perf_counter()
    while not own.shards:
        own.tell_shards()
        sleep(0.01)
    filled, weight = perf_counter() - started, sum(made[-1].told)
    sharded, here, there = shared.scorer, list[float](), list[float]()
    asked = own.encode_request("u1", 10)
    for _ in range(rounds):
        here += milliseconds(lambda: plain.top([asked], own.events), 5)
        there += milliseconds(lambda: sharded.top([asked], own.events), 5)
        assert own.shards == shards
    request = made[-1].asked[-1]
    before = len(made[-1].told)
    learn(own, np.random.default_rng(9), LEARNED_BY_OTHERS)
    updating = milliseconds(own.tell_shards, 1)[0]
    rows = own._sharded._updates.rows - own.size.items  # type: ignore[union-attr]
    update = sum(made[-1].told[before:])
    best, alone = min(there), min(here)
    print(
        f"  {shards} shards: {best:8.2f} ms (median {median(there):.2f}), plain {alone:.2f} (median {median(here):.2f}), "
        f"ratio {best / alone:.2f}\n"
        f"     filled with {weight / 1e6:.1f} MB in {filled:.1f} s; a request {request / 1e3:.1f} kB; "
        f"after {LEARNED_BY_OTHERS} events {rows} items, {update / 1e6:.2f} MB, told in {updating:.1f} ms",
        flush=True,
    )
    own.scan_in_shards(None)


def main() -> None:
    """Compare at every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[200_000, 1_000_000])
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--local", action="store_true", help="shards in this process, one after the other")
    args = parser.parse_args()
    for items in args.items:
        own = shop(items)
        print(f"{items:,} items, {own._shared.catalogue.items.combinations.size:,} combinations", flush=True)
        for shards in args.shards:
            if args.local:
                compare(own, shards, partial(LocalShards, shards), args.rounds)
                continue
            with connected(None, shards) as ray:
                compare(own, shards, partial(RayShards, ray, shards), args.rounds)


if __name__ == "__main__":
    main()
