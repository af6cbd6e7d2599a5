"""A simulated shop where visitors and items come and go: persistent cold start on both sides.

The complete rules:

- There are twelve styles. A visitor likes one of them best and one second best. Three quarters of the visitors like the two
  styles of their age group, the others two random ones. The age group is the only attribute of a visitor.
- A visitor stays for ten choices on average (geometric) and never comes back. Sixty visitors are present at any time.
- An item has a style, a price from 1 to 10, and a hidden quality. It stays for 900 choices on average (exponential) and is
  then replaced, so that there are always 150 items.
- A visitor chooses among twenty random items, with a probability proportional to exp(utility). The utility is 3 for the
  favourite style, 1.5 for the second; on a phone, .15 times the price is subtracted. The quality (normal, deviation .7) is
  added, and a novelty bonus that begins at 1 and halves every 100 choices of the item's age.
- A visitor never chooses an item twice. Half of the choices are made on a phone.

Recommendations have no influence on the choices.
"""

from collections.abc import Iterator

import numpy as np

from coldstream.demo.scenario_events import Choice, ItemCame, ItemWent, ScenarioEvent, UserCame

STYLES = ("baroque", "bebop", "blues", "dub", "fado", "folk", "funk", "house", "indie", "metal", "soul", "techno")
GROUPS = {"under 25": (11, 7), "25 to 39": (8, 10), "40 to 59": (2, 6), "60 and over": (0, 1)}
VISITORS, ITEMS, SHELF = 60, 150, 20
STAY, LIFE = 10.0, 900.0


class _Item:
    def __init__(self, rng: np.random.Generator, number: int, now: int) -> None:
        self.name = f"record {number}"
        self.style = int(rng.integers(len(STYLES)))
        self.price = int(rng.integers(1, 11))
        self.quality = float(rng.normal(0, 0.7))
        self.born, self.dies = now, now + rng.exponential(LIFE)


class _Visitor:
    def __init__(self, rng: np.random.Generator, number: int) -> None:
        self.name = f"visitor {number}"
        self.group = str(rng.choice(list(GROUPS)))
        follows = rng.random() < 0.75
        self.styles = GROUPS[self.group] if follows else tuple(rng.choice(len(STYLES), 2, replace=False).tolist())
        self.leaves_after = int(rng.geometric(1 / STAY))
        self.had: set[str] = set()


def churn(seed: int) -> Iterator[ScenarioEvent]:
    """Yield the events of the simulated shop from its beginning, without end."""
    rng = np.random.default_rng(seed)
    items = [_Item(rng, n, 0) for n in range(ITEMS)]
    visitors = [_Visitor(rng, n) for n in range(VISITORS)]
    made_items, made_visitors, now = ITEMS, VISITORS, 0
    for item in items:
        yield _came(item)
    for visitor in visitors:
        yield UserCame(visitor.name, {"age": visitor.group})
    while True:
        for place, item in enumerate(items):
            if item.dies <= now:
                yield ItemWent(item.name)
                items[place] = _Item(rng, made_items, now)
                made_items += 1
                yield _came(items[place])
        place = int(rng.integers(VISITORS))
        visitor = visitors[place]
        device = "phone" if rng.random() < 0.5 else "desk"
        chosen = _choice(rng, visitor, [items[n] for n in rng.choice(ITEMS, SHELF, replace=False)], device, now)
        if chosen is not None:
            yield Choice(visitor.name, chosen.name, 60.0 * now, {"device": device})
            visitor.had.add(chosen.name)
            now += 1
        if chosen is None or len(visitor.had) >= visitor.leaves_after:
            visitors[place] = _Visitor(rng, made_visitors)
            made_visitors += 1
            yield UserCame(visitors[place].name, {"age": visitors[place].group})


def _came(item: _Item) -> ItemCame:
    return ItemCame(item.name, {"style": STYLES[item.style], "price": item.price})


def _choice(rng: np.random.Generator, visitor: _Visitor, shelf: list[_Item], device: str, now: int) -> _Item | None:
    shelf = [item for item in shelf if item.name not in visitor.had]
    if not shelf:
        return None
    utility = np.array([_utility(visitor, item, device, now) for item in shelf])
    weight = np.exp(utility - utility.max())
    return shelf[int(rng.choice(len(shelf), p=weight / weight.sum()))]


def _utility(visitor: _Visitor, item: _Item, device: str, now: int) -> float:
    best, second = visitor.styles
    taste = 3.0 if item.style == best else 1.5 if item.style == second else 0.0
    price = 0.15 * item.price if device == "phone" else 0.0
    return float(taste - price + item.quality + 0.5 ** ((now - item.born) / 100))
