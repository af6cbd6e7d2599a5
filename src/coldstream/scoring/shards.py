"""Shards of a catalogue, wherever they are, and all of them in this process: the same bits without a cluster."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from coldstream.scoring.questions import Part, Question
from coldstream.scoring.scan import Standing
from coldstream.scoring.shard import Best, Shard, ShardShape, Update


class Shards(Protocol):
    """So many shards. What is asked of them is done in order; `ShardsLost` where one does not answer.

    Updates are numbered from 1 on, and every question says how many of them it is about.
    """

    count: int

    def update(self, number: int, updates: Sequence[Update]) -> None:
        """Let every shard know what has changed of its items, now or later."""

    def behind(self) -> int | None:
        """How many updates some shard has not taken up yet; None while they are only about to begin."""

    def best(self, known: int, question: Question, parts: Sequence[Part]) -> Sequence[Best]:
        """The best items of each."""

    def standing(self, known: int, question: Question, parts: Sequence[Part], score: float, slot: int) -> Sequence[Standing]:
        """Where a score stands in each, for a question of one request; the item of that slot is left out."""

    def score(self, known: int, question: Question, part: Part, slot: int) -> float:
        """The score of one item, which only its shard is asked."""

    def close(self) -> None:
        """Let them go."""


BeginShards: TypeAlias = Callable[[ShardShape], Shards]
"""Makes shards that have no items yet."""


class LocalShards:
    """So many shards, one after the other."""

    def __init__(self, count: int, shape: ShardShape) -> None:
        self.count = count
        self.shards = [Shard(number, count, shape) for number in range(count)]

    def update(self, number: int, updates: Sequence[Update]) -> None:
        for shard, update in zip(self.shards, updates, strict=True):
            shard.update(number, update)

    def behind(self) -> int | None:
        return 0

    def best(self, known: int, question: Question, parts: Sequence[Part]) -> Sequence[Best]:
        return [shard.best(known, question, part) for shard, part in zip(self.shards, parts, strict=True)]

    def standing(self, known: int, question: Question, parts: Sequence[Part], score: float, slot: int) -> Sequence[Standing]:
        own = zip(self.shards, parts, strict=True)
        return [shard.standing(known, question, part, score, slot) for shard, part in own]

    def score(self, known: int, question: Question, part: Part, slot: int) -> float:
        return self.shards[slot % self.count].score(known, question, part, slot)

    def close(self) -> None:
        """There is nothing to let go."""
