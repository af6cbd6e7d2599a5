"""A simulated shop: views, carts, purchases and dislikes, stock, campaigns, new items, and drifting tastes.

These are all rules:

- Ten departments and eight brands. An item has one of each, a price from 1 to 5, and two hidden properties: its quality
  (normal, deviation 0.7) and the appeal of its picture (normal, deviation 1). 200 items are on offer; about every 60
  events an item is removed and a new one replaces it.
- 150 shoppers visit repeatedly. A shopper likes one department best (2.5) and another second best (1.5), dislikes a brand
  (−2), and is more or less sensitive to prices (0 to 0.5 per step).
- In a visit, a shopper views three to eight of 25 random items, with a probability proportional to
  exp(0.4 utility + appeal). Appeal outweighs taste, so views are weak evidence.
- A viewed item goes into the cart with probability σ(utility − 2). An item in the cart is bought at the beginning of the
  next visit with probability 0.5, or else dropped. A viewed item with a utility below −0.5 that is not put into the cart is
  disliked with probability 0.15.
- A shopper does not view items that they bought or disliked. Every item has a stock of 5 to 40; a sold-out item is hidden
  for 300 events.
- Every 2,000 events a campaign promotes a brand for 500 events: its items gain 1.5 of appeal, and are bought no more than
  others.
- Every 6,000 events half of the shoppers change their two departments.

Recommendations have no influence on what happens.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from coldstream.events.event import Event
from coldstream.events.stream import Stream

DEPARTMENTS = ("bags", "beds", "bikes", "books", "games", "garden", "lamps", "shoes", "tea", "tools")
BRANDS = ("acme", "bell", "cobalt", "delta", "ember", "fjord", "grove", "halo")
ITEMS, SHOPPERS, SHELF = 200, 150, 25
CAMPAIGN, CAMPAIGN_LENGTH, CHANGE, SOLD_OUT, LIFE = 2000, 500, 6000, 300, 60
DAY = 1_770_000_000.0


class Offer(NamedTuple):
    """A new item, or a change of its visibility."""

    item: str
    attributes: dict[str, object]
    hidden: bool = False


class Gone(NamedTuple):
    """The removal of an item."""

    item: str


class _Item:
    def __init__(self, rng: np.random.Generator, number: int) -> None:
        self.name, self.department, self.brand = f"item {number}", int(rng.integers(10)), int(rng.integers(8))
        self.price = int(rng.integers(1, 6))
        self.quality, self.eye = float(rng.normal(0, 0.7)), float(rng.normal(0, 1))
        self.stock, self.hidden_until = int(rng.integers(5, 41)), -1

    def offer(self, now: int) -> Offer:
        title = f"{BRANDS[self.brand]} {DEPARTMENTS[self.department]} {self.name.removeprefix('item ')}"
        known = {
            "department": DEPARTMENTS[self.department],
            "brand": BRANDS[self.brand],
            "price": self.price,
            "title": title,
        }
        return Offer(self.name, known, self.hidden_until > now)


class _Shopper:
    def __init__(self, rng: np.random.Generator, number: int) -> None:
        self.name, self.brand, self.thrift = f"shopper {number}", int(rng.integers(8)), float(rng.uniform(0, 0.5))
        self.over: set[str] = set()
        self.cart: list[_Item] = []
        self.change(rng)

    def change(self, rng: np.random.Generator) -> None:
        self.best, self.second = rng.choice(10, 2, replace=False).tolist()

    def utility(self, item: _Item) -> float:
        taste = 2.5 if item.department == self.best else 1.5 if item.department == self.second else 0.0
        return taste - 2.0 * (item.brand == self.brand) - self.thrift * (item.price - 1) + item.quality


def shop(seed: int) -> Iterator[Offer | Gone | Event]:
    """Yield the items and events of a shop, without end."""
    rng = np.random.default_rng(seed)
    items = [_Item(rng, n) for n in range(ITEMS)]
    shoppers = [_Shopper(rng, n) for n in range(SHOPPERS)]
    now, made, campaign, changed, replaced = 0, ITEMS, -1, 0, 0
    for item in items:
        yield item.offer(now)
    while True:
        while replaced < now // LIFE:
            replaced += 1
            place = int(rng.integers(ITEMS))
            yield Gone(items[place].name)
            items[place] = _Item(rng, made)
            made += 1
            yield items[place].offer(now)
        if changed < now // CHANGE:
            changed = now // CHANGE
            for shopper in shoppers:
                if rng.random() < 0.5:
                    shopper.change(rng)
        since = now % CAMPAIGN
        campaign = (now // CAMPAIGN) % len(BRANDS) if now >= CAMPAIGN and since < CAMPAIGN_LENGTH else -1
        for item in items:
            if 0 <= item.hidden_until <= now:
                item.hidden_until, item.stock = -1, int(rng.integers(5, 41))
                yield item.offer(now)
        for one in _visit(rng, shoppers[int(rng.integers(SHOPPERS))], items, campaign, now):
            now += isinstance(one, Event)
            yield one


def _visit(
    rng: np.random.Generator, shopper: _Shopper, items: list[_Item], campaign: int, now: int
) -> Iterator[Offer | Event]:
    """Yield the events of one visit, and items that it sells out."""
    carts, shopper.cart = shopper.cart, []
    for item in carts:
        if item.hidden_until < 0 and item.name not in shopper.over and item in items and rng.random() < 0.5:
            yield _event(shopper, item, now, "purchase")
            now += 1
            shopper.over.add(item.name)
            item.stock -= 1
            if item.stock <= 0:
                item.hidden_until = now + SOLD_OUT
                yield item.offer(now)
    shelf = [items[n] for n in rng.choice(ITEMS, SHELF, replace=False)]
    shelf = [item for item in shelf if item.hidden_until < 0 and item.name not in shopper.over]
    for _ in range(min(int(rng.integers(3, 9)), len(shelf))):
        pull = np.array([0.4 * shopper.utility(item) + item.eye + 1.5 * (item.brand == campaign) for item in shelf])
        chance = np.exp(pull - pull.max())
        item = shelf.pop(int(rng.choice(len(shelf), p=chance / chance.sum())))
        utility = shopper.utility(item)
        yield _event(shopper, item, now, "view")
        now += 1
        if rng.random() < 1.0 / (1.0 + math.exp(2.0 - utility)):
            yield _event(shopper, item, now, "cart")
            shopper.cart.append(item)
            now += 1
        elif utility < -0.5 and rng.random() < 0.15:
            yield _event(shopper, item, now, "dislike")
            shopper.over.add(item.name)
            now += 1


def _event(shopper: _Shopper, item: _Item, now: int, kind: str) -> Event:
    return Event(shopper.name, item.name, DAY + 20.0 * now, kind=kind)


def shop_stream(seed: int, events: int) -> Stream:
    """Return the first `events` of a shop as a stream, with all items offered until then."""
    found: list[Event] = []
    items: dict[str, dict[str, object]] = {}
    for one in shop(seed):
        if isinstance(one, Offer):
            items[one.item] = one.attributes
        elif isinstance(one, Event):
            found.append(one)
            if len(found) == events:
                break
    return Stream("shop", found, {}, items)
