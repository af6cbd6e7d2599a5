"""How cost grows with the catalogue and with the users. Ratios are taken within this one run; compiling is excluded.

A shop's items: a brand (2 % as many as items), two of 40 genres, a price as a number, in_stock as a category.
"""

import gc
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coldstream import Categories, Category, Event, Id, Number, Recommender, Schema
from coldstream.runtime.learner import Learner
from coldstream.runtime.records import Interaction, ItemPut, LogHeader, Record, line
from coldstream.storage.store import Entry
from workloads import FULL, MATRIX, MovieLens

SHOP = Schema(
    user=[Id()],
    item=[Id(), Category("brand"), Categories("genre"), Number("price", low=0, high=100), Category("in_stock")],
    context=[Category("device")],
)
SIZES = (1_000, 10_000, 100_000, 1_000_000)
ACTIVE_USERS, ACTIVE_ITEMS, EVENTS = 500, 1_000, 4_000


def items(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """A shop's catalogue."""
    rng = np.random.default_rng(1)
    brands = rng.integers(max(1, count // 50), size=count).tolist()
    genres, prices = rng.integers(40, size=(count, 2)).tolist(), rng.uniform(1, 99, count).tolist()
    for n in range(count):
        genre = [f"genre{g}" for g in genres[n]]
        yield (
            f"item{n}",
            {"brand": f"brand{brands[n]}", "genre": genre, "price": prices[n], "in_stock": n % 10 > 0},
        )


def events(count: int = EVENTS) -> list[Event]:
    """The same events whatever the size: of the first users with the first items."""
    rng = np.random.default_rng(2)
    users, chosen = rng.integers(ACTIVE_USERS, size=count).tolist(), (rng.random(count) ** 2 * ACTIVE_ITEMS).astype(int)
    devices = ("phone", "desk", "pad")
    return [
        Event(f"user{user}", f"item{item}", 60.0 * t, {"device": devices[t % 3]})
        for t, (user, item) in enumerate(zip(users, chosen.tolist(), strict=True))
    ]


def resident() -> int:
    """The memory this process holds, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def best(repeats: int, action: Callable[[], object], calls: int = 1) -> float:
    """Microseconds per call: the fastest of several runs, which is the one that other processes disturbed least."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times) / calls * 1e6


class Row(NamedTuple):
    """What one size costs: microseconds, but for seconds to save and load, and bytes per item."""

    items: int
    learn: float
    recommend: float
    matrix: float
    batch16: float
    put: float
    bulk_put: float
    save: float
    load: float
    bytes: float


def measured(count: int) -> Row:
    """All figures at one size."""
    gc.collect()
    before = resident()
    recommender = Recommender(SHOP, seed=1)
    start = time.perf_counter()
    recommender.put_items(items(count))
    bulk = (time.perf_counter() - start) / count * 1e6
    held = (resident() - before) / count
    stream = events()
    for event in stream[:2000]:
        recommender.learn(event)
    learn = best(3, lambda: [recommender.learn(event) for event in stream[2000:]], len(stream) - 2000)
    users = [f"user{n}" for n in range(16)]
    repeats = max(3, min(30, 3_000_000 // count))
    one = best(repeats, lambda: [recommender.recommend(user, 10) for user in users], len(users))
    requests = [recommender.serving.encode_request(user, 10) for user in users]
    batch = best(repeats, lambda: recommender.serving.recommend_batch(requests))
    some = [(f"item{n}", {"brand": f"brand{n % 7}", "price": 5.0}) for n in range(200)]
    put = best(3, lambda: [recommender.put_item(*pair) for pair in some], len(some))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot"
        save = best(1, lambda: recommender.save(path)) / 1e6
        load = best(1, lambda: Recommender.load(path)) / 1e6
    gc.collect()
    return Row(count, learn, one, matrix(count, users, repeats), batch, put, bulk, save, load, held)


def matrix(count: int, users: list[str], repeats: int) -> float:
    """The plain scan of matrix factorization over as many items: ids alone, no weights, nothing that is counted."""
    plain = Recommender(Schema(), "default", seed=1, history=0, trends=(), neighbours=0, **MATRIX)
    plain.put_items((f"item{n}", {}) for n in range(count))
    plain.put_users((user, {}) for user in users)
    for event in events(200):
        plain.learn(Event(event.user, event.item))
    return best(repeats, lambda: [plain.recommend(user, 10) for user in users], len(users))


def catalogues() -> None:
    """The table by items."""
    measured(500)  # compiles, or loads what was compiled before
    print("items, each with a brand, two genres, a price and in_stock; default preset; µs, seconds and bytes per item")
    titles = ("learn", "recommend", "÷ MF", "16 ÷ one", "put", "bulk put", "save s", "load s", "bytes")
    print(f"{'items':>10}" + "".join(f"{title:>10}" for title in titles))
    rows = []
    for count in SIZES:
        if count <= LARGEST:
            row = measured(count)
            rows.append(row)
            ratios = f"{row.recommend / row.matrix:>10.2f}{row.batch16 / row.recommend:>10.1f}"
            rest = f"{row.put:>10.0f}{row.bulk_put:>10.1f}{row.save:>10.2f}{row.load:>10.2f}{row.bytes:>10.0f}"
            print(f"{row.items:>10,}{row.learn:>10.0f}{row.recommend:>10.0f}{ratios}{rest}", flush=True)
    first, last = rows[0], rows[-1]
    print(f"learn, {last.items:,} items ÷ {first.items:,}: {last.learn / first.learn:.2f}   (≤ 1.5)")
    print(f"recommend ÷ matrix factorization at {last.items:,}: {last.recommend / last.matrix:.2f}   (≤ 2.2)")


def people() -> None:
    """The table by users: 1,000 items, and users of whom each had three."""
    print("\nusers, each with three events; 1,000 items")
    print(f"{'users':>10}{'learn':>9}{'bulk put':>10}{'bytes a user':>14}{'bytes a feature':>17}{'save':>8}{'load':>8}")
    for count in (10_000, 100_000, 1_000_000):
        if count > LARGEST:
            continue
        gc.collect()
        recommender = Recommender(SHOP, seed=1)
        recommender.put_items(items(1_000))
        before, features = resident(), recommender.size.features
        start = time.perf_counter()
        recommender.put_users((f"user{n}", {}) for n in range(count))
        bulk = (time.perf_counter() - start) / count * 1e6
        bare = (resident() - before) / max(1, recommender.size.features - features)
        rng = np.random.default_rng(3)
        chosen = (rng.random(3 * count) ** 2 * 1_000).astype(int).tolist()
        lines = [(n + 1, Event(f"user{n % count}", f"item{item}")) for n, item in enumerate(chosen)]
        recommender.engine.replay(lines[: min(3 * count, 300_000)])
        held = (resident() - before) / count
        recent = [event for _, event in lines[-2000:]]
        learn = best(3, lambda r=recommender, e=recent: [r.learn(event) for event in e], len(recent))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "snapshot"
            save = best(1, lambda r=recommender, p=path: r.save(p)) / 1e6
            load = best(1, lambda p=path: Recommender.load(p)) / 1e6
        print(f"{count:>10,}{learn:>8.0f}µ{bulk:>9.1f}µ{held:>14.0f}{bare:>17.0f}{save:>7.2f}s{load:>7.2f}s", flush=True)
        del recommender, lines


def newcomers() -> None:
    """The table by values: every event brings one that nobody saw before, and as many as may stay are there already."""
    print("\nvalues of a field that is full, of which every event brings a new one; µs, and the longest of 1,000")
    print(f"{'values':>10}{'learn':>10}{'longest':>10}")
    means = []
    for most in (1_000, 10_000, 100_000, 300_000):
        if most > LARGEST:
            continue
        recommender = Recommender(replace(SHOP, context=(Category("visit", most=most),)), seed=1)
        recommender.put_items(items(1_000))
        stream = ((n, Event(f"user{n % 500}", f"item{n % 1_000}", context={"visit": f"v{n}"})) for n in itertools.count(1))
        while sum(recommender.memory.gone.values()) <= most // 4:  # gaps are no longer one behind the other
            recommender.engine.replay(list(islice(stream, 1_000)))
        times = []
        for _, event in islice(stream, 1_000):
            start = time.perf_counter()
            recommender.learn(event)
            times.append((time.perf_counter() - start) * 1e6)
        means.append(float(np.mean(times)))
        print(f"{most:>10,}{means[-1]:>10.0f}{max(times):>10.0f}", flush=True)
    print(f"learn, most values ÷ fewest: {means[-1] / means[0]:.2f}")


def replays() -> None:
    """Seconds per million lines of a log that is replayed, at ML-100k's shape and over 100,000 items."""
    print("\nreplay of a log, lines decoded from JSON, per million lines")
    films = MovieLens()
    shapes: dict[str, tuple[Schema, list[Record]]] = {
        "ML-100k's shape": (FULL, [*_films(films), *(_interaction(event) for event in films.events(40_000))]),
        f"{min(LARGEST, 100_000):,} items of the shop": (
            SHOP,
            [*(ItemPut(*item) for item in items(min(LARGEST, 100_000))), *map(_interaction, events(40_000))],
        ),
    }
    times = {}
    for name, (schema, records) in shapes.items():
        learner = Learner.begun(LogHeader(schema.document(), Recommender(schema).hyperparameters.document(), 1), 1)
        entries = [Entry(position, line(record).body) for position, record in enumerate(records, 2)]
        puts = sum(isinstance(record, ItemPut) for record in records)
        learner.replay(entries[: puts + 20_000])
        start = time.perf_counter()
        learner.replay(entries[puts + 20_000 :])
        times[name] = (time.perf_counter() - start) / 20_000 * 1e6
        print(f"  {name:<28}{times[name]:>8.1f} s")
    first, second = times.values()
    print(f"  ratio {second / first:.2f}   (≤ 45 s, and ≤ 1.5)")


def _films(films: MovieLens) -> list[Record]:
    return [ItemPut(f"i{n}", {"genre": [f"genre{n % 18}", f"genre{n % 7}"]}) for n in range(films.items)]


def _interaction(event: Event) -> Interaction:
    return Interaction(event.user, event.item, event.time, dict(event.context))


LARGEST = 1_000_000
if __name__ == "__main__":
    LARGEST = int(sys.argv[1]) if len(sys.argv) > 1 else LARGEST
    catalogues()
    people()
    newcomers()
    replays()
