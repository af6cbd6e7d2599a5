"""coldstream in the hands of other libraries: beside River's factorization machine; frames beside arrays. One run each."""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from river import facto

from coldstream import Event, Recommender, Schema
from coldstream.features.frames import events_of
from coldstream.river import FMRegressor

SAMPLES, ROUNDS = 5000, 7


def ratings() -> list[tuple[dict[str, str], float]]:
    """ML-100k in order of time: user and item, and what was given."""
    path = Path(os.environ.get("COLDSTREAM_DATA", "../shared/data")) / "ml-100k" / "u.data"
    rows = sorted((line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()), key=lambda row: int(row[3]))
    return [({"user": user, "item": item}, float(rating)) for user, item, rating, _ in rows]


def mixed(x: dict[str, str], n: int) -> dict[str, Any]:
    """The same sample with more to it: a category and three numbers."""
    return {**x, "day": "sun" if n % 7 else "mon", "age": n % 60 / 60, "hour": n % 24 / 24, "price": n % 90 / 90}


def microseconds(action: Callable[[], None]) -> float:
    """Per sample."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) / SAMPLES * 1e6


def speed(what: str, samples: list[tuple[dict[str, Any], float]]) -> None:
    """The fastest of several rounds of each, taken in turns, so that a noisy minute hits both."""
    ours, rivers = FMRegressor(n_factors=10), facto.FMRegressor(n_factors=10, intercept=3.5, seed=1)

    def learn(model: Any) -> Callable[[], None]:
        return lambda: [model.learn_one(x, y) for x, y in samples] and None

    for model in (ours, rivers):
        learn(model)()
    own, other = [], []
    for _ in range(ROUNDS):
        own.append(microseconds(learn(ours)))
        other.append(microseconds(learn(rivers)))
    print(f"  learn_one, {what}: {min(own):.1f} µs, River's {min(other):.1f} µs: {min(other) / min(own):.1f} times as fast")


def error(stream: list[tuple[dict[str, str], float]]) -> None:
    """Root mean square error of ratings that are predicted before they are learned."""
    models = {"coldstream": FMRegressor(n_factors=10), "River": facto.FMRegressor(n_factors=10, intercept=3.5, seed=1)}
    for name, model in models.items():
        squares = 0.0
        for x, y in stream:
            squares += (model.predict_one(x) - y) ** 2
            model.learn_one(x, y)
        print(f"  RMSE of {len(stream):,} ratings, {name}: {math.sqrt(squares / len(stream)):.4f}")


def frames(rows: int = 1_000_000, rounds: int = 1) -> None:
    """Events made of a frame, against those made of arrays; and both learned, all of them, which takes minutes."""
    rng = np.random.default_rng(0)
    users = np.array([f"u{n}" for n in range(5000)])[rng.integers(0, 5000, rows)]
    items = np.array([f"i{n}" for n in range(2000)])[rng.integers(0, 2000, rows)]
    times = 1.7e9 + np.arange(rows, dtype=float)
    kinds = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "Arrow": pa.table}

    def of_arrays() -> list[Event]:
        return list(map(Event, users.tolist(), items.tolist(), times.tolist()))

    def learn(given: Any) -> None:
        Recommender(Schema(), "paper", factors=10).learn(given)

    def seconds(action: Callable[[], object]) -> float:
        start = time.perf_counter()
        action()
        return time.perf_counter() - start

    made = {name: kind({"user": users, "item": items, "time": times}) for name, kind in kinds.items()}
    base = min(seconds(of_arrays) for _ in range(3))
    for name, frame in made.items():
        own = min(seconds(lambda frame=frame: events_of(frame, Schema())) for _ in range(3))
        print(f"  {rows:,} events of {name}: {base / own:.2f} times the speed of arrays")
    learn(of_arrays()[:100])  # kernels are compiled, or loaded
    spent: dict[str, list[float]] = {name: [] for name in ("arrays", *kinds)}
    for _ in range(rounds):  # in turns, so that a noisy minute hits all of them
        spent["arrays"].append(seconds(lambda: learn(of_arrays())))
        for name, frame in made.items():
            spent[name].append(seconds(lambda frame=frame: learn(frame)))
    for name in kinds:
        print(f"  {rows:,} rows of {name}, learned: {min(spent['arrays']) / min(spent[name]):.2f} times the speed of arrays")


def main() -> None:
    """All figures."""
    print("Data frames")
    frames()
    stream = ratings()
    print("River, k = 10, on ML-100k")
    speed("user and item", stream[:SAMPLES])
    speed("six features", [(mixed(x, n), y) for n, (x, y) in enumerate(stream[:SAMPLES])])
    error(stream)


if __name__ == "__main__":
    main()
