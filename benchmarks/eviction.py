"""What should go where there is too much: recall under a tight bound, by the half-life of a use.

A half-life of one event lets go what was used longest ago; one of 10¹² events, what was used least often. Bounded are the
users that are known at once, and the items that histories may name, to a share of those that the stream has.

    python benchmarks/eviction.py ml-100k .1
"""

import sys
from dataclasses import replace

from coldstream import Bounds, LastItem, LastItems, Recommender
from coldstream.evaluation.workload import SCHEMAS
from coldstream.events.datasets import load

HALF_LIVES = (1.0, 1e4, 1e5, 1e12)
TOP, WARM = 10, 0.3


def recall(name: str, share: float, half_life: float) -> float:
    """recall@10 on the last 70 % of a stream, where so large a share of its users and items has room."""
    stream = load(name)
    events, items = stream.events, {event.item for event in stream.events}
    users, named = (max(1, int(share * len(own))) for own in ({event.user for event in events}, items))
    schema = SCHEMAS[name][0]
    schema = replace(schema, context=(*schema.context, LastItem(most=named), LastItems(most=named)))
    bounds = Bounds(users=users, half_life=half_life)
    recommender = Recommender(schema, seed=7, bounds=bounds)
    recommender.put_items((item, stream.items.get(item, {})) for item in sorted(items))
    first, found = int(WARM * len(events)), 0
    for n, event in enumerate(events):
        if n >= first:
            rank = recommender.rank(event.user, event.item, context=event.context, time=event.time)
            found += rank.position < TOP
        recommender.learn(event)
    return found / (len(events) - first)


if __name__ == "__main__":
    chosen, shares = sys.argv[1], [float(share) for share in sys.argv[2:]]
    print(f"{chosen}: room for all, {recall(chosen, 1.0, 1e5):.4f}", flush=True)
    for share in shares:
        for half_life in HALF_LIVES:
            print(f"room for {share:.0%}, half-life {half_life:g}: {recall(chosen, share, half_life):.4f}", flush=True)
