"""What filters and rules cost: a price range, an availability and a cap per brand beside the plain request.

    python benchmarks/filters.py --items 100000

Ratios of one run: the fastest of several rounds, each with the same requests.
"""

import argparse
from collections.abc import Callable
from time import perf_counter

import numpy as np

from coldstream import Categories, Category, Event, Id, Number, Recommender, Rules, Schema

ROUNDS, REQUESTS = 7, 30


def made(items: int) -> Recommender:
    """A shop: brands and tags of very different sizes, prices, one item in ten out of season."""
    rng = np.random.default_rng(0)
    schema = Schema(item=[Id(), Category("brand"), Categories("tags"), Number("price", scale=50)])
    recommender = Recommender(schema, seed=0)
    brand, price = rng.zipf(1.5, items) % 500, rng.exponential(50, items)
    tags = rng.integers(0, 300, (items, 3))
    recommender.put_items(
        (f"i{n}", {"brand": f"b{brand[n]}", "tags": [f"t{t}" for t in set(tags[n].tolist())], "price": float(price[n])})
        for n in range(items)
    )
    for n in rng.choice(items, items // 10, replace=False).tolist():
        recommender.put_item(f"i{n}", recommender.item(f"i{n}"), available_until=1000.0 + n)
    recommender.learn([Event(f"u{n % 200}", f"i{rng.integers(items)}", float(n)) for n in range(2000)])
    return recommender


def fastest(ask: Callable[[int], object]) -> float:
    """Seconds of one request."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = perf_counter()
        for n in range(REQUESTS):
            ask(n)
        best = min(best, (perf_counter() - started) / REQUESTS)
    return best


def main() -> None:
    """Time every variant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=100_000)
    items = parser.parse_args().items
    shop = made(items)
    capped, time = Rules(most_per={"brand": 2}), 5000.0
    many = {"tags": [f"t{n}" for n in range(256)]}
    variants: dict[str, Callable[[int], object]] = {
        "plain": lambda n: shop.recommend(f"u{n}"),
        "available at a time": lambda n: shop.recommend(f"u{n}", time=time),
        "price range": lambda n: shop.recommend(f"u{n}", where={"price": {"max": 50}}),
        "price range, each time another": lambda n: shop.recommend(f"u{n}", where={"price": {"max": 50 + np.random.rand()}}),
        "256 tags": lambda n: shop.recommend(f"u{n}", where=many),
        "256 tags, each time others": lambda n: shop.recommend(
            f"u{n}", where={"tags": [*many["tags"], str(np.random.rand())]}
        ),
        "cap per brand": lambda n: shop.recommend(f"u{n}", rules=capped),
        "price, time and cap": lambda n: shop.recommend(f"u{n}", time=time, where={"price": {"max": 50}}, rules=capped),
        "price, time and cap, each time another": lambda n: shop.recommend(
            f"u{n}", time=time, where={"price": {"max": 50 + np.random.rand()}}, rules=capped
        ),
        "diversity": lambda n: shop.recommend(f"u{n}", rules=Rules(diversity=0.3)),
        "similar": lambda n: shop.similar(f"i{n}"),
        "trending": lambda _: shop.trending(),
        "newest": lambda _: shop.newest(),
    }
    for ask in variants.values():
        ask(0)
    plain = fastest(variants["plain"])
    print(f"{items:,} items")
    for name, ask in variants.items():
        print(f"{name:42} {fastest(ask) / plain:6.2f} × plain")


if __name__ == "__main__":
    main()
