"""The live metrics are those of the protocol: rank, then learn, beside popularity on the same events."""

import numpy as np
import pytest

from coldstream import Bounds, Event, Id, Recommender, Schema
from coldstream.baselines.baseline import Baseline
from coldstream.baselines.popularity import Popularity
from coldstream.baselines.recent_popularity import DecayedPopularity
from coldstream.evaluation import metrics
from coldstream.runtime.live_evaluation import HALF_LIFE, METHODS, LiveEvaluation

ITEMS, EVENTS = 30, 400


def stream(seed: int = 3) -> list[Event]:
    rng = np.random.default_rng(seed)
    popular = rng.permutation(ITEMS)
    return [
        Event(f"u{rng.integers(25)}", f"i{popular[min(int(rng.exponential(6)), ITEMS - 1)]}", 60.0 * t)
        for t in range(EVENTS)
    ]


def fresh(repeats: bool) -> Recommender:
    recommender = Recommender(Schema(exclude_seen=not repeats), factors=3, negatives=4)
    for n in range(ITEMS):
        recommender.put_item(f"i{n}")
    return recommender


def lived(recommender: Recommender, evaluation: LiveEvaluation, events: list[Event]) -> None:
    for event in events:
        ranks = evaluation.test(recommender, event)
        new = not recommender.engine.has_past(event.user)
        recommender.learn(event)
        evaluation.note(new, recommender.engine.place(event.item), ranks)


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("window", [50, 1000])
def test_metrics_are_those_of_methods_that_are_asked_one_by_one(repeats: bool, window: int) -> None:
    events, evaluation, top = stream(), LiveEvaluation(5, window), 5
    lived(fresh(repeats), evaluation, events)
    shadows = [Baseline(Popularity(), repeats), Baseline(DecayedPopularity(HALF_LIFE), repeats)]
    for shadow in shadows:
        for n in range(ITEMS):
            shadow.add_item(f"i{n}", {})
    ranks: dict[str, list[tuple[float, int]]] = {name: [] for name in METHODS}
    recommender = fresh(repeats)
    for event in events:
        asked = {"context": event.context, "time": event.time}
        for name, method in zip(METHODS, (recommender, *shadows), strict=True):
            if method is not recommender:
                method.add_user(event.user, {})
            ranks[name].append(method.rank(event.user, event.item, **asked))
            method.learn(event)
    live = evaluation.metrics()
    for name in METHODS:
        rank, candidates = (np.array(part) for part in zip(*ranks[name], strict=True))
        assert live.methods[name].recall == pytest.approx(metrics.moving_recall(rank, top, window)[-1])
        expected = metrics.moving_mean(metrics.percentiles(rank, candidates), window)[-1]
        assert live.methods[name].mpr == pytest.approx(expected)


def test_newcomers_are_counted() -> None:
    events, evaluation = stream(), LiveEvaluation(5, EVENTS)
    lived(fresh(True), evaluation, events)
    live = evaluation.metrics()
    assert live.new_users == len({event.user for event in events}) / EVENTS
    assert live.new_items == len({event.item for event in events}) / EVENTS
    assert (live.events, live.tested, live.sampled) == (EVENTS, EVENTS, 1.0)


def test_what_is_not_tested_is_no_failure_and_is_told() -> None:
    recommender, evaluation = fresh(True), LiveEvaluation(5, 100)
    for n, event in enumerate(stream()[:40]):
        ranks = evaluation.test(recommender, event) if n % 4 == 0 else None
        recommender.learn(event)
        evaluation.note(False, recommender.engine.place(event.item), ranks)
    live = evaluation.metrics()
    assert (live.events, live.tested, live.sampled) == (40, 10, 0.25)
    assert live.methods["coldstream"].mpr is not None


def test_an_item_that_nobody_could_know_is_not_tested() -> None:
    assert LiveEvaluation().test(fresh(True), Event("u", "unheard of")) is None


def test_before_the_first_event_there_are_no_metrics() -> None:
    live = LiveEvaluation().metrics()
    assert live.sampled is live.new_users is live.methods["popularity"].recall is None


def test_testing_changes_nothing_that_is_learned() -> None:
    events = stream()
    tested, untested = fresh(True), fresh(True)
    lived(tested, LiveEvaluation(5, 50), events)
    for event in events:
        untested.learn(event)
    assert all((a == b).all() for a, b in zip(tested.state()[1].values(), untested.state()[1].values(), strict=True))


def test_the_state_goes_on_where_it_was() -> None:
    events, recommender, evaluation = stream(), fresh(False), LiveEvaluation(5, 64)
    lived(recommender, evaluation, events[:200])
    restored = LiveEvaluation.from_state(*evaluation.state())
    other = Recommender.from_state(*recommender.state())
    assert restored.metrics() == evaluation.metrics()
    lived(recommender, evaluation, events[200:])
    lived(other, restored, events[200:])
    assert restored.metrics() == evaluation.metrics()


def test_another_window_begins_empty_and_the_shadows_stay() -> None:
    recommender, evaluation = fresh(True), LiveEvaluation(5, 64)
    lived(recommender, evaluation, stream())
    assert evaluation.resized(5, 64) is evaluation
    resized = evaluation.resized(3, 32)
    live = resized.metrics()
    assert (live.top, live.window, live.events, live.sampled) == (3, 32, EVENTS, None)
    event = Event("somebody", "i3")
    assert resized.test(recommender, event) == evaluation.test(recommender, event)


def test_a_state_of_another_shape_is_refused() -> None:
    document, arrays = LiveEvaluation(5, 64).state()
    with pytest.raises(ValueError, match="ranks"):
        LiveEvaluation.from_state(document, arrays | {"ranks": np.zeros((3, 3))})


def test_an_item_that_was_removed_is_no_candidate_of_the_shadows() -> None:
    recommender, evaluation = Recommender(Schema(item=[Id()], exclude_seen=False), factors=2, negatives=2), LiveEvaluation()
    for item in "abc":
        recommender.put_item(item)
    lived(recommender, evaluation, [Event("u", "a"), Event("u", "a"), Event("u", "b")])
    recommender.remove_item("a")
    ranks = evaluation.test(recommender, Event("v", "c"))
    assert ranks is not None
    assert [(rank.position, rank.candidates) for rank in ranks[1:]] == [(1.0, 2), (1.0, 2)]


def test_what_was_counted_of_an_item_that_is_gone_is_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place may be another item's; one by one and in one go, the shadows count the same."""
    monkeypatch.setattr("coldstream.catalogue.slot_table.kept", lambda _: 1)
    bounded = Recommender(Schema(exclude_seen=False), factors=2, negatives=2, bounds=Bounds(items=6))
    at_once = Recommender(Schema(exclude_seen=False), factors=2, negatives=2, bounds=Bounds(items=6))
    events = [Event(f"u{t % 5}", f"i{t // 3 + t % 2}") for t in range(120)]
    one_by_one, together = LiveEvaluation(5, 1000), LiveEvaluation(5, 1000)
    for event in events:
        bounded.learn(event)
        one_by_one.note(False, bounded.engine.place(event.item), None)
    together.note_unranked([False] * len(events), at_once.engine.replay(list(enumerate(events, 1))))
    for own, other in zip(one_by_one.state()[1].items(), together.state()[1].items(), strict=True):
        assert own[0] == other[0]
        assert np.array_equal(own[1], other[1])
    places = {item: bounded.engine.place(item) for item in bounded.items()}
    assert max(place.number for place in places.values()) < 12, "places are used again"
    for item, place in places.items():
        assert one_by_one.choices(place) == sum(event.item == item for event in events)
    bounded.put_item("newcomer")
    assert one_by_one.choices(bounded.engine.place("newcomer")) == 0
    ranks = one_by_one.test(bounded, Event("u0", "newcomer"))
    assert ranks is not None
    assert ranks[1].position == ranks[2].position == len(bounded.items()) - 1, "nobody has chosen it yet"


def test_what_is_no_choice_is_nobodys_first_and_makes_nothing_popular() -> None:
    recommender, evaluation = fresh(True), LiveEvaluation(top=2, window=4)
    recommender.put_item("seen")
    for counted in (False, False, True, True):
        evaluation.note(False, recommender.engine.place("seen"), None, counted)
    assert evaluation.metrics().new_items == 0.25
    assert evaluation.choices(recommender.engine.place("seen")) == 2
    together = LiveEvaluation(top=2, window=4)
    together.note_unranked([False] * 4, [recommender.engine.place("seen")] * 4, [False, False, True, True])
    assert {n: a.tobytes() for n, a in together.state()[1].items()} == {
        n: a.tobytes() for n, a in evaluation.state()[1].items()
    }
