"""Does it help to learn from what was shown and not taken? A shop whose visitors see what is recommended to them.

    python benchmarks/impressions.py --visits 40000 --seeds 3

The rules: 400 visitors, 600 items in 12 departments; every 40 visits an item goes and a new one comes. A visitor likes three
departments (2, 1.5 and 1), an item is more or less good (normal, deviation .7), and the two have something of their own
(normal, deviation .7) that nothing but trying tells. In seven visits of ten somebody is shown the ten best and looks at them
from the top; after each that is not taken, they leave with probability .15. What is looked at is taken with probability
σ(utility − 2). In the others somebody chooses out of 30 items at random without a list, with a probability proportional to
exp(utility). Nobody takes anything twice.

The table, over the second half of the visits: the share of lists that something was taken of, the mean utility of what was
shown, and recall@10 of the choices without a list.
"""

import argparse
import math
import sys
from typing import NamedTuple

import numpy as np

from coldstream import Category, Event, Id, Recommender, Schema

VISITORS, ITEMS, DEPARTMENTS, TOP, SHELF = 400, 600, 12, 10, 30
SCHEMA = Schema(user=[Id()], item=[Id(), Category("department")])


class Outcome(NamedTuple):
    """How one run did in its second half."""

    taken: float
    utility: float
    recall: float


class World:
    """Who likes what; nobody is told."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.taste = np.zeros((VISITORS, DEPARTMENTS))
        for own in self.taste:
            own[self.rng.choice(DEPARTMENTS, 3, replace=False)] = 2.0, 1.5, 1.0
        self.items = list[int]()
        self.department, self.quality = dict[int, int](), dict[int, float]()
        self._seed = seed

    def come(self) -> tuple[str, dict[str, str]]:
        """A new item."""
        number = len(self.quality)
        self.items.append(number)
        self.department[number], self.quality[number] = int(self.rng.integers(DEPARTMENTS)), float(self.rng.normal(0, 0.7))
        return f"i{number}", {"department": f"d{self.department[number]}"}

    def go(self) -> str:
        """An item that is there no more."""
        return f"i{self.items.pop(int(self.rng.integers(len(self.items))))}"

    def utility(self, visitor: int, item: int) -> float:
        """What a visitor has of an item, the same whenever it is asked."""
        own = np.random.default_rng((self._seed, visitor, item)).normal(0, 0.7)
        return float(self.taste[visitor, self.department[item]] + self.quality[item] + own)


def run(seed: int, visits: int, passed_over: int) -> Outcome:
    """One shop."""
    world, had = World(seed), [set[int]() for _ in range(VISITORS)]
    recommender = Recommender(SCHEMA, seed=seed, passed_over=passed_over)
    recommender.put_items(world.come() for _ in range(ITEMS))
    rng, taken, utilities, hits = world.rng, list[bool](), list[float](), list[bool]()
    for visit in range(visits):
        if visit % 40 == 39:
            recommender.remove_item(world.go())
            recommender.put_item(*world.come())
        visitor, counted = int(rng.integers(VISITORS)), visit >= visits // 2
        user = f"u{visitor}"
        shown = [int(one.item[1:]) for one in recommender.recommend(user, TOP)]
        if rng.random() < 0.7:
            choice, looked = -1, list[str]()
            for item in shown:
                if rng.random() < 1 / (1 + math.exp(2 - world.utility(visitor, item))):
                    choice = item
                    break
                looked.append(f"i{item}")
                if rng.random() < 0.15:
                    break
            if counted:
                taken.append(choice >= 0)
                utilities.append(float(np.mean([world.utility(visitor, item) for item in shown])))
            if choice < 0:
                continue
            event = Event(user, f"i{choice}", passed_over=tuple(looked))
        else:
            shelf = [item for item in rng.choice(world.items, SHELF, replace=False).tolist() if item not in had[visitor]]
            pull = np.exp([world.utility(visitor, item) for item in shelf])
            choice = int(rng.choice(shelf, p=pull / pull.sum()))
            if counted:
                hits.append(choice in shown)
            event = Event(user, f"i{choice}")
        had[visitor].add(choice)
        recommender.learn(event)
    return Outcome(float(np.mean(taken)), float(np.mean(utilities)), float(np.mean(hits)))


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--visits", type=int, default=40_000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print(f"{'passed over':>12}{'lists taken of':>18}{'utility shown':>18}{'recall@10':>18}")
    for passed_over in (0, 3, 10):
        found = np.array([run(seed, options.visits, passed_over) for seed in range(options.seeds)])
        figures = zip(found.mean(0).tolist(), found.std(0, ddof=1 if options.seeds > 1 else 0).tolist(), strict=True)
        print(
            f"{passed_over:>12}" + "".join(f"{mean:>10.4f} ± {spread:.4f}"[:18].rjust(18) for mean, spread in figures),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
