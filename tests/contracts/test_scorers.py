"""What every scorer has to do, wherever it finds items' vectors: a new one is one line in `SCORERS`."""

from collections.abc import Callable

import numpy as np
import pytest

from coldstream import Category, Event, Id, Number, Recommender, Schema
from coldstream.catalogue.catalogue import Catalogue
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.model.reference import Theta, score
from coldstream.scoring.requests import NOTHING_EXCLUDED, EncodedRequest
from coldstream.scoring.scorer import AcrossVectors, FoldedVectors, Scan, Scorer
from coldstream.support.arrays import Flags

ITEMS, USERS = 60, 7
SCHEMA = Schema(item=[Id(), Category("brand"), Number("price", scale=10)], context=[Category("device")])

Build = Callable[[FactorizationMachine, Catalogue], Scorer]
SCORERS: dict[str, tuple[str, Build]] = {
    "across": ("across", lambda machine, items: Scan(machine, items, AcrossVectors(machine, items))),
    "folded j>i": ("j>i", lambda machine, items: Scan(machine, items, FoldedVectors(machine, items))),
    "folded j>=i": ("j>=i", lambda machine, items: Scan(machine, items, FoldedVectors(machine, items))),
}
"""By name: which pairs it scores, and how it is made."""


class ScorerUnderTest:
    """A scorer over a small shop that has learned something, and its definition: the twin's score of one pair of sides."""

    def __init__(self, pairs: str, build: Build) -> None:
        self.recommender = Recommender(SCHEMA, seed=5, pairs=pairs, factors=5, initial_deviation=0.3, negatives=5)
        for n in range(ITEMS):
            self.recommender.put_item(f"i{n}", {"brand": f"b{n % 4}", "price": float(n % 9)})
        rng = np.random.default_rng(1)
        for t in range(150):
            item = f"i{int(rng.random() ** 2 * ITEMS)}"
            self.recommender.learn(Event(f"u{t % USERS}", item, float(t), {"device": "phone" if t % 3 else "desk"}))
        self.recommender.remove_item("i3")
        shared = self.recommender.engine.shared
        self.pairs, self.machine, self.catalogue = pairs, shared.machine, shared.catalogue
        self.clock = self.recommender.events
        self.build, self.scorer = build, build(self.machine, self.catalogue)
        self.live = sorted(self.catalogue.live().tolist())

    def request(
        self, user: int, n: int = ITEMS, exclude_seen: bool = False, excluded: Flags = NOTHING_EXCLUDED
    ) -> EncodedRequest:
        encoded = self.recommender.serving.encode_request(
            f"u{user}", n, context={"device": "desk"}, exclude_seen=exclude_seen
        )
        return encoded._replace(excluded=excluded)

    def defined(self, request: EncodedRequest, slot: int) -> float:
        rows, own = self.machine.parameters.rows, self.catalogue.features(slot, self.clock, request.history)
        theta = Theta(float(self.machine.parameters.optimizer.w0[0]), rows.w.astype(float), rows.V.astype(float))
        context = dict(zip(request.x.column.tolist(), request.x.value.tolist(), strict=True))
        return score(theta, context, dict(zip(own.column.tolist(), own.value.tolist(), strict=True)), self.pairs)


@pytest.fixture(scope="module", params=SCORERS.values(), ids=SCORERS.keys())
def made(request: pytest.FixtureRequest) -> ScorerUnderTest:
    return ScorerUnderTest(*request.param)


def test_a_score_is_the_definitions(made: ScorerUnderTest) -> None:
    for user in range(USERS):
        request = made.request(user)
        for slot in made.live[::5]:
            assert made.scorer.score(request, slot, made.clock) == pytest.approx(made.defined(request, slot), abs=1e-4)


def test_the_list_has_the_scores_of_its_items_best_first(made: ScorerUnderTest) -> None:
    for user in range(USERS):
        request = made.request(user)
        [best] = made.scorer.top([request], made.clock)
        assert sorted(slot for slot, _ in best) == made.live
        assert [value for _, value in best] == sorted((value for _, value in best), reverse=True)
        assert all(value == made.scorer.score(request, slot, made.clock) for slot, value in best)
        assert made.scorer.top([made.request(user, n=4)], made.clock) == [best[:4]]


def test_a_rank_is_the_place_in_the_list(made: ScorerUnderTest) -> None:
    request = made.request(2)
    [best] = made.scorer.top([request], made.clock)
    values = [value for _, value in best]
    for slot, value in best:
        better, equal = sum(other > value for other in values), values.count(value) - 1
        assert made.scorer.rank(request, slot, made.clock) == (better + equal / 2, len(best))


def test_what_is_excluded_is_neither_listed_nor_counted_and_changes_no_score(made: ScorerUnderTest) -> None:
    excluded = np.zeros(len(made.catalogue.ids), np.uint8)
    excluded[made.live[::2]] = 1
    [all_of_them] = made.scorer.top([made.request(1)], made.clock)
    for exclude_seen in (False, True):
        request = made.request(1, exclude_seen=exclude_seen, excluded=excluded)
        out = set(made.live[::2]) | (set(request.history.seen.tolist()) if exclude_seen else set())
        [best] = made.scorer.top([request], made.clock)
        assert best == [(slot, value) for slot, value in all_of_them if slot not in out]
        assert made.scorer.rank(request, made.live[0], made.clock).candidates == len(best) + 1


def test_a_batch_gives_every_request_its_own_answer(made: ScorerUnderTest) -> None:
    requests = [made.request(n % USERS, n=1 + n, exclude_seen=n % 2 == 0) for n in range(11)]
    together = made.scorer.top(requests, made.clock)
    assert together == [made.scorer.top([request], made.clock)[0] for request in requests]
    assert made.scorer.top(requests[::-1], made.clock) == together[::-1]


def test_it_follows_what_is_learned_put_and_removed(made: ScorerUnderTest) -> None:
    made = ScorerUnderTest(made.pairs, made.build)
    made.scorer.top([made.request(0)], made.clock)
    made.recommender.learn(Event("u0", "i9", 500.0, {"device": "desk"}))
    made.recommender.put_item("new", {"brand": "b1", "price": 30.0})
    made.recommender.put_item("i8", {"brand": "b3"})
    made.recommender.remove_item("i10")
    made.clock, request = made.recommender.events, made.request(0)
    [best] = made.scorer.top([request], made.clock)
    assert sorted(made.catalogue.ids[slot] for slot, _ in best) == sorted(made.recommender.items())
    assert all(value == pytest.approx(made.defined(request, slot), abs=1e-4) for slot, value in best)
