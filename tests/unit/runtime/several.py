"""A stream for several learners: users with attributes, items that come by puts and by events, contexts."""

import numpy as np

from coldstream import Categories, Category, Id, Recommender, Schema
from coldstream.runtime.records import Interaction, ItemPut, Record, UserPut

SCHEMA = Schema(user=[Id(), Category("city")], item=[Id(), Categories("genre")], context=[Category("device")])


def recommender(**options: object) -> Recommender:
    return Recommender(SCHEMA, seed=5, **{"factors": 8, "negatives": 5, **options})  # type: ignore[arg-type]


def lines(events: int, seed: int = 1, users: int = 12, items: int = 15) -> list[tuple[int, Record]]:
    """Lines of a log: positions rise, arrivals are between events."""
    rng, found, known = np.random.default_rng(seed), list[Record](), set[str]()
    for number in range(events):
        user, item = f"u{rng.integers(users)}", f"i{rng.integers(items)}"
        if user not in known and rng.random() < 0.7:
            found.append(UserPut(user, {"city": f"c{rng.integers(3)}"}))
        if item not in known and rng.random() < 0.7:
            found.append(ItemPut(item, {"genre": [f"g{rng.integers(4)}"]}))
        known |= {user, item}
        context = {"device": f"d{rng.integers(3)}"} if rng.random() < 0.5 else {}
        found.append(Interaction(user, item, float(1_000_000 + number), context))
    return list(enumerate(found, 1))
