"""The best of a catalogue that lies in shards: the best N of each, merged exactly."""

from collections.abc import Sequence

import numpy as np

from coldstream.scoring.ranking import CLOSEST_TO_1, RankRule
from coldstream.scoring.shard import Best


def merged_best(shards: Sequence[Best], request: int, n: int, rule: RankRule) -> list[tuple[int, float]]:
    """Slots and whole scores of the best n of all for one request, best first, from the best n of every shard.

    Whoever is among the best n of all is among the best n of its shard, so nothing is missed; scores have the same bits
    wherever they are made, and of equals the first to arrive is the best wherever it is, so the order is that of one scan.
    """
    parts = [(one, slice(int(one.offset[request]), int(one.offset[request + 1]))) for one in shards]
    score = np.concatenate([one.score[own] for one, own in parts])
    arrival = np.concatenate([one.arrival[own] for one, own in parts])
    slot = np.concatenate([one.slot[own] for one, own in parts])
    key = np.abs(rule.own + score - 1.0) if rule.code == CLOSEST_TO_1 else -score
    best = np.lexsort((arrival, key))[:n]
    return list(zip(slot[best].tolist(), (rule.own + score[best]).tolist(), strict=True))
