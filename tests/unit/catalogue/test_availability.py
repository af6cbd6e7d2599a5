"""Items that may be recommended for a time only, or not for now: they are no candidates, and lose nothing."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from coldstream import Availability, Bounds, Category, Event, Id, InvalidInput, Recommender, Schema
from coldstream.catalogue.windows import WindowTable
from coldstream.scoring.requests import RequestBatch
from conftest import bits

SCHEMA = Schema(item=[Id(), Category("genre")], exclude_seen=False)


def shop(**options: Any) -> Recommender:
    recommender = Recommender(SCHEMA, seed=3, factors=3, negatives=4, **options)
    recommender.put_items((f"i{n}", {"genre": "ab"[n % 2]}) for n in range(8))
    recommender.learn([Event(f"u{n % 3}", f"i{n * 3 % 8}", 1000.0 + n) for n in range(30)])
    return recommender


def listed(recommender: Recommender, **request: Any) -> set[str]:
    return {one.item for one in recommender.recommend("u1", 99, **request)}


NAIVE = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
ALL = {f"i{n}" for n in range(8)}


def test_a_window_has_its_first_moment_and_not_its_last() -> None:
    recommender = shop()
    recommender.put_item("i1", {"genre": "b"}, available_from=2000, available_until=np.float64(3000.0))
    assert [len(listed(recommender, time=time)) for time in (1999.9, 2000, 2999.9, 3000.0)] == [7, 8, 8, 7]
    assert recommender.availability("i1") == Availability(2000.0, 3000.0)
    assert recommender.item("i1") == {"genre": "b"}


def test_datetimes_are_times_too() -> None:
    recommender = shop()
    recommender.put_item("i1", available_from=datetime(2026, 12, 1, tzinfo=UTC))
    assert recommender.availability("i1") == Availability(1_796_083_200.0)
    assert not recommender.is_available("i1", datetime(2026, 11, 30, tzinfo=UTC))
    assert recommender.is_available("i1", datetime(2026, 12, 1, tzinfo=UTC))


def test_a_put_replaces_all_of_it() -> None:
    recommender = shop()
    recommender.put_item("i1", {"genre": "b"}, hidden=True)
    assert listed(recommender, time=1.0) == ALL - {"i1"}
    recommender.put_item("i1", {"genre": "b"}, available_until=2000.0)
    assert recommender.availability("i1") == Availability(available_until=2000.0)
    recommender.put_item("i1", {"genre": "b"})
    assert recommender.availability("i1") == Availability()
    assert listed(recommender, time=9000.0) == ALL


def test_without_a_time_that_of_the_stream_counts_and_before_it_nothing_has_begun() -> None:
    recommender = Recommender(SCHEMA, factors=2)
    recommender.put_items([("always", {}), ("later", {}, Availability(1500.0)), ("until", {}, Availability(None, 1500.0))])
    assert listed(recommender) == {"always", "until"}
    recommender.learn(Event("u", "always", 1400.0))
    assert listed(recommender) == {"always", "until"}
    recommender.learn(Event("u", "always", 1500.0))
    assert listed(recommender) == {"always", "later"}
    recommender.learn(Event("u", "always", 1450.0))  # late: the stream does not go back
    assert listed(recommender) == {"always", "later"}


def test_filters_and_windows_both_hold() -> None:
    recommender = shop()
    recommender.put_item("i2", {"genre": "a"}, hidden=True)
    assert listed(recommender, allow=["i1", "i2"]) == {"i1"}
    assert listed(recommender, deny=["i1"]) == ALL - {"i1", "i2"}
    assert listed(recommender, where={"genre": "a"}) == {"i0", "i4", "i6"}


def test_an_item_that_is_away_has_a_score_and_a_rank_among_those_that_are_not() -> None:
    recommender = shop()
    score, rank = recommender.predict("u1", "i2"), recommender.rank("u1", "i2")
    recommender.put_item("i2", {"genre": "a"}, hidden=True)
    recommender.put_item("i3", {"genre": "b"}, hidden=True)
    assert recommender.predict("u1", "i2") == recommender.explain("u1", "i2").score == score
    assert recommender.rank("u1", "i2").candidates == rank.candidates - 1
    assert recommender.rank("u1", "i1").candidates == rank.candidates - 2
    scores = np.array([recommender.predict("u1", f"i{n}") for n in range(8)])
    for item in ("i1", "i2"):
        assert recommender.serving.rank_by("u1", item, scores) == [recommender.rank("u1", item)]
    assert not recommender.is_available("i2")


def test_what_was_learned_stays_and_events_are_learned_while_an_item_is_away() -> None:
    """Nothing pushes it down while it cannot be chosen: it is no negative either."""
    recommender = shop()
    recommender.put_item("i2", {"genre": "a"}, hidden=True)
    theta, column = recommender.engine.shared.machine.parameters.theta, recommender.engine.shared.encoder.vocabulary.find
    own = column(recommender.engine.shared.encoder.id_field("item"), "i2")
    before = theta.V[own].copy(), theta.w[own].copy()
    recommender.learn([Event("u0", f"i{n % 2}", 2000.0 + n) for n in range(50)])
    theta = recommender.engine.shared.machine.parameters.theta
    assert (theta.V[own] == before[0]).all()
    assert theta.w[own] == before[1]
    recommender.learn(Event("u0", "i2", 3000.0))
    assert theta.w[own] != before[1]
    recommender.put_item("i2", {"genre": "a"})
    assert "i2" in listed(recommender)


def test_training_leaves_out_what_was_not_available_then() -> None:
    recommender = Recommender(SCHEMA, seed=3, factors=3, negatives=4)
    recommender.put_items((f"i{n}", {}, Availability(available_from=5000.0 if n > 5 else None)) for n in range(8))
    field = recommender.engine.shared.encoder.id_field("item")
    own = [recommender.engine.shared.encoder.vocabulary.find(field, f"i{n}") for n in range(8)]
    before = recommender.engine.shared.machine.parameters.theta.w[own].copy()
    recommender.train([Event(f"u{n % 3}", f"i{n % 3}", 1000.0 + n) for n in range(30)], epochs=3)
    moved = recommender.engine.shared.machine.parameters.theta.w[own] != before
    assert moved.tolist() == [True] * 6 + [False] * 2


def test_a_removed_item_takes_its_window_along() -> None:
    recommender = shop()
    recommender.put_item("i2", {"genre": "a"}, hidden=True)
    recommender.remove_item("i2")
    recommender.learn(Event("u1", "i2", 5000.0))
    assert recommender.availability("i2") == Availability()
    assert listed(recommender) == ALL


def test_saved_and_loaded_it_goes_on_with_the_same_bits() -> None:
    recommender = shop(bounds=Bounds(memory="64 MiB"))
    recommender.put_items((f"i{n}", {}, Availability(1000.0 * n, 1000.0 * n + 2500.0, n == 5)) for n in range(1, 6))
    loaded = Recommender.from_state(*recommender.state())
    assert bits(loaded) == bits(recommender)
    assert loaded.memory == recommender.memory
    more = [Event(f"u{n % 4}", f"i{n * 5 % 9}", 1000.0 + 150 * n) for n in range(40)]
    recommender.learn(more)
    loaded.engine.replay(list(enumerate(more, loaded.position + 1)))
    assert bits(loaded) == bits(recommender)
    for item in range(1, 6):
        recommender.put_item(f"i{item}")
    again = Recommender.from_state(*recommender.state())  # no item is limited any more, and none ever was in the other
    for one in (recommender, again):
        one.learn([Event("u", f"i{n % 2}", 9000.0 + n) for n in range(20)])
    assert bits(again) == bits(recommender)


def test_an_older_snapshot_has_no_windows() -> None:
    document, arrays = shop().state()
    older = Recommender.from_state(document, {name: own for name, own in arrays.items() if "window" not in name})
    assert listed(older) == ALL


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        ("slot", np.array([99], np.int32)),
        ("slot", np.array([1, 1], np.int32)),
        ("end", np.array([0.0])),
        ("begin", np.array([1.0], np.float32)),
        ("hidden", np.array([1], np.int64)),
    ],
)
def test_windows_that_do_not_fit_are_refused(name: str, damaged: np.ndarray) -> None:
    table = WindowTable()
    table.put(1, Availability(1.0, 2.0))
    arrays = table.state()
    WindowTable().restore([0, 1], arrays)
    with pytest.raises(ValueError, match="window"):
        WindowTable().restore([0, 1], arrays | {name: damaged})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"available_from": 2000.0, "available_until": 2000.0}, "item 'i1': available_until must be after available_from"),
        ({"available_from": math.inf}, "item 'i1': available_from must be seconds since 1970 .*, got inf; leave it out"),
        ({"available_until": "soon"}, "item 'i1': available_until must be seconds since 1970 .*, got 'soon'"),
        ({"available_until": True}, "item 'i1': available_until must be"),
        ({"available_from": 1.7e12}, "item 'i1': available_from must be .*1700000000000.0; if it counts milliseconds"),
        (
            {"available_from": NAIVE},
            "item 'i1': available_from must carry its time zone",
        ),
        ({"hidden": 1}, "item 'i1': hidden must be true or false, got 1"),
        ({"hidden": None}, "item 'i1': hidden must be true or false, got None"),
    ],
)
def test_what_makes_no_sense_is_refused(unchanged: Callable[..., Any], given: dict[str, Any], message: str) -> None:
    recommender = shop()
    refused = unchanged(recommender, InvalidInput, lambda: recommender.put_item("i1", {"genre": "a"}, **given))
    with pytest.raises(InvalidInput, match=message):
        recommender.engine.check_item("i1", **given)
    with pytest.raises(InvalidInput, match=message.removeprefix("item 'i1': ")):
        Availability(**given)
    assert refused.startswith("item 'i1': ")


@pytest.mark.parametrize("wrong", [("i1", {}, "hidden"), ("i1",), ("i1", {}, Availability(), 1), 3])
def test_items_that_are_no_pairs_are_refused(unchanged: Callable[..., Any], wrong: Any) -> None:
    recommender = shop()
    unchanged(recommender, InvalidInput, lambda: recommender.put_items([("i2", {}, Availability(hidden=True)), wrong]))


def test_a_mask_is_worked_out_once_between_two_moments_and_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    recommender, made = shop(), []
    assert len(recommender.serving.encode_request("u1", time=1.0).excluded) == 0  # nothing is limited, and nothing is asked
    recommender.put_items([("i1", {}, Availability(2000.0, 3000.0)), ("i2", {}, Availability(hidden=True))])
    whole = WindowTable._mask
    monkeypatch.setattr(WindowTable, "_mask", lambda *given: made.append(given) or whole(*given))
    requests = [recommender.serving.encode_request(f"u{n}", time=2000.0 + n) for n in range(900)]
    assert len(made) == 1
    assert len({id(one.excluded) for one in requests}) == 1
    assert RequestBatch.of(requests[:50], 8).excluded.shape == (1, 8)
    for time in (1000.0, 3500.0, 2500.0, 1001.0, 3501.0):
        recommender.serving.encode_request("u1", time=time)
    assert len(made) == 3
    recommender.learn(Event("u1", "a new item", 2001.0))  # it is always available, and needs room only
    assert len(recommender.serving.encode_request("u1", time=2001.0).excluded) == 9
    assert "a new item" in listed(recommender, time=2001.0)
    assert len(made) == 3
    recommender.put_item("i2", {})
    recommender.serving.encode_request("u1", time=2001.0)
    assert len(made) == 4


def test_requests_of_different_times_are_answered_together_as_alone() -> None:
    recommender = shop()
    recommender.put_items((f"i{n}", {}, Availability(1000.0 * n, 1000.0 * n + 1500.0)) for n in range(1, 6))
    asked = [{"time": 500.0 * n, "deny": ["i0"] if n % 3 == 0 else None} for n in range(15)]
    together = recommender.serving.recommend_batch([recommender.serving.encode_request("u1", 9, **one) for one in asked])
    assert together == [recommender.recommend("u1", 9, **one) for one in asked]
