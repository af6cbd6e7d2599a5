"""What every recommender under test has to do, whatever it knows."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from coldstream import Event, Schema, TimePart
from coldstream.baselines.baseline import Baseline
from coldstream.baselines.ease import Ease
from coldstream.baselines.item_knn import ItemKnn
from coldstream.baselines.markov import Markov
from coldstream.baselines.popularity import Popularity
from coldstream.baselines.random import Random
from coldstream.baselines.recent_popularity import DecayedPopularity, WindowedPopularity
from coldstream.evaluation.method import Method
from coldstream.evaluation.methods import parse_method
from coldstream.evaluation.workload import Workload
from coldstream.events.stream import Stream
from coldstream.scoring.ranking import Rank

BASELINES: dict[str, Callable[[bool, int], Method]] = {
    "random": lambda repeats, seed: Baseline(Random(seed), repeats),
    "popularity": lambda repeats, _: Baseline(Popularity(), repeats),
    "half-life": lambda repeats, _: Baseline(DecayedPopularity(half_life=20), repeats),
    "window": lambda repeats, _: Baseline(WindowedPopularity(window=10), repeats),
    "markov": lambda repeats, _: Baseline(Markov(), repeats),
    "item-knn": lambda repeats, _: Baseline(ItemKnn(), repeats),
    "ease": lambda repeats, _: Baseline(Ease(), repeats),
}
MACHINES = ("coldstream", "ifm", "static-fm", "imf", "static-mf", "imf-tuned", "linear")


def machine(name: str) -> Callable[[bool, int], Method]:
    def build(repeats: bool, seed: int) -> Method:
        workload = Workload(Stream("contract", [], {}, {}, repeats), Schema(), Schema(context=(TimePart("weekday"),)))
        return parse_method(name).build(workload, seed)

    return build


METHODS: dict[str, Callable[[bool, int], Method]] = {**BASELINES, **{name: machine(name) for name in MACHINES}}
"""Whether items that a user had stay candidates, and a seed → a method with nobody and nothing in it."""

UNCHOSEN = ["x0", "x1"]
TRAINED = 30

every_method = pytest.mark.parametrize("build", METHODS.values(), ids=METHODS.keys())
both_rules = pytest.mark.parametrize("repeats", [False, True], ids=["once", "repeats"])


def events(seed: int, n: int = 90) -> list[Event]:
    """A stream in which users and items keep coming, some items are favoured, and choices repeat."""
    rng = np.random.default_rng(seed)
    users, items = rng.random(n) * (3 + np.arange(n) / 12), rng.random(n) ** 2 * (4 + np.arange(n) / 8)
    return [Event(f"u{int(users[t])}", f"i{int(items[t])}", float(t)) for t in range(n)]


class MethodUnderTest:
    """A method that is given a stream, and what must be known of it to judge its answers."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.items: list[str] = []
        self.had: dict[str, set[str]] = {}

    def register(self, user: str, item: str) -> None:
        if user not in self.had:
            self.had[user] = set()
            self.method.add_user(user, {})
        if item not in self.items:
            self.items.append(item)
            self.method.add_item(item, {})

    def prepare(self, past: list[Event]) -> None:
        for event in past:
            self.register(event.user, event.item)
        for item in UNCHOSEN:
            self.register(past[0].user, item)

    def train(self, past: list[Event]) -> None:
        self.prepare(past)
        self.method.train(past)
        for event in past:
            self.had[event.user].add(event.item)

    def learn(self, event: Event) -> None:
        self.method.learn(event)
        self.had[event.user].add(event.item)

    def recommend(self, user: str, n: int) -> list[str]:
        return list(self.method.recommend(user, n, context={}, time=100.0))

    def rank(self, user: str, item: str) -> Rank:
        return self.method.rank(user, item, context={}, time=100.0)

    def asking(self) -> list[str]:
        """Some users, the one who came last among them, and one whom nobody has ever seen."""
        return [*list(self.had)[:2], list(self.had)[-1], "stranger"]

    def answers(self) -> list[object]:
        return [
            answer
            for user in self.asking()
            for answer in (self.recommend(user, 5), [self.rank(user, item) for item in self.items])
        ]


def moments(method: Method, stream: list[Event], every: int = 15) -> Iterator[MethodUnderTest]:
    """The method after training, and now and then while it learns, just after somebody or something may have come."""
    under_test = MethodUnderTest(method)
    under_test.train(stream[:TRAINED])
    for n, event in enumerate(stream[TRAINED:]):
        under_test.register(event.user, event.item)
        if n % every == 0:
            yield under_test
        under_test.learn(event)
    yield under_test


@every_method
@both_rules
def test_candidates_are_all_items_less_what_the_user_had(build: Callable[[bool, int], Method], repeats: bool) -> None:
    for under_test in moments(build(repeats, 1), events(seed=1)):
        for user in under_test.asking():
            left_out = set() if repeats else under_test.had.get(user, set())
            candidates = set(under_test.items) - left_out
            assert set(under_test.recommend(user, len(under_test.items) + 1)) == candidates
            for item in under_test.items:
                assert under_test.rank(user, item).candidates == len(candidates | {item})


@every_method
@both_rules
def test_recommendations_are_the_candidates_in_order_of_rank(build: Callable[[bool, int], Method], repeats: bool) -> None:
    for under_test in moments(build(repeats, 2), events(seed=2)):
        for user in under_test.asking():
            whole = under_test.recommend(user, len(under_test.items))
            positions = {item: under_test.rank(user, item).position for item in whole}
            assert whole == sorted(whole, key=lambda item: (positions[item], under_test.items.index(item)))
            for item, position in positions.items():
                tied = [other for other in whole if positions[other] == position]
                first = whole.index(tied[0])
                # Tied items share the mean of the places they take together.
                assert position == first + (len(tied) - 1) / 2
                if tied == [item]:
                    assert under_test.recommend(user, int(position) + 1)[int(position)] == item


@every_method
@both_rules
def test_a_shorter_recommendation_is_the_beginning_of_a_longer_one(
    build: Callable[[bool, int], Method], repeats: bool
) -> None:
    for under_test in moments(build(repeats, 4), events(seed=4)):
        for user in under_test.asking():
            whole = under_test.recommend(user, len(under_test.items))
            for n in range(1, len(under_test.items) + 1):
                assert under_test.recommend(user, n) == whole[:n]


@every_method
def test_reading_changes_nothing(build: Callable[[bool, int], Method]) -> None:
    stream = events(seed=5)
    for read in moments(build(False, 5), stream, every=1):
        assert read.answers() == read.answers()
    *_, unread = moments(build(False, 5), stream)
    assert read.answers() == unread.answers()


@every_method
def test_a_stranger_stays_a_stranger(build: Callable[[bool, int], Method]) -> None:
    """Somebody who was asked for before coming is served like somebody who was not."""
    asked, unasked = MethodUnderTest(build(False, 6)), MethodUnderTest(build(False, 6))
    stream = events(seed=6)
    for under_test in (asked, unasked):
        under_test.train(stream[:TRAINED])
    asked.recommend("newcomer", 3)
    asked.rank("newcomer", asked.items[0])
    for under_test in (asked, unasked):
        for item in under_test.items[:3]:
            under_test.register("newcomer", item)
            under_test.learn(Event("newcomer", item, 100.0))
    assert asked.answers() == unasked.answers()
    assert asked.recommend("newcomer", 5) == unasked.recommend("newcomer", 5)


@every_method
@both_rules
def test_equal_seeds_give_equal_answers(build: Callable[[bool, int], Method], repeats: bool) -> None:
    for one, other in zip(*(moments(build(repeats, 7), events(seed=7)) for _ in range(2)), strict=True):
        assert one.answers() == other.answers()


@pytest.mark.parametrize("build", BASELINES.values(), ids=BASELINES.keys())
@both_rules
@pytest.mark.parametrize("seed", [8, 9])
def test_training_a_baseline_is_learning_in_order(build: Callable[[bool, int], Method], repeats: bool, seed: int) -> None:
    stream = events(seed)
    trained, learned = MethodUnderTest(build(repeats, seed)), MethodUnderTest(build(repeats, seed))
    trained.train(stream[:TRAINED])
    learned.prepare(stream[:TRAINED])
    for event in stream[:TRAINED]:
        learned.learn(event)
    assert trained.answers() == learned.answers()
    for event in stream[TRAINED:]:
        for under_test in (trained, learned):
            under_test.register(event.user, event.item)
            under_test.learn(event)
    assert trained.answers() == learned.answers()
