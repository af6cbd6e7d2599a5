"""Test-then-learn on a stream short enough to be worked out by hand.

Ten events: two train, one is learned in order, seven are tested. The method counts how often each item was taken.

    0  u1 a   trains
    1  u2 b   trains
    2  u1 b   is learned: a was taken once, b twice; u1 had a and b, u2 had b
    3  u2 a
    4  u3 b   u3 is new; a and b are tied
    5  u1 c   c is new
    6  u4 d   both are new
    7  u3 d   c and d are tied
    8  u1 a   again
    9  u2 e   e is new
"""

from collections.abc import Sequence

import numpy as np
import pytest
from transparent import Counting, Recording

from coldstream import Event, InvalidInput
from coldstream.evaluation import metrics, prequential
from coldstream.evaluation.prequential import Split, Trial, run_trial, split
from coldstream.events.stream import Stream

TAKEN = ["u1 a", "u2 b", "u1 b", "u2 a", "u3 b", "u1 c", "u4 d", "u3 d", "u1 a", "u2 e"]
EVENTS = [Event(*pair.split(), time=100.0 + n, context={"place": n}) for n, pair in enumerate(TAKEN)]
USERS = {"u1": {"age": 30}, "u4": {"age": 40}}
ITEMS = {"a": {"genre": ["drama"]}, "e": {"genre": ["crime"]}}


def hand_worked(repeats: bool, events: Sequence[Event] = EVENTS) -> Stream:
    return Stream("hand-worked", events, USERS, ITEMS, repeats)


def tried(repeats: bool, top: int) -> Trial:
    return run_trial(Counting(repeats), hand_worked(repeats), top)


def test_ranks_where_users_take_an_item_once() -> None:
    trial = tried(repeats=False, top=2)
    # event   counts before it        candidates (what the user had is out, the true item is in)     rank
    #   3     a1 b2                   a              (u2 had b)                                      alone: 0
    #   4     a2 b2                   a b                                                            tied with a: 1/2
    #   5     a2 b3 c0                c              (u1 had a, b)                                   alone: 0
    #   6     a2 b3 c1 d0             a b c d                                                        last: 3
    #   7     a2 b3 c1 d1             a c d          (u3 had b)                                      a, tied with c: 1 1/2
    #   8     a2 b3 c1 d2             a d            (u1 had a, b, c)                                tied with d: 1/2
    #   9     a3 b3 c1 d2 e0          c d e          (u2 had a, b)                                   last: 2
    assert trial.rank.tolist() == [0, 0.5, 0, 3, 1.5, 0.5, 2]
    assert trial.candidates.tolist() == [1, 2, 1, 4, 3, 2, 3]
    percentiles = [0, 50, 0, 100, 75, 50, 100]
    assert metrics.percentiles(trial.rank, trial.candidates).tolist() == percentiles
    assert metrics.mpr(trial.rank, trial.candidates) == pytest.approx(375 / 7)
    assert metrics.recall(trial.rank, 1) == pytest.approx(4 / 7)
    assert metrics.recall(trial.rank, 2) == pytest.approx(5 / 7)
    # The last three hit or missed at N = 2: + + + − + + −
    curve = [1, 1, 1, 2 / 3, 2 / 3, 2 / 3, 2 / 3]
    assert metrics.moving_recall(trial.rank, 2, 3).tolist() == pytest.approx(curve)
    assert metrics.mrr(trial.rank) == pytest.approx((1 + 2 / 3 + 1 + 1 / 4 + 2 / 5 + 2 / 3 + 1 / 3) / 7)


def test_ranks_where_users_take_items_again() -> None:
    trial = tried(repeats=True, top=2)
    # event   counts before it        rank among all items
    #   3     a1 b2                   behind b: 1
    #   4     a2 b2                   tied with a: 1/2
    #   5     a2 b3 c0                2
    #   6     a2 b3 c1 d0             3
    #   7     a2 b3 c1 d1             behind a and b, tied with c: 2 1/2
    #   8     a2 b3 c1 d2             behind b, tied with d: 1 1/2
    #   9     a3 b3 c1 d2 e0          4
    assert trial.rank.tolist() == [1, 0.5, 2, 3, 2.5, 1.5, 4]
    assert trial.candidates.tolist() == [2, 2, 3, 4, 4, 4, 5]
    assert metrics.mpr(trial.rank, trial.candidates) == pytest.approx((100 + 50 + 100 + 100 + 250 / 3 + 50 + 100) / 7)
    assert metrics.recall(trial.rank, 2) == pytest.approx(3 / 7)


@pytest.mark.parametrize("repeats", [False, True])
def test_first_time_users_and_items_are_told_apart(repeats: bool) -> None:
    trial = tried(repeats, top=2)
    assert trial.first == 3
    assert (3 + np.flatnonzero(trial.new_user)).tolist() == [4, 6]
    assert (3 + np.flatnonzero(trial.new_item)).tolist() == [5, 6, 9]


def test_coverage_counts_what_was_recommended_while_testing() -> None:
    # Once only: the lists of two are a; a b; c; b a; a c; d; d c. So e alone of the five items was never recommended.
    once = tried(repeats=False, top=2)
    assert (once.recommended, once.registered) == (4, 5)
    # Again and again: b a; a b; b a; b a; b a; b a; a b.
    again = tried(repeats=True, top=2)
    assert (again.recommended, again.registered) == (2, 5)
    # In lists of three c comes third at event 5, and d at event 8.
    assert tried(repeats=True, top=3).recommended == 4


def test_every_call_in_its_order() -> None:
    method = Recording(Counting(repeats=False))
    run_trial(method, hand_worked(repeats=False), top=2)
    assert method.calls[:7] == [
        ("add_user", "u1", {"age": 30}),
        ("add_item", "a", {"genre": ["drama"]}),
        ("add_user", "u2", {}),
        ("add_item", "b", {}),
        ("train", EVENTS[:2]),
        ("learn", EVENTS[2]),
        ("recommend", "u1", 2, {"place": 0}, 100.0, []),  # warms up, and is forgotten
    ]
    assert method.calls[7:15] == [
        ("recommend", "u2", 2, {"place": 3}, 103.0, ["a"]),
        ("rank", "u2", "a", {"place": 3}, 103.0, (0, 1)),
        ("learn", EVENTS[3]),
        ("add_user", "u3", {}),
        ("recommend", "u3", 2, {"place": 4}, 104.0, ["a", "b"]),
        ("rank", "u3", "b", {"place": 4}, 104.0, (0.5, 2)),
        ("learn", EVENTS[4]),
        ("add_item", "c", {}),
    ]
    assert [call[:2] for call in method.calls[18:23]] == [
        ("add_user", "u4"),
        ("add_item", "d"),
        ("recommend", "u4"),
        ("rank", "u4"),
        ("learn", EVENTS[6]),
    ]
    assert method.calls[29] == ("add_item", "e", {"genre": ["crime"]})
    assert [call[0] for call in method.calls[29:]] == ["add_item", "recommend", "rank", "learn"]


def test_users_and_items_of_the_past_come_in_the_order_of_their_first_event() -> None:
    # Twenty events: six of the past, and those that are learned in order come before training as well.
    pairs = ["u2 b", "u1 b", "u1 a", "u2 a", "u3 b", "u1 c"] + ["u1 a"] * 14
    method = Recording(Counting(repeats=True))
    run_trial(method, hand_worked(True, [Event(*pair.split()) for pair in pairs]), top=1)
    calls = [call[:2] for call in method.calls[:7]]
    came = [("u2", "user"), ("b", "item"), ("u1", "user"), ("a", "item"), ("u3", "user"), ("c", "item")]
    assert calls[:6] == [(f"add_{side}", name) for name, side in came]
    assert calls[6][0] == "train"


class Clockwork(Counting):
    """Takes its time, on a clock of its own."""

    now = 0

    def tick(self) -> int:
        return self.now

    def add_user(self, *args) -> None:
        self.now += 100_000
        super().add_user(*args)

    def train(self, events: Sequence[Event]) -> None:
        self.now += 1000
        super().train(events)

    def recommend(self, *args, **options) -> Sequence[str]:
        self.now += 20
        return super().recommend(*args, **options)

    def rank(self, *args, **options):
        self.now += 10_000
        return super().rank(*args, **options)

    def learn(self, event: Event) -> None:
        self.now += 7
        super().learn(event)


def test_recommending_and_learning_are_timed_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    method = Clockwork(repeats=False)
    monkeypatch.setattr(prequential, "perf_counter_ns", method.tick)
    trial = run_trial(method, hand_worked(repeats=False), top=2)
    assert trial.recommend_ns.tolist() == [20] * 7
    assert trial.update_ns.tolist() == [7] * 7
    assert trial.train_ns == 1000 + 2 * 7


def test_whoever_waits_hears_how_many_events_are_done() -> None:
    heard: list[int] = []
    events = [Event("u", f"i{n % 5}") for n in range(1000)]
    run_trial(Counting(repeats=True), hand_worked(True, events), 1, heard.append)
    assert heard == [300, 556, 812, 1000]


def test_the_papers_split() -> None:
    assert split(21_201) == Split(4240, 4240 + 2120)
    assert 21_201 - split(21_201).tested == 14_841
    assert split(10) == Split(2, 3)
    assert split(19) == Split(3, 4)
    assert split(4) == Split(0, 0)


def test_a_single_event_is_tested() -> None:
    trial = run_trial(Counting(repeats=False), hand_worked(False, EVENTS[:1]), top=3)
    assert trial.rank.tolist() == [0]
    assert trial.candidates.tolist() == [1]
    assert trial.new_user.tolist() == trial.new_item.tolist() == [True]


@pytest.mark.parametrize("top", [0, -1, 2.0, True, "10"])
def test_an_odd_top_is_refused(top: object) -> None:
    with pytest.raises(InvalidInput, match=r"top must be a whole number"):
        run_trial(Counting(repeats=False), hand_worked(False), top)


def test_a_stream_without_events_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"'hand-worked' must have events, got \[\]"):
        run_trial(Counting(repeats=False), hand_worked(False, []), 10)


# Kinds of events


KINDS = ["view", None, "purchase", "view", "purchase", "view", "purchase", "purchase", "view", "purchase"]


def test_only_targets_are_tested_and_the_rest_is_learned() -> None:
    events = [Event(e.user, e.item, e.time, e.context, kind) for e, kind in zip(EVENTS, KINDS, strict=True)]
    whole = tried(repeats=False, top=2)
    trial = run_trial(Counting(False), hand_worked(False, events), 2, targets={"purchase"})
    tested = [n - 3 for n in range(3, 10) if KINDS[n] == "purchase"]
    assert trial.place.tolist() == [4, 6, 7, 9]
    assert trial.rank.tolist() == whole.rank[tested].tolist()
    assert trial.candidates.tolist() == whole.candidates[tested].tolist()
    assert trial.new_item.tolist() == whole.new_item[tested].tolist()
    assert whole.place is None


def test_a_target_that_never_comes_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"target must be a kind of the tested events \(None\), got \['purchase'\]"):
        run_trial(Counting(False), hand_worked(False), 2, targets={"purchase"})


def test_progress_is_told_of_all_events_whether_they_are_tested_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prequential, "EVENTS_BETWEEN_ADVANCES", 2)
    events, heard = [Event(e.user, e.item, kind=kind) for e, kind in zip(EVENTS, KINDS, strict=True)], []
    run_trial(Counting(False), hand_worked(False, events), 2, heard.append, targets={"view"})
    assert heard == [3, 5, 7, 9, 10]
