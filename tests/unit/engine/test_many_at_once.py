"""Many at once: the same bits as one by one, and all of them or none."""

import gc
import math

import numpy as np
import pytest

from coldstream import Categories, Category, Diverged, Event, Id, InvalidInput, Number, Recommender, Schema
from coldstream.catalogue.scan_order import ScanOrder
from coldstream.support.arrays import Integers
from conftest import bits

SCHEMA = Schema(
    user=[Id(), Category("country")],
    item=[Id(), Categories("genre"), Number("price", scale=10)],
    context=[Category("device")],
)


def small(**changes: object) -> Recommender:
    recommender = Recommender(SCHEMA, seed=4, factors=5, negatives=7, **changes)
    recommender.put_items((f"i{n}", {"genre": [f"g{n % 4}"], "price": n}) for n in range(30))
    recommender.put_users((f"u{n}", {"country": "NL"}) for n in range(4))
    return recommender


def events(count: int, start: int = 0) -> list[Event]:
    rng = np.random.default_rng(start)
    users, items = rng.integers(12, size=count).tolist(), rng.integers(45, size=count).tolist()
    return [
        Event(f"u{user}", f"i{item}", 3600.0 * t, {"device": "phone"} | ({f"new{t % 3}": "x"} if t % 40 == 39 else {}))
        for t, (user, item) in enumerate(zip(users, items, strict=True))
    ]


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 700])
def test_many_events_lead_to_the_bits_of_one_by_one(count: int) -> None:
    one_by_one, many, replayed = small(), small(), small()
    stream = events(count)
    for event in stream:
        one_by_one.learn(event)
    many.learn(stream)
    replayed.engine.replay(list(enumerate(stream, 1)))
    assert bits(one_by_one) == bits(many) == bits(replayed)
    assert one_by_one.recommend("u1") == many.recommend("u1") == replayed.recommend("u1")


def test_any_iterable_will_do_and_none_is_nothing() -> None:
    recommender, stream = small(), events(5)
    before = bits(recommender)
    recommender.learn([])
    recommender.put_items({})
    recommender.put_users(())
    recommender.engine.replay([])
    assert bits(recommender) == before
    recommender.learn(event for event in stream)
    other = small()
    other.learn(tuple(stream))
    assert bits(recommender) == bits(other)


def test_a_bad_one_among_many_changes_nothing(unchanged) -> None:
    recommender = small()
    stream = [*events(20), Event("u1", "i1", context={"device": 3.5}), *events(3)]
    assert "device" in unchanged(recommender, InvalidInput, lambda: recommender.learn(stream))
    bad = [("new", {"price": 1}), ("i1", {"price": "dear"}), ("other", {})]
    assert "item 'i1': price" in unchanged(recommender, InvalidInput, lambda: recommender.put_items(bad))
    assert "user 'b': unknown field 'town'" in unchanged(
        recommender, InvalidInput, lambda: recommender.put_users([("a", {}), ("b", {"town": "x"})])
    )
    assert not recommender.has_item("new")
    assert not recommender.has_user("a")
    for odd in ("items", 3, ["i1"], [("i1", {}, 2)]):
        assert "pairs of id and attributes" in unchanged(
            recommender, InvalidInput, lambda odd=odd: recommender.put_items(odd)
        )
    assert "position" in unchanged(recommender, InvalidInput, lambda: recommender.learn(events(2), position=9))


@pytest.mark.parametrize("fails_at", [1, 255, 256, 400])
def test_an_update_that_diverges_late_takes_all_of_them_back(unchanged, fails_at: int) -> None:
    """Everything that the events before it had done is undone: rows, λ, trends, neighbours, items, users and fields."""
    recommender = small()
    recommender.learn(events(100, start=5))
    recommender.recommend("u1")
    stream = events(500, start=1)
    poison = Event("poisoned", stream[fails_at].item, 1.0)
    recommender.put_user("poisoned")
    vocabulary, theta = recommender.engine.shared.encoder.vocabulary, recommender.engine.shared.machine.parameters.theta
    column = vocabulary.find(vocabulary.field("user.id"), "poisoned")
    theta.w[column] = math.inf
    many = [*stream[:fails_at], poison, *stream[fails_at:]]
    assert "user 'poisoned'" in unchanged(recommender, Diverged, lambda: recommender.learn(many))
    theta.w[column] = 0.0
    twin = Recommender.from_state(*recommender.state())
    for event in stream:
        twin.learn(event)
    recommender.learn(stream)
    assert bits(twin) == bits(recommender)


def test_a_replayed_event_that_diverges_is_observed_as_when_it_came() -> None:
    one_by_one, replayed = small(), small()
    stream = events(300, start=2)
    stream[120:120] = [Event("poisoned", "brand new", 1.0, {"device": "pad"}), Event("poisoned", "i3", 2.0)]
    for recommender in (one_by_one, replayed):
        recommender.put_user("poisoned")
        vocabulary, theta = recommender.engine.shared.encoder.vocabulary, recommender.engine.shared.machine.parameters.theta
        theta.w[vocabulary.find(vocabulary.field("user.id"), "poisoned")] = math.inf
    diverged = 0
    for position, event in enumerate(stream, 1):
        try:
            one_by_one.learn(event, position=position)
        except Diverged:
            diverged += 1
            one_by_one.observe(event, position=position)
    replayed.engine.replay(list(enumerate(stream, 1)))
    assert diverged == 2
    assert bits(one_by_one) == bits(replayed)


def test_positions_key_what_is_drawn_and_must_rise() -> None:
    first, same, other = small(), small(), small()
    for recommender, start in ((first, 10), (same, 10), (other, 11)):
        for n, event in enumerate(events(30)):
            recommender.learn(event, position=start + 2 * n)
    assert bits(first) == bits(same)
    assert bits(first)[1]["model.V"] != bits(other)[1]["model.V"]
    with pytest.raises(InvalidInput, match="position must be beyond the last one, 68, got 68"):
        first.learn(Event("u1", "i1"), position=68)
    assert first.position == 68


def test_items_put_at_once_are_those_put_one_by_one() -> None:
    rows = [(f"i{n * 37 % 200}", {"genre": [f"g{n % 9}", f"g{n % 4}"], "price": 3.0 * n}) for n in range(400)]
    one_by_one, many = small(), small()
    for recommender in (one_by_one, many):
        for n in range(0, 30, 2):
            recommender.remove_item(f"i{n}")
    for item, attributes in rows:
        one_by_one.put_item(item, attributes)
    many.put_items(rows)
    assert bits(one_by_one) == bits(many)


@pytest.mark.parametrize(("removed", "due"), [(0, False), (5, False), (92, False), (93, True), (94, False), (290, False)])
def test_many_items_lead_to_the_bits_of_one_by_one_where_a_sort_of_the_scan_is_due(
    removed: int, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removing items disorders the scan; a sort is due in the middle of what comes next, or not at all."""
    settled, answers = ScanOrder.stays_settled, list[bool]()

    def stays_settled(order: ScanOrder, columns: Integers) -> bool:
        answers.append(settled(order, columns))
        return answers[-1]

    one_by_one, many = small(), small()
    coming = [(f"n{n}", {"genre": [f"g{n % 6}", "g1"], "price": n / 7} if n % 3 else {}) for n in range(150)]
    coming += [("n3", {"price": 4}), ("i2", {"genre": ["g9"]})]
    for recommender in (one_by_one, many):
        recommender.put_items((f"old{n}", {"price": n}) for n in range(300))
        for n in range(removed):
            recommender.remove_item(f"old{n}")
    monkeypatch.setattr(ScanOrder, "stays_settled", stays_settled)
    many.put_items(coming[:150])
    assert answers == [not due]
    many.put_items(coming[150:])
    for item, attributes in coming:
        one_by_one.put_item(item, attributes)
    assert bits(one_by_one) == bits(many)
    assert [one_by_one.item(item) for item in one_by_one.items()] == [many.item(item) for item in many.items()]


def test_the_search_for_garbage_goes_on_after_many_were_put() -> None:
    assert gc.isenabled()
    with pytest.raises(InvalidInput):
        small().put_items([("a", {"price": "dear"})])
    assert gc.isenabled()
    gc.disable()
    try:
        small()
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("positions", [[4, 6], [5, 6], [7, 7], [9, 8], [True, 8], [6.0, 7], [None, 7], [6, "7"]])
def test_a_log_is_replayed_in_its_order_and_every_line_once(positions: list, unchanged) -> None:
    recommender = Recommender(Schema(), seed=1, factors=2)
    recommender.learn(Event("u", "a"), position=5)
    lines = [(position, Event("u", item)) for position, item in zip(positions, "bc", strict=True)]
    said = unchanged(recommender, InvalidInput, lambda: recommender.engine.replay(lines))
    assert said.startswith("position must be a whole number beyond ")
    recommender.engine.replay([(6, Event("u", "b")), (9, Event("u", "c"))])
    assert recommender.position == 9
