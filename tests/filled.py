"""A recommender that has learned a little, and the stream that it learned."""

import numpy as np

from coldstream import Categories, Category, Event, Id, LastItem, LastItems, Number, Recommender, Schema, TimePart, Trend

SCHEMA = Schema(
    user=[Id(), Number("age", low=0, high=100), Category("job")],
    item=[Id(), Categories("genre"), Number("price", scale=10), Trend("hot", half_life=20)],
    context=[Category("device"), TimePart("hour", part="hour"), LastItem(), LastItems(length=3)],
)
PRESETS = ["paper", "default"]


def stream(n: int, seed: int = 0) -> list[Event]:
    rng = np.random.default_rng(seed)
    return [
        Event(f"u{rng.integers(6)}", f"i{rng.integers(12)}", 3600.0 * t, {"device": ["phone", "tv"][rng.integers(2)]})
        for t in range(n)
    ]


def filled(preset: str = "default", seed: int = 7, **changes: object) -> Recommender:
    recommender = Recommender(SCHEMA, preset, seed, **({"factors": 6} | changes))
    for n in range(12):
        recommender.put_item(f"i{n}", {"genre": ["abc"[n % 3], "de"[n % 2]], "price": float(n)})
    for n in range(4):
        recommender.put_user(f"u{n}", {"age": 20 + n, "job": ["cook", "pilot"][n % 2]})
    for event in stream(60):
        recommender.learn(event)
    return recommender
