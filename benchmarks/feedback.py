"""Do weights and dislikes help? Recall of what matters, by what is made of the other events.

    python benchmarks/feedback.py --seeds 3
    python benchmarks/feedback.py --dataset ml-100k      # ratings as kinds: 5 is liked, 1 and 2 are disliked, others seen

Every variant learns the same stream in the same order and is tested on the same events: purchases, or five-star ratings.
"""

import argparse
from collections.abc import Iterator
from operator import attrgetter

import numpy as np

from coldstream import Event, Feedback, Recommender, Schema
from coldstream.evaluation.metrics import hits, percentiles
from coldstream.evaluation.model import incremental
from coldstream.evaluation.prequential import run_trial, untested
from coldstream.evaluation.workload import SCHEMAS, SHOP
from coldstream.events.datasets import folder, load
from coldstream.events.ratings import lines
from coldstream.events.simulated_shop import shop_stream
from coldstream.events.stream import Stream

TOP = 10


def ratings() -> Stream:
    """ML-100k with all ratings."""
    kinds = {1: "dislike", 2: "dislike", 3: "seen", 4: "seen", 5: "like"}
    rows = lines(folder("ml-100k") / "u.data", "\t", "ascii")
    events = [Event(user, item, float(time), kind=kinds[int(rating)]) for user, item, rating, time in rows]
    known = load("ml-100k")
    return Stream("ml-100k ratings", sorted(events, key=attrgetter("time")), known.users, known.items)


NOTHING = {"trends": False, "history": False, "had": False}
SEEN = {"trends": False, "history": False, "had": True}


def shop_variants() -> Iterator[tuple[str, tuple[Feedback, ...]]]:
    """What is made of views, carts and dislikes."""
    bought, ignored = Feedback("purchase", 1.0), Feedback("dislike", 0.0, **NOTHING)
    yield "purchases alone", (Feedback("view", 0.0, **NOTHING), Feedback("cart", 0.0, **NOTHING), bought, ignored)
    yield "one kind: all but dislikes", (Feedback("view", 1.0, had=False), Feedback("cart", 1.0, had=False), bought, ignored)
    yield "weights, views in trends", (Feedback("view", 0.2, trends=True), Feedback("cart", 0.5), bought, ignored)
    weights = (Feedback("view", 0.2), Feedback("cart", 0.5), bought)
    yield "weights, views not in trends", (*weights, ignored)
    yield "and dislikes are had", (*weights, Feedback("dislike", 0.0, had=True))
    yield "and dislikes push down", (*weights, Feedback("dislike", -1.0))
    quiet = (Feedback("view", 1.0, had=False, trends=False), Feedback("cart", 1.0, had=False), bought)
    yield "one weight, views not in trends", (*quiet, ignored)


def rating_variants() -> Iterator[tuple[str, tuple[Feedback, ...]]]:
    """What is made of other ratings. Whoever rated a film had it, in all variants."""
    like, unseen = Feedback("like", 1.0), Feedback("dislike", 0.0, **SEEN)
    yield "likes alone", (like, Feedback("seen", 0.0, **SEEN), unseen)
    yield "one kind: all ratings", (like, Feedback("seen", 1.0), Feedback("dislike", 1.0))
    yield "seen 0.5", (like, Feedback("seen", 0.5, had=True), unseen)
    yield "seen 0.2", (like, Feedback("seen", 0.2, had=True), unseen)
    yield "seen 0.5, dislikes push down", (like, Feedback("seen", 0.5, had=True), Feedback("dislike", -1.0))
    yield "likes, dislikes push down", (like, Feedback("seen", 0.0, **SEEN), Feedback("dislike", -1.0))


def main() -> None:
    """Run all variants."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", choices=("shop", "ml-100k"), default="shop")
    parser.add_argument("--events", type=int, default=30_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="variants whose name holds this")
    parser.add_argument("--untested", action="store_true", help="the first 30 % alone: to choose by")
    args = parser.parse_args()
    is_shop = args.dataset == "shop"
    base: Schema = SHOP if is_shop else SCHEMAS["ml-100k"][0]
    for name, kinds in shop_variants() if is_shop else rating_variants():
        if args.only not in name:
            continue
        recall, mpr = [], []
        for seed in range(args.seeds):
            stream = shop_stream(seed, args.events) if is_shop else ratings()
            stream = untested(stream) if args.untested else stream
            schema = Schema(base.user, base.item, base.context, feedback=kinds)
            model = incremental(Recommender(schema, seed=seed))
            trial = run_trial(model, stream, TOP, targets={"purchase" if is_shop else "like"})
            recall.append(float(hits(trial.rank, TOP).mean()))
            mpr.append(float(percentiles(trial.rank, trial.candidates).mean()))
        spread = f"± {np.std(recall, ddof=1):.4f}" if len(recall) > 1 else ""
        print(f"{name:45} recall@{TOP} {np.mean(recall):.4f} {spread}  MPR {np.mean(mpr):.2f}  ({len(trial.rank)} tested)")


if __name__ == "__main__":
    main()
