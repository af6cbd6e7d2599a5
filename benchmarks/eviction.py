"""Which users should go where there are too many: recall under a tight bound, by the half-life of a use.

A half-life of one event lets those go who came longest ago; one of 10¹² events, those who came least often.

    python benchmarks/eviction.py movietweetings .1 .3
"""

import sys

from coldstream import Bounds, Recommender
from coldstream.evaluation.workload import SCHEMAS
from coldstream.events.datasets import load

HALF_LIVES = (1.0, 1e3, 1e4, 1e5, 1e12)
TOP, WARM = 10, 0.3


def recall(name: str, share: float, half_life: float, seed: int) -> float:
    """recall@10 on the last 70 % of a stream, where so large a share of its users can be known at once."""
    stream = load(name)
    users = max(1, int(share * len({event.user for event in stream.events})))
    bounds = Bounds(users=users, half_life=half_life) if share < 1 else Bounds()
    recommender = Recommender(SCHEMAS[name][0], seed=seed, bounds=bounds)
    recommender.put_items((item, stream.items.get(item, {})) for item in dict.fromkeys(e.item for e in stream.events))
    first, found = int(WARM * len(stream.events)), 0
    for n, event in enumerate(stream.events):
        if n >= first:
            rank = recommender.rank(event.user, event.item, context=event.context, time=event.time)
            found += rank.position < TOP
        recommender.learn(event)
    return found / (len(stream.events) - first)


if __name__ == "__main__":
    chosen, shares = sys.argv[1], [float(share) for share in sys.argv[2:]]
    print(f"{chosen}: all users known, {recall(chosen, 1.0, 1.0, 0):.4f}", flush=True)
    for share in shares:
        for half_life in HALF_LIVES:
            print(f"{share:.0%} of users, half-life {half_life:g}: {recall(chosen, share, half_life, 0):.4f}", flush=True)
