"""A scorer becomes a recommender: candidates, ties, ranks and ids."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream import Event, Feedback
from coldstream.baselines.baseline import Baseline
from coldstream.baselines.popularity import Popularity
from coldstream.baselines.user_past import UserPast
from coldstream.errors import UnknownId
from coldstream.support.arrays import Doubles

ASKED = {"context": {}, "time": None}


class Table:
    """Scores as given, and a record of what was learned."""

    def __init__(self, scores: Sequence[float]) -> None:
        self.given = np.array(scores, np.float64)
        self.items = 0
        self.learned: list[tuple[list[int], int]] = []

    def grow(self, items: int, /) -> None:
        self.items = items

    def scores(self, _: UserPast, /) -> Doubles:
        return self.given[: self.items]

    def learn(self, past: UserPast, item: int, /) -> None:
        self.learned.append((past.distinct.tolist(), item))


class BatchTable(Table):
    """The same with a faster way to train."""

    def train(self, choices: Sequence[tuple[UserPast, int]], /) -> None:
        self.batch = [(past.distinct.tolist(), item) for past, item in choices]


def known(scorer: Table, repeats: bool = False) -> Baseline:
    baseline = Baseline(scorer, repeats)
    for n in range(len(scorer.given)):
        baseline.add_item(f"i{n}", {})
    for user in "ab":
        baseline.add_user(user, {})
    return baseline


scores = st.lists(st.integers(-2, 2), min_size=1, max_size=12)


@given(scores, st.data(), st.booleans())
def test_ranks_and_recommendations_follow_the_definition(given: list[int], data: st.DataObject, repeats: bool) -> None:
    numbers = range(len(given))
    had = data.draw(st.lists(st.sampled_from(numbers)))
    baseline = known(Table(given), repeats)
    for number in had:
        baseline.learn(Event("a", f"i{number}"))
    candidates = [number for number in numbers if repeats or number not in had]
    for n in range(1, len(given) + 2):
        best = sorted(candidates, key=lambda number: (-given[number], number))[:n]
        assert baseline.recommend("a", n, **ASKED) == [f"i{number}" for number in best]
    for number in numbers:
        others = [given[other] for other in candidates if other != number]
        position = sum(score > given[number] for score in others) + sum(score == given[number] for score in others) / 2
        assert baseline.rank("a", f"i{number}", **ASKED) == (position, len(others) + 1)


def test_a_scorer_learns_each_choice_before_it_is_past() -> None:
    scorer = Table([0, 0, 0])
    baseline = known(scorer)
    for user, item in [("a", "i1"), ("a", "i2"), ("b", "i1"), ("a", "i1"), ("a", "i0")]:
        baseline.learn(Event(user, item))
    assert scorer.learned == [([], 1), ([1], 2), ([], 1), ([1, 2], 1), ([2, 1], 0)]


def test_training_is_learning_in_order() -> None:
    trained, learned = Table([0, 0, 0]), Table([0, 0, 0])
    events = [Event("a", "i1"), Event("b", "i2"), Event("a", "i2")]
    known(trained).train(events)
    one_by_one = known(learned)
    for event in events:
        one_by_one.learn(event)
    assert trained.learned == learned.learned
    assert len(trained.learned) == 3


def test_a_scorer_with_a_faster_way_is_trained_at_once() -> None:
    scorer = BatchTable([0, 0, 0])
    baseline = known(scorer)
    baseline.train([Event("a", "i1"), Event("b", "i2"), Event("a", "i2")])
    assert scorer.learned == []
    assert scorer.batch == [([1, 2], 1), ([2], 2), ([1, 2], 2)]
    assert baseline.recommend("a", 3, **ASKED) == ["i0"]


@pytest.mark.parametrize("scorer", [Table, BatchTable])
@pytest.mark.parametrize(("event", "named"), [(Event("a", "new"), "item 'new'"), (Event("new", "i0"), "user 'new'")])
def test_an_event_of_somebody_unknown_is_refused_whole(scorer: type[Table], event: Event, named: str) -> None:
    baseline = known(scorer([0, 0]))
    for refused in (lambda: baseline.learn(event), lambda: baseline.train([Event("a", "i0"), event])):
        with pytest.raises(UnknownId, match=f"{named} is not known; add_"):
            refused()
    assert baseline.recommend("a", 2, **ASKED) == ["i0", "i1"]


def test_an_unknown_item_has_no_rank() -> None:
    with pytest.raises(UnknownId, match="item 'x' is not known; add_item"):
        known(Table([0, 0])).rank("a", "x", **ASKED)


def test_who_comes_again_is_the_same() -> None:
    baseline = known(Table([0, 1]))
    baseline.learn(Event("a", "i1"))
    baseline.add_user("a", {})
    baseline.add_item("i0", {})
    assert baseline.recommend("a", 5, **ASKED) == ["i0"]
    assert baseline.recommend("b", 5, **ASKED) == ["i1", "i0"]


def test_without_items_there_is_nothing_to_recommend() -> None:
    assert Baseline(Popularity(), repeats=False).recommend("a", 3, **ASKED) == []


def test_kinds_are_choices_or_had_as_the_schema_says() -> None:
    kinds = (Feedback("cart", 0.5), Feedback("purchase", 1), Feedback("dislike", -1))
    baseline = Baseline(Popularity(), repeats=False, feedback=kinds)
    baseline.add_user("u", {})
    for item in ("a", "b", "c", "d"):
        baseline.add_item(item, {})
    baseline.train([Event("u", "a", kind="cart"), Event("u", "b", kind="purchase")])
    baseline.learn(Event("u", "c", kind="dislike"))
    baseline.learn(Event("u", "a", kind="cart"))
    assert baseline.recommend("u", 4, context={}, time=None) == ["a", "d"]
    assert baseline.rank("u", "d", context={}, time=None) == (1.0, 2)
