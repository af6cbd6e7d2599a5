"""What should go where there is too much: recall under a tight bound, by the half-life of a use.

A half-life of one event lets go what was used longest ago, one of 10¹² events what was used least often; 0 stands for
the default, as many events as there is room. Bounded are the users that are known at once, and the items that histories may
name, to a share of those that the stream has. In a flood, so many users who never come again choose anything between two
events of the stream.

    python benchmarks/eviction.py ml-100k --room .3 --flood 3 --seeds 5

The second and all further half-lives are compared with the first, seed by seed.
"""

import argparse
from dataclasses import replace

import numpy as np

from coldstream import Bounds, Event, LastItem, LastItems, Recommender
from coldstream.evaluation.workload import SCHEMAS
from coldstream.events.datasets import load

HALF_LIVES = (1.0, 0.0, 1e4, 1e12)
TOP, WARM = 10, 0.3


def recall(name: str, share: float, half_life: float, flood: int, seed: int) -> float:
    """recall@10 on the last 70 % of a stream, where so large a share of its users and items has room."""
    stream, rng = load(name), np.random.default_rng(seed)
    events, items = stream.events, sorted({event.item for event in stream.events})
    users, named = (max(1, int(share * len(own))) for own in ({event.user for event in events}, items))
    schema = SCHEMAS[name][0]
    schema = replace(schema, context=(*schema.context, LastItem(most=named), LastItems(most=named)))
    recommender = Recommender(schema, seed=seed, bounds=Bounds(users=users, half_life=half_life or None))
    recommender.put_items((item, stream.items.get(item, {})) for item in items)
    first, found = int(WARM * len(events)), 0
    for n, event in enumerate(events):
        if n >= first:
            rank = recommender.rank(event.user, event.item, context=event.context, time=event.time)
            found += rank.position < TOP
        recommender.learn(event)
        for k in range(flood):
            recommender.learn(Event(f"flood {n} {k}", items[rng.integers(len(items))], event.time))
    return found / (len(events) - first)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stream")
    parser.add_argument("--room", type=float, nargs="+", default=[0.3])
    parser.add_argument("--flood", type=int, default=0)
    parser.add_argument("--half-lives", type=float, nargs="+", default=HALF_LIVES)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    for share in args.room:
        first = None
        for half_life in args.half_lives:
            found = [recall(args.stream, share, half_life, args.flood, 7 + n) for n in range(args.seeds)]
            first = found if first is None else first
            more = np.subtract(found, first)  # seed by seed, because a seed makes more of a difference than the rule
            beside = (
                f", {more.mean():+.4f} (from {more.min():+.4f} to {more.max():+.4f})"
                if half_life != args.half_lives[0]
                else ""
            )
            shown = f"{args.stream}, room for {share:.0%}, flood {args.flood}, half-life {half_life:g}"
            print(f"{shown}: {np.mean(found):.4f} of {args.seeds} seeds{beside}", flush=True)
