"""The best of shards, against one scan of everything."""

import numpy as np
import pytest

from coldstream import Categories, Event, Recommender, Schema
from coldstream.scoring.shards import ShardItem, merged_best

ITEMS = 90


@pytest.fixture(params=["default", "paper"])
def recommender(request) -> Recommender:
    rng = np.random.default_rng(3)
    own = Recommender(Schema(item=[Categories("genre")]), request.param, seed=1, factors=6)
    own.put_items((f"i{n}", {"genre": [f"g{n % 4}"]}) for n in range(ITEMS))
    for _ in range(120):
        own.learn(Event(f"u{rng.integers(6)}", f"i{rng.integers(ITEMS // 2)}"))
    return own


def best(recommender: Recommender, user: str, n: int, among: list[str]) -> list[ShardItem]:
    found = recommender.recommend(user, n, allow=among)
    return [ShardItem(item, score, recommender.place(item).arrival) for item, score in found]


@pytest.mark.parametrize("shards", [1, 2, 7, ITEMS])
@pytest.mark.parametrize("n", [1, 10, 200])
def test_the_best_of_shards_are_the_best_of_all(recommender: Recommender, shards: int, n: int) -> None:
    items, rank = recommender.items(), recommender.hyperparameters.rank
    for user in ("u0", "u3", "nobody"):
        parts = [best(recommender, user, n, items[first::shards]) for first in range(shards)]
        merged = merged_best(parts, n, rank)
        assert [(one.item, one.score) for one in merged] == recommender.recommend(user, n)


@pytest.mark.parametrize("rank", ["highest", "closest-to-1"])
def test_of_equals_the_first_to_come_is_the_best(rank) -> None:
    parts = [[ShardItem("c", 1.0, 7), ShardItem("d", 0.5, 1)], [ShardItem("a", 1.0, 2)], [], [ShardItem("b", 1.0, 3)]]
    assert [one.item for one in merged_best(parts, 3, rank)] == ["a", "b", "c"]
