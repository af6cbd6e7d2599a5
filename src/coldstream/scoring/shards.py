"""The best of a catalogue that lies in shards: the best N of each, merged exactly."""

from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

from coldstream.config import RankRule


class ShardItem(NamedTuple):
    """An item that is among the best of its shard."""

    item: str
    score: float
    arrival: int
    """Which of all arrivals it was: of equals the first is the best, in whatever shards they are."""


def merged_best(shards: Iterable[Sequence[ShardItem]], n: int, rank: RankRule) -> list[ShardItem]:
    """The best n of all, best first, from the best n of every shard, each best first.

    Whoever is among the best n of all is among the best n of its shard, so nothing is missed; scores have the same bits
    wherever they are made, and ties the same rule, so the order is that of one scan.
    """
    if rank == "closest-to-1":
        return list(islice(merge(*shards, key=lambda one: (abs(one.score - 1.0), one.arrival)), n))
    return list(islice(merge(*shards, key=lambda one: (-one.score, one.arrival)), n))
