"""Trials that never ran."""

from collections.abc import Sequence

import numpy as np

from coldstream.evaluation.prequential import Trial
from coldstream.evaluation.study import Facts, Study


def trial_of(
    rank: Sequence[float], candidates: int = 100, new_users: Sequence[int] = (), new_items: Sequence[int] = ()
) -> Trial:
    """A trial of given ranks, in which events by their row are the first of a user or an item."""
    n = len(rank)
    return Trial(
        first=3,
        rank=np.asarray(rank, np.float64),
        candidates=np.full(n, candidates),
        new_user=np.isin(np.arange(n), new_users),
        new_item=np.isin(np.arange(n), new_items),
        recommend_ns=np.arange(n) * 1000 + 5000,
        update_ns=np.arange(n) * 2000,
        train_ns=1_500_000_000,
        recommended=20,
        registered=80,
    )


def study_of(methods: Sequence[str], seeds: int = 2, events: int = 500, name: str = "made-up", **options: object) -> Study:
    """A study in which an earlier method is better."""
    rng = np.random.default_rng(11)
    trials = {
        method: {
            seed: trial_of(rng.integers(0, 20 + 15 * number, events), 100, range(0, events, 7), range(0, events, 11))
            for seed in range(seeds)
        }
        for number, method in enumerate(methods)
    }
    return Study(Facts(name, 10_000, 300, 80, False), top=10, window=100, trials=trials, **options)
