"""Measure in how many lists of others an item stands that one account has chosen 1,500 times.

    python benchmarks/shilling.py
    python benchmarks/shilling.py --stores ml-100k --attacks burst interleaved

Stores that have learned a while:

- ml-100k: the first half of its five-star ratings
- tastes: 3,000 choices of 500 users among 300 items: a taste of four factors, and a Zipf popularity
- looks: the first 5,000 events of the simulated shop, where every look, cart and purchase is a plain choice; what a user
  chose may come again
- shop: 5,000 events of the same shop, with its kinds of events and their weights
- music: 5,000 plays of `repeats.py`, where choosing again is what everybody does

Then one account attacks the item that was chosen least often so far, and 300 other users are asked for their top ten: before
the attack, after 100, 500 and 1,500 of its events, and after 100 and 500 honest events more.

- burst: 1,500 events of one item, one after the other
- interleaved: 1,500 events, each after ten honest ones
- pair: 3,000 events that alternate between two items; a list counts if either stands in it
- views, carts, mixed: a burst of one kind or of several, where the store has kinds

The last column is the mean share of an item: 10 / the number of items, per attacked item.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from coldstream import Event, Recommender, Schema
from coldstream.evaluation.workload import SCHEMAS, SHOP
from coldstream.events.datasets import load
from coldstream.events.simulated_shop import shop_stream
from coldstream.events.stream import Stream
from repeats import music, zipf

STEPS, ASKED, TOP = (100, 400, 1000), 300, 10
AFTER = (100, 400)
ATTACKER = "attacker"
KINDS = {"views": ("view",), "carts": ("cart",), "mixed": ("view", "view", "cart", "view", "purchase")}
ATTACKS = ("burst", "interleaved", "pair", *KINDS)
LOOKS = Schema(item=SHOP.item, exclude_seen=False)


class Store(NamedTuple):
    """A store, and how many events of its stream it learns before the attack."""

    schema: Schema
    stream: Stream
    first: int


def tastes(seed: int, events: int) -> Stream:
    """Choices by a taste of four factors and a Zipf popularity."""
    rng = np.random.default_rng(seed)
    liking = rng.normal(size=(500, 4)) @ rng.normal(size=(4, 300)) + 0.7 * np.log(zipf(300))
    odds = np.exp(liking)
    odds /= odds.sum(axis=1, keepdims=True)
    users = rng.integers(500, size=events).tolist()
    return Stream("tastes", [Event(f"u{user}", f"i{rng.choice(300, p=odds[user])}") for user in users], {}, {})


def store_of(name: str, seed: int) -> Store:
    """The store of a name."""
    if name == "ml-100k":
        stream = load(name)
        return Store(SCHEMAS[name][0], stream, len(stream.events) // 2)
    if name == "tastes":
        return Store(Schema(), tastes(seed, 20_000), 3000)
    if name == "music":
        stream, schema, _ = music(seed, 25_000)
        return Store(schema, stream, 5000)
    stream = shop_stream(seed, 25_000)
    if name == "shop":
        return Store(SHOP, stream, 5000)
    plain = [replace(event, kind=None) for event in stream.events if event.kind != "dislike"]
    return Store(LOOKS, replace(stream, events=plain), 5000)


def attack(name: str, targets: Sequence[str], store: Store, traffic: Iterator[Event]) -> Iterator[list[Event]]:
    """The events of an attack in steps, with the honest ones between them."""
    kinds: Sequence[str | None] = KINDS.get(name, ("purchase",) if store.schema.feedback else (None,))
    time, aims, n = store.stream.events[store.first].time, targets[: 1 + (name == "pair")], 0
    for step in STEPS:
        found: list[Event] = []
        for _ in range(step * len(aims)):
            if name == "interleaved":
                found += islice(traffic, 10)
                time = found[-1].time
            found.append(Event(ATTACKER, aims[n % len(aims)], time, kind=kinds[n % len(kinds)]))
            n += 1
        yield found


def share(recommender: Recommender, users: Sequence[str], targets: Sequence[str], time: float | None) -> float:
    """In how many of these users' lists any of the targets is."""
    lists = [{one.item for one in recommender.recommend(user, TOP, time=time)} for user in users]
    return sum(not own.isdisjoint(targets) for own in lists) / len(lists)


def main() -> None:
    """Attack all stores."""
    known = ("ml-100k", "tastes", "looks", "shop", "music")
    parser = argparse.ArgumentParser()
    parser.add_argument("--stores", nargs="+", choices=known, default=known)
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=ATTACKS)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"{'store':8} {'attack':12}  before     100     500   1,500   +100   +500   mean")
    for name in args.stores:
        store = store_of(name, args.seed)
        past, future = store.stream.events[: store.first], store.stream.events[store.first :]
        begun = Recommender(store.schema, seed=args.seed)
        counts = Counter(event.item for event in past)
        begun.put_items([(item, store.stream.items.get(item, {})) for item in counts])
        begun.learn(past)
        rarest = sorted(counts, key=lambda item: (counts[item], item))[:2]
        everybody = sorted({event.user for event in past})
        order = np.random.default_rng(args.seed).permutation(len(everybody))[:ASKED]
        users = [everybody[place] for place in order]
        document, arrays = begun.state()
        for which in args.attacks:
            if which in KINDS and not store.schema.feedback:
                continue
            recommender, traffic = Recommender.from_state(document, arrays), iter(future)
            targets, time = rarest[: 1 + (which == "pair")], past[-1].time
            found = [share(recommender, users, targets, time)]
            for events in attack(which, targets, store, traffic):
                recommender.learn(events)
                time = events[-1].time
                found.append(share(recommender, users, targets, time))
            for count in AFTER:
                events = list(islice(traffic, count))
                recommender.learn(events)
                found.append(share(recommender, users, targets, events[-1].time if events else time))
            found.append(TOP * len(targets) / recommender.size.items)
            print(f"{name:8} {which:12} " + "  ".join(f"{100 * one:5.1f}%" for one in found), flush=True)


if __name__ == "__main__":
    main()
