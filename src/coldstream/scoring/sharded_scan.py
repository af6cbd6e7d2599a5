"""The exact scan over shards of the catalogue: the best N of each are merged, and ranks are added up. Same bits as one scan.

Requests are encoded and folded here, once; shards scan their items. Before they are asked they are told what has changed.
As long as they do not know everything, because they have only begun or others were lost, the scan is done here.
"""

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TypeVar

import numpy as np

from coldstream.catalogue.catalogue import Catalogue
from coldstream.config import RankRule as RankRuleName
from coldstream.errors import InvalidInput, shown
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.scoring.merged_best import merged_best
from coldstream.scoring.questions import WorkedOut, worked_out
from coldstream.scoring.ranking import RANK_RULES, Rank, RankRule
from coldstream.scoring.requests import NOTHING_EXCLUDED, EncodedRequest, RequestBatch
from coldstream.scoring.scorer import AcrossVectors, Scan, pieces_of
from coldstream.scoring.shard import ShardShape, ShardsLost
from coldstream.scoring.shard_updates import ShardUpdates
from coldstream.scoring.shards import BeginShards, Shards

log = logging.getLogger(__name__)

MOST_TOLD = 16_384
"""Items in one update: a few megabytes."""

MOST_BEHIND = 4
"""Updates that shards may still have to take up while they are asked, or told more: a request waits for these at most."""

AGAIN_AFTER = 5.0
"""Seconds from a loss until others are begun."""

Answer = TypeVar("Answer")


class ShardedScan:
    """A scorer whose items' vectors are read elsewhere, by shards that `begin` makes."""

    def __init__(self, machine: FactorizationMachine, catalogue: Catalogue, begin: BeginShards) -> None:
        if machine.hyperparameters.pairs != "across":
            message = f"pairs must be 'across' where shards scan the catalogue, got {shown(machine.hyperparameters.pairs)}"
            raise InvalidInput(f"{message}; leave shards out, or begin with a preset that has it, such as 'default'")
        self._machine, self._catalogue, self._begin = machine, catalogue, begin
        self._vectors = AcrossVectors(machine, catalogue)
        self._here = Scan(machine, catalogue, self._vectors)
        rank: RankRuleName = machine.hyperparameters.rank
        self._rank_rule = RANK_RULES[rank]
        self._shards: Shards | None = None
        self._updates: ShardUpdates | None = None
        self._not_before = 0.0
        self.answering = 0
        """How many shards knew everything when that was asked last; 0 where this process scanned."""

    def tell(self) -> None:
        """Let shards know what has changed."""
        self._answered(lambda *_: None, lambda: None)

    def top(self, requests: Sequence[EncodedRequest], clock: int) -> list[list[tuple[int, float]]]:
        sums = self._vectors.now().combinations.size + len(self._catalogue)

        def ask(shards: Shards, known: int) -> list[list[tuple[int, float]]]:
            pieces = pieces_of(requests, sums)
            return [answer for piece in pieces for answer in self._top(shards, known, piece, clock)]

        return self._answered(ask, lambda: self._here.top(requests, clock))

    def rank(self, request: EncodedRequest, slot: int, clock: int) -> Rank:
        def ask(shards: Shards, known: int) -> Rank:
            score = self._score(shards, known, request, slot, clock)[1]
            own = self._worked_out([request], clock)
            parts = [own.part(shard, shards.count) for shard in range(shards.count)]
            found = shards.standing(known, own.question, parts, score, slot)
            better, equal, candidates = (sum(one) for one in zip(*found, strict=True))
            return Rank(better + 0.5 * equal, candidates + 1)

        return self._answered(ask, lambda: self._here.rank(request, slot, clock))

    def score(self, request: EncodedRequest, slot: int, clock: int) -> float:
        def ask(shards: Shards, known: int) -> float:
            return float(sum(self._score(shards, known, request, slot, clock)))

        return self._answered(ask, lambda: self._here.score(request, slot, clock))

    def close(self) -> None:
        """Let the shards go; this process scans from here on."""
        if self._shards is not None:
            self._shards.close()
        if self._updates is not None:
            self._updates.close()
        self._shards = self._updates = None
        self._not_before, self.answering = float("inf"), 0

    # What is asked

    def _top(
        self, shards: Shards, known: int, requests: Sequence[EncodedRequest], clock: int
    ) -> list[list[tuple[int, float]]]:
        own = self._worked_out(requests, clock)
        best = shards.best(known, own.question, [own.part(shard, shards.count) for shard in range(shards.count)])
        wanted, bias = np.diff(own.question.answers).tolist(), own.question.folded.own.tolist()
        rules = [RankRule(self._rank_rule, one) for one in bias]
        return [merged_best(best, b, wanted[b], rules[b]) for b in range(len(requests))]

    def _score(self, shards: Shards, known: int, request: EncodedRequest, slot: int, clock: int) -> tuple[float, float]:
        """The request's own part of a score, and the rest."""
        own = self._worked_out([request._replace(exclude_seen=False, excluded=NOTHING_EXCLUDED)], clock)
        part = own.part(slot % shards.count, shards.count)
        return float(own.question.folded.own[0]), shards.score(known, own.question, part, slot)

    def _worked_out(self, requests: Sequence[EncodedRequest], clock: int) -> WorkedOut:
        theta, items, vectors = self._machine.parameters.theta, self._catalogue.items, self._vectors.now()
        return worked_out(theta, items, vectors, RequestBatch.of(requests, items.size), self._rank_rule, clock)

    # Who is asked

    def _answered(self, ask: Callable[[Shards, int], Answer], scan: Callable[[], Answer]) -> Answer:
        """The answer of shards, or of this process where they cannot answer."""
        self.answering = 0
        try:
            known = self._told()
            if known is not None and self._shards is not None:
                answer = ask(self._shards, known)
                self.answering = self._shards.count
                return answer
        except ShardsLost as error:
            log.warning("shards were lost; this process scans until others know everything", extra={"reason": str(error)})
            self.close()
            self._not_before = monotonic() + AGAIN_AFTER
        return scan()

    def _told(self) -> int | None:
        """How many updates shards know, or will before they answer; None while they do not know everything."""
        if self._shards is None or self._updates is None:
            if monotonic() < self._not_before:
                return None
            self._shards = self._begin(self._shape())
            self._updates = ShardUpdates(self._machine, self._catalogue, self._shards.count)
        shards, updates = self._shards, self._updates
        waiting, behind = updates.look(), shards.behind()
        for _ in range(MOST_BEHIND):  # and no more at once, because whoever asks waits
            if not waiting or behind is None or behind >= MOST_BEHIND:
                break
            some = updates.taken(MOST_TOLD, self._vectors.now())
            shards.update(updates.told, some)
            waiting, behind = updates.look(), shards.behind()
        return None if waiting or behind is None or behind >= MOST_BEHIND else updates.told

    def _shape(self) -> ShardShape:
        items = self._catalogue.items
        crossed = (items.neighbours.column >= 0).astype(np.uint8)
        factors = self._machine.hyperparameters.factors
        return ShardShape(factors, items.trends.rate.copy(), items.trends.prior_decay, crossed)
