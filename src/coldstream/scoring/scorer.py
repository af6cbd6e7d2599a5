"""The scorer: the interface between encoded requests and their answers, the best items and ranks.

A scorer reads Θ and the catalogue as they are, and keeps no copy that must be updated. A scorer on another device would be
another class that implements the same protocol.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from coldstream.catalogue.catalogue import Catalogue
from coldstream.catalogue.shapes import Combinations
from coldstream.config import RankRule
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.scoring.folding import fold_items, fold_trends
from coldstream.scoring.ranking import RANK_RULES, Rank
from coldstream.scoring.requests import EncodedRequest, RequestBatch
from coldstream.scoring.scan import Answers, ItemVectors, rank_of, score_of, top
from coldstream.support.arrays import Floats
from coldstream.support.compiled import unchecked_entry

_top, _rank_of, _score_of = unchecked_entry(top), unchecked_entry(rank_of), unchecked_entry(score_of)

_MOST_SUMS = 16_000_000
"""Most floats computed for a batch before its scan: per request one for each combination and one for each item."""


class Scorer(Protocol):
    """The protocol of scorers. `clock` is the count of events, by which trends decay."""

    def top(self, requests: Sequence[EncodedRequest], clock: int) -> list[list[tuple[int, float]]]:
        """Return slots and scores of the best items of every request, best first."""

    def rank(self, request: EncodedRequest, slot: int, clock: int) -> Rank:
        """Return the rank of a live item among all items that are not excluded, and itself."""

    def score(self, request: EncodedRequest, slot: int, clock: int) -> float:
        """Return the score of one live item."""


def scorer_of(machine: FactorizationMachine, catalogue: Catalogue) -> Scorer:
    """Return the scorer for a machine's kind of pairs."""
    vectors = AcrossVectors if machine.hyperparameters.pairs == "across" else FoldedVectors
    return Scan(machine, catalogue, vectors(machine, catalogue))


class Vectors(Protocol):
    """The protocol of sources of item vectors for a scan."""

    def now(self) -> ItemVectors:
        """Return the item vectors for the present parameters and catalogue."""


class Scan:
    """A scorer that scans all items exactly, on one processor."""

    def __init__(self, machine: FactorizationMachine, catalogue: Catalogue, vectors: Vectors) -> None:
        self._machine, self._catalogue, self._vectors = machine, catalogue, vectors
        rank: RankRule = machine.hyperparameters.rank
        self._rank_rule = RANK_RULES[rank]

    def top(self, requests: Sequence[EncodedRequest], clock: int) -> list[list[tuple[int, float]]]:
        vectors = self._vectors.now()
        most = max(1, _MOST_SUMS // (1 + vectors.combinations.size + len(self._catalogue)))
        if len(requests) <= most:
            return self._top(requests, vectors, clock)
        pieces = [requests[first : first + most] for first in range(0, len(requests), most)]
        return [answer for piece in pieces for answer in self._top(piece, vectors, clock)]

    def _top(self, requests: Sequence[EncodedRequest], vectors: ItemVectors, clock: int) -> list[list[tuple[int, float]]]:
        items = self._catalogue.items
        batch = RequestBatch.of(requests, items.size)
        first = batch.offset[3].tolist()
        out = Answers(np.zeros(first[-1], np.int32), np.empty(first[-1]), np.empty(len(requests), np.int32))
        _top(self._machine.parameters.theta, items, vectors, batch, self._rank_rule, clock, out)
        listed = list(zip(out.slot.tolist(), out.score.tolist(), strict=True))
        if len(requests) == 1:
            return [listed[: out.found[0]]]
        return [listed[start : start + found] for start, found in zip(first, out.found.tolist(), strict=False)]

    def rank(self, request: EncodedRequest, slot: int, clock: int) -> Rank:
        items, vectors = self._catalogue.items, self._vectors.now()
        batch, position = RequestBatch.of([request], items.size), int(items.position[slot])
        return Rank(*_rank_of(self._machine.parameters.theta, items, vectors, batch, self._rank_rule, clock, position))

    def score(self, request: EncodedRequest, slot: int, clock: int) -> float:
        items, vectors = self._catalogue.items, self._vectors.now()
        batch, position = RequestBatch.of([request], items.size), int(items.position[slot])
        return float(_score_of(self._machine.parameters.theta, items, vectors, batch, clock, position))


class AcrossVectors:
    """Item vectors for pairs across the sides: read from Θ in place, without folding."""

    def __init__(self, machine: FactorizationMachine, catalogue: Catalogue) -> None:
        self._machine, self._catalogue = machine, catalogue
        self._made_of: tuple[object, object] | None = None
        self._vectors: ItemVectors

    def now(self) -> ItemVectors:
        theta, items = self._machine.parameters.theta, self._catalogue.items
        if self._made_of is None or self._made_of[0] is not theta or self._made_of[1] is not items:
            self._made_of, self._vectors = (theta, items), self._made()
        return self._vectors

    def _made(self) -> ItemVectors:
        theta, items = self._machine.parameters.theta, self._catalogue.items
        rows, k = items.rows, theta.V.shape[1]
        matrix, weight, row = theta.V, theta.w, rows.id_column
        if items.size and rows.id_column[0] < 0:  # no item has an id
            matrix, weight = np.zeros((1, k), np.float32), np.zeros(1, np.float32)
            row = np.zeros(len(rows.slot), np.int32)
        return ItemVectors(
            self._machine.rule.pairs,
            matrix,
            weight,
            row,
            rows.combination,
            rows.number,
            items.combinations,
            items.number_column,
            np.zeros((0, 0), np.float32),
            np.zeros((0, 0), np.float32),
        )


class FoldedVectors:
    """Item vectors for all pairs: each item folded to one vector and one bias, again whenever a request finds them stale.

    It suits a few thousand items: an item's own pairs depend on all its features together.
    """

    def __init__(self, machine: FactorizationMachine, catalogue: Catalogue) -> None:
        self._machine, self._catalogue = machine, catalogue
        self._made_of = (-1, -1)
        self._vectors: ItemVectors

    def now(self) -> ItemVectors:
        made_of = (self._machine.parameters.changes, self._catalogue.changes)
        if made_of != self._made_of:
            self._made_of, self._vectors = made_of, self._folded()
        return self._vectors

    def _folded(self) -> ItemVectors:
        theta, items, pairs = self._machine.parameters.theta, self._catalogue.items, self._machine.rule.pairs
        matrix = np.empty((items.size, theta.V.shape[1]), np.float32)
        bias = np.empty(items.size, np.float32)
        fold_items(theta, items, pairs, matrix, bias)
        product, pair = self._folded_trends(matrix)
        none, nothing = np.zeros((0, items.size), np.int32), np.zeros(0, np.int32)
        empty = Combinations(0, 0, nothing, nothing, nothing, np.zeros(0, np.float32), nothing)
        row = np.arange(items.size, dtype=np.int32)
        return ItemVectors(
            pairs, matrix, bias, row, none, np.zeros((0, items.size), np.float32), empty, nothing, product, pair
        )

    def _folded_trends(self, matrix: Floats) -> tuple[Floats, Floats]:
        theta, trends = self._machine.parameters.theta, self._catalogue.items.trends
        if not theta.V[trends.column].any():  # linear: there are no interactions
            return np.zeros((0, 0), np.float32), np.zeros((0, 0), np.float32)
        product = np.empty((len(trends.column), len(matrix)), np.float32)
        pair = np.zeros((len(trends.column), len(trends.column)), np.float32)
        fold_trends(theta, trends.column, self._machine.rule.pairs, matrix, product, pair)
        return product, pair
