"""What goes where a bound is reached: so many, and the least useful; each way by itself, and what is said of it."""

import pytest

from coldstream import Bounds, Category, Event, Id, Recommender, Schema
from coldstream.engine.eviction import PORTION

SMALL = {"factors": 2, "negatives": 2}


def bounded(schema: Schema | None = None, **bounds: object) -> Recommender:
    return Recommender(schema or Schema(user=[Id()], item=[Id()]), bounds=Bounds(**bounds), seed=1, **SMALL)


@pytest.mark.parametrize("most", [3, PORTION - 1, PORTION])
def test_a_portion_more_than_has_to_of_items_and_of_users_goes(most: int) -> None:
    shop = bounded(items=most, users=most)
    for n in range(most):
        shop.put_item(f"i{n}")
        shop.put_user(f"u{n}", {})
    assert (len(shop.items()), len(shop.users()), shop.memory.gone) == (most, most, {})
    for n in (0, 1):  # whoever is used now stays
        shop.learn(Event(f"u{n}", f"i{n}"))
    shop.put_item("new item")
    shop.put_user("new user", {})
    more = 1 + most // PORTION
    assert len(shop.items()) == len(shop.users()) == most + 1 - more
    assert shop.memory.gone == {"items evicted": more, "users evicted": more}
    assert {"i0", "i1", "new item"} <= set(shop.items())
    assert {"u0", "u1", "new user"} <= set(shop.users())
    first = [f"i{n}" for n in range(2, 2 + more)]
    assert not set(first) & set(shop.items()), "of equals, the first"
    features = set(shop.inspection.features("", 10_000).names)
    assert {f"item.id={item}" for item in shop.items() if item in ("i0", "i1")} <= features
    assert not {f"user.id=u{n}" for n in range(2, 2 + more)} & features


@pytest.mark.parametrize("most", [2, PORTION])
def test_a_portion_more_than_has_to_of_values_goes(most: int) -> None:
    shop = bounded(Schema(user=[Id()], item=[Id()], context=[Category("tag", most=most)]))
    for n in (*range(most), 0):
        shop.learn(Event("u", "i", context={"tag": f"t{n}"}))
    assert (shop.inspection.count("context.tag"), shop.memory.gone) == (most, {})
    shop.learn(Event("u", "i", context={"tag": "new"}))
    more = 1 + most // PORTION
    assert shop.inspection.count("context.tag") == most + 1 - more
    assert shop.memory.gone == {"values evicted": more}
    left = shop.inspection.values("context.tag", 1000)
    assert {"t0", "new"} <= set(left)
    assert not {f"t{n}" for n in range(1, 1 + more)} & set(left)


def test_what_nobody_used_for_so_many_events_goes_when_it_is_looked_at() -> None:
    shop = bounded(Schema(user=[Id()], item=[Id()], context=[Category("tag", expire=64)]), expire_users=128)
    shop.learn(Event("once", "i", context={"tag": "once"}))
    for n in range(64):
        shop.learn(Event("again", "i", context={"tag": "again"}))
        assert shop.inspection.values("context.tag", 9) == ["once", "again"], n
    shop.learn(Event("again", "i", context={"tag": "again"}))
    assert shop.inspection.values("context.tag", 9) == ["again"]
    assert shop.has_user("once")
    for _ in range(63):
        shop.learn(Event("again", "i"))
    assert shop.has_user("once")
    for _ in range(2):  # users are looked at after every second event
        shop.learn(Event("again", "i"))
    assert shop.users() == ["again"]
    assert shop.memory.gone["users expired"] == 1
    assert shop.memory.gone["values expired"] >= 1


def test_under_a_budget_the_id_of_a_user_goes_with_the_user_and_never_alone() -> None:
    shop = bounded(Schema(user=[Id()], item=[Id()], context=[Category("tag")]), memory="2 MiB")
    for n in range(6000):
        shop.learn(Event(f"u{n}", "i", context={"tag": f"t{n}"}))
    assert shop.memory.used <= shop.memory.bound
    gone = shop.memory.gone
    assert gone["users evicted"] > 500
    assert gone["values evicted"] > 500
    assert set(shop.inspection.values("user.id", 10_000)) == set(shop.users())


def test_times_before_1970_are_times_like_others() -> None:
    shop = bounded()
    shop.put_item("ended", available_until=-5.0)
    shop.put_item("began", available_from=-5.0)
    shop.put_item("always")
    assert {best.item for best in shop.recommend(None, 9)} == {"ended", "always"}, "no time is known: it is before all"
    for time, there in ((-10.0, {"ended", "always"}), (-5.0, {"began", "always"}), (5.0, {"began", "always"})):
        assert {best.item for best in shop.recommend(None, 9, time=time)} == there
