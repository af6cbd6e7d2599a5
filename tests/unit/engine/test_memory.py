"""The budget: what is known stays within it, by our own costs and in fact; and what goes follows from the log alone."""

import gc
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from coldstream import Bounds, Categories, Category, Event, Id, InvalidInput, Recommender, Schema
from coldstream.bounds import costs
from coldstream.engine.eviction import BUDGET_PORTION, PORTION
from conftest import bits

SCHEMA = Schema(
    user=[Id(), Category("country")], item=[Id(), Categories("genre")], context=[Category("device"), Categories("tags")]
)


def small(**bounds: object) -> Recommender:
    recommender = Recommender(SCHEMA, seed=4, factors=5, negatives=7, bounds=Bounds(**bounds))
    recommender.put_items((f"i{n}", {"genre": [f"g{n % 4}"]}) for n in range(30))
    return recommender


def flood(count: int) -> list[Event]:
    """New users and new values with every event."""
    return [Event(f"user {n}", f"i{n % 30}", 1e9 + n, {"device": f"d{n}", "tags": [f"t{n}", f"s{n}"]}) for n in range(count)]


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        ({"memory": "2"}, "memory must be a text such as"),
        ({"memory": 2}, "memory must be a text such as"),
        ({"memory": "3 KiB"}, "memory must be a text such as"),
        ({"users": 0}, "users must be a whole number from 1 on"),
        ({"seen": True}, "seen must be a whole number from 1 on"),
        ({"admissions": 1.5}, "admissions must be a whole number from 1 on"),
        ({"undeclared": -1}, "undeclared must be a whole number from 0 on"),
        ({"expire_users": "30"}, "expire_users must be a whole number of events, or a time"),
        ({"expire_users": 0}, "expire_users must be"),
        ({"expire_users": "0d"}, "expire_users must be"),
        ({"half_life": 0}, "half_life must be from 1"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(bound: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Bounds(**bound)


def test_bounds_survive_as_documents() -> None:
    bounds = Bounds(memory="1.5 GiB", users=7, expire_users="365d", seen=None, half_life=5)
    assert Bounds.from_document(bounds.document()) == bounds
    assert bounds.memory_bytes == 3 * 2**29
    assert Bounds.from_document({}) == Bounds.none()


def test_every_part_is_the_sum_of_what_its_things_cost() -> None:
    recommender = small(memory="64 MiB", seen=5)
    recommender.learn([Event(f"u{n % 10}", f"i{n % 7}") for n in range(100)])
    recommender.put_item("gone")
    recommender.remove_item("gone")
    memory, pairs = recommender.memory, recommender.engine.shared.catalogue.pairs()
    assert pairs > 7
    assert memory.parts["neighbours"] == pairs * costs.NEIGHBOUR
    assert memory.parts["history"] == 10 * 5 * costs.SEEN
    assert memory.parts["users"] == 10 * (costs.USER + costs.UNPACKED_USER + len("u0"))
    names = sum(len(f"i{n}") for n in range(30)) + len("gone")
    genres = 30 * (costs.ATTRIBUTE + len("g0"))
    assert memory.parts["items"] == 30 * costs.ITEM + costs.GONE + names + genres
    assert memory.used == sum(memory.parts.values())


def test_an_item_that_an_event_brings_is_as_useful_as_one_that_was_put_before() -> None:
    """To come is a use, and to be chosen is another."""
    put, brought = small(items=40), small(items=40)
    for recommender in (put, brought):
        recommender.learn(flood(50))
    put.put_item("new")
    for recommender in (put, brought):
        recommender.learn(Event("u", "new"))
    usage = [recommender.state()[1]["item_usage.worth"] for recommender in (put, brought)]
    assert usage[0].tolist() == usage[1].tolist()
    assert usage[0].argmax() == put.engine.place("new").number


def test_what_is_known_stays_within_the_budget_and_the_least_useful_goes() -> None:
    recommender = small(memory="4 MiB")
    for _ in range(50):
        recommender.learn([Event("regular", f"i{n}", context={"device": "phone"}) for n in range(5)])
    for event in flood(2000):
        recommender.learn(event)
        if event.user.endswith("9"):
            recommender.learn(Event("regular", "i3", context={"device": "phone"}))
        memory = recommender.memory
        assert memory.bound is not None
        assert memory.used <= memory.bound + 64 * 1024  # neighbours are counted now and then
    assert recommender.has_user("regular")
    assert recommender.inspection.count("context.device") > 1
    assert "phone" in recommender.inspection.values("context.device", 10**6)
    assert recommender.memory.gone["users evicted"] > 100
    assert recommender.memory.gone["values evicted"] > 100
    assert len(recommender.items()) == 30


def test_a_budget_leads_to_the_same_bits_whichever_way_it_is_learned() -> None:
    stream = flood(1500)
    one_by_one, many, replayed = small(memory="3 MiB"), small(memory="3 MiB"), small(memory="3 MiB")
    for event in stream:
        one_by_one.learn(event)
    many.learn(stream)
    for first in range(0, len(stream), 400):
        replayed.engine.replay(list(enumerate(stream[first : first + 400], first + 1)))
        replayed = Recommender.from_state(*replayed.state())
    assert one_by_one.memory.gone["users evicted"] > 0
    assert bits(one_by_one) == bits(many) == bits(replayed)


def test_items_take_half_of_a_budget_and_those_that_nobody_chooses_go() -> None:
    recommender = small(memory="4 MiB")
    for n in range(4000):
        recommender.put_item(f"new {n}", {"genre": [f"g{n % 4}"]})
        recommender.learn(Event(f"u{n % 50}", f"i{n % 30}"))
        memory = recommender.memory
        assert memory.parts["items"] + memory.parts["neighbours"] <= 2 * 2**20 + 64 * 1024
        assert memory.used <= 4 * 2**20 + 64 * 1024
    assert {f"i{n}" for n in range(30)} <= set(recommender.items()), "they are chosen all the time"
    assert recommender.has_item("new 3999")
    assert recommender.memory.gone["items evicted"] > 1000
    assert len(recommender.users()) == 50
    assert bits(Recommender.from_state(*recommender.state())) == bits(recommender)


def test_a_smaller_budget_takes_effect_at_once() -> None:
    recommender = small()
    recommender.learn(flood(1500))
    assert recommender.memory.bound is None
    recommender.change_bounds(Bounds(memory="2 MiB"))
    assert recommender.memory.used <= 2 * 2**20
    assert Recommender.from_state(*recommender.state()).memory == recommender.memory


def test_counts_of_memory_are_found_again_from_what_is_saved() -> None:
    recommender = small(users=40, seen=3)
    recommender.put_users((f"user {n}", {"country": "NLé" if n % 2 else "FR"}) for n in range(50))
    recommender.learn(flood(300))
    recommender.learn([Event("user 299", f"i{n}") for n in range(9)])
    recommender.remove_item("i7")
    recommender.put_item("i8", {"genre": ["other", "new"]})
    recommender.forget_user("user 299")
    assert Recommender.from_state(*recommender.state()).memory == recommender.memory


def test_a_snapshot_from_before_there_were_bounds_is_read_and_goes_on_without_any() -> None:
    recommender = small()
    recommender.learn(flood(20))
    document, arrays = recommender.state()
    for name in ("bounds", "admissions", "gone", "pairs", "time"):
        del document[name]
    kept = {
        name: array
        for name, array in arrays.items()
        if name.partition(".")[0] in ("model", "vocabulary", "catalogue", "users")
    }
    older = Recommender.from_state(document, kept)
    assert older.bounds == Bounds.none()
    older.change_bounds(recommender.bounds)
    recommender.learn(flood(40)[20:])
    older.learn(flood(40)[20:])
    assert [one.item for one in older.recommend("user 3")] == [one.item for one in recommender.recommend("user 3")]


def test_one_record_brings_no_more_than_it_may() -> None:
    recommender = small(admissions=10)
    recommender.learn(Event("u", "i1", context={"tags": [f"t{n}" for n in range(1000)]}))
    assert recommender.inspection.count("context.tags") == 9  # and the user
    assert recommender.memory.refused == {"many": 991}
    recommender.put_user("v", {"country": "NL"})
    assert recommender.memory.refused == {"many": 991}


def test_only_so_many_fields_come_that_nobody_declared() -> None:
    recommender = small(undeclared=3, undeclared_values=2)
    for n in range(20):
        recommender.learn(Event("u", "i1", context={f"field {n % 5}": f"v{n}"}))
    fields = [field.name for field in recommender.schema.context if field.name.startswith("field")]
    assert fields == ["field 0", "field 1", "field 2"]
    assert recommender.memory.refused == {"fields": 8}
    assert all(recommender.inspection.count(f"context.{field}") == 2 for field in fields)


def test_the_latest_items_that_a_user_had_are_remembered() -> None:
    recommender = small(seen=3)
    for item in (0, 1, 2, 3, 1, 4):
        recommender.learn(Event("u", f"i{item}"))
    left_out = set(recommender.items()) - {one.item for one in recommender.recommend("u", 99)}
    assert left_out == {"i3", "i1", "i4"}


def test_a_removed_item_takes_its_columns_in_histories_along() -> None:
    recommender = small()
    for user in ("u", "v"):
        for item in (1, 2, 3):
            recommender.learn(Event(user, f"i{item}"))
    recommender.learn(Event("v", "i4"))
    assert "i2" in recommender.inspection.values("context.last_items", 99)
    recommender.remove_item("i2")
    recommender.learn(Event("u", "i5"))
    recommender.learn([Event("v", "i6"), Event("u", "i7")])
    for field in ("context.last_item", "context.last_items", "item.id"):
        assert "i2" not in recommender.inspection.values(field, 99)


def test_a_field_of_items_takes_nothing_new_while_it_is_full() -> None:
    declared = Schema(item=[Id(), Categories("genre", most=2)])
    recommender = Recommender(declared, factors=2, bounds=Bounds())
    recommender.put_items([("a", {"genre": ["x"]}), ("b", {"genre": ["y", "z"]}), ("c", {"genre": ["z"]})])
    assert sorted(recommender.inspection.values("item.genre", 9)) == ["x", "y"]
    assert recommender.memory.refused == {"full": 2}
    recommender.remove_item("a")
    recommender.put_item("c", {"genre": ["z"]})  # makes room for the next
    recommender.put_item("c", {"genre": ["z"]})
    assert sorted(recommender.inspection.values("item.genre", 9)) == ["y", "z"]
    assert recommender.memory.gone == {"values evicted": 1}


def test_values_and_users_expire_by_the_time_of_the_stream() -> None:
    declared = Schema(context=[Category("campaign", expire="10d")])
    recommender = Recommender(declared, factors=2, bounds=Bounds(expire_users="20d"))
    recommender.put_item("i")
    recommender.put_user("put before there were times")
    day = 86400.0
    for n in range(40):
        recommender.learn(Event("regular" if n else "once", "i", 1e9 + n * day, {"campaign": f"c{n // 5}"}))
    assert sorted(recommender.inspection.values("context.campaign", 99)) == ["c5", "c6", "c7"]
    assert recommender.users() == ["regular"]
    assert recommender.memory.gone == {"users expired": 2, "values expired": 5}


def test_one_wrong_clock_does_not_make_everything_old() -> None:
    recommender = Recommender(Schema(context=[Category("campaign", expire="10d")]), factors=2)
    recommender.learn(Event("u", "i", 1e9, {"campaign": "c"}))
    recommender.learn(Event("u", "i", 7e9, {"campaign": "d"}))
    assert recommender.inspection.count("context.campaign") == 2


def test_a_value_is_admitted_when_it_came_often_enough() -> None:
    recommender = Recommender(Schema(context=[Category("campaign", admit_after=3)]), factors=2)
    for n in range(3):
        assert recommender.inspection.count("context.campaign") == 0
        recommender.learn(Event("u", "i", context={"campaign": "c"}))
        recommender.learn(Event("u", "i", context={"campaign": f"once {n}"}))
    assert list(recommender.inspection.values("context.campaign", 9)) == ["c"]
    assert recommender.memory.refused == {"rare": 5}


GONE = """
import gc
import re
from coldstream import Bounds, Event, Id, Recommender, Schema
from coldstream.catalogue import slot_table
from coldstream.service.handlers.search import resident_bytes

slot_table.kept = lambda live: 10**9
recommender = Recommender(Schema(item=[Id()]), seed=4, trends=(), bounds=Bounds(items=300))
recommender.learn([Event("u", f"an item of which nobody will ask again {n}") for n in range(2000)])
gc.collect()
before, used = resident_bytes(), recommender.memory.used
for first in range(2000, 40_000, 100):
    items = [f"an item of which nobody will ask again {n}" for n in range(first, first + 100)]
    recommender.engine.replay(list(enumerate([Event("u", item) for item in items], recommender.position + 1)))
gc.collect()
print(resident_bytes() - before, recommender.memory.used - used, recommender.memory.gone["items evicted"])
"""


def test_what_is_gone_weighs_no_more_than_our_costs_say() -> None:
    run = subprocess.run([sys.executable, "-c", GONE], capture_output=True, text=True, check=True)
    grown, counted, evicted = map(int, run.stdout.split())
    assert evicted > 35_000
    assert 0.5 * counted < grown < counted


MEASURED = """
import gc, sys
from coldstream import Bounds, Categories, Category, Event, Id, Recommender, Schema
from coldstream.service.handlers.search import resident_bytes

schema = Schema(user=[Id(), Category("country")], item=[Id()], context=[Category("device"), Categories("tags")])
recommender = Recommender(schema, seed=4, bounds=Bounds(memory="96 MiB"))
def stream(first, count):
    for n in range(first, first + count):
        yield Event(f"user {n}", f"i{n % 300}", 1e9 + n, {"device": f"a device {n}", "tags": [f"t{n % 9000}", f"s{n}"]})
recommender.learn(list(stream(0, 300)))
for n in range(20):
    recommender.recommend(f"user {n}")
gc.collect()
before, used = resident_bytes(), recommender.memory.used
for first in range(300, 40_000, 100):
    recommender.put_users((f"user {n}", {"country": f"c{n}"}) for n in range(first, first + 100))
    recommender.engine.replay(list(enumerate(stream(first, 100), recommender.position + 1)))
    recommender.recommend(f"user {first}")
gc.collect()
print(resident_bytes() - before, recommender.memory.used - used, recommender.memory.gone["users evicted"])
"""


def test_the_process_grows_no_more_than_our_costs_say() -> None:
    gc.collect()
    run = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True)
    grown, counted, evicted = map(int, run.stdout.split())
    assert evicted > 1000
    assert counted < 96 * 2**20
    assert grown < 1.05 * counted + 4 * 2**20, f"the process grew by {grown:,} bytes, and {counted:,} were counted"


PACKED = """
import gc, sys
from coldstream import Bounds, Categories, Event, Id, LastAttribute, Recommender, Schema
from coldstream.service.handlers.search import resident_bytes

schema = Schema(item=[Id(), Categories("genre")], context=[LastAttribute("last_genre", of="genre")])
recommender = Recommender(schema, seed=4, factors=4, negatives=4, bounds=Bounds(memory="1 GiB"))
recommender.put_items((f"i{n}", {"genre": [f"genre number {n % 7}", f"genre number {n % 5}"]}) for n in range(300))
def stream(first, last):
    return [Event(f"user {n:09d}", f"i{(n * 7 + m * 13) % 300}", 1e9 + n) for n in range(first, last) for m in range(5)]
recommender.learn(stream(0, 2000))
gc.collect()
before, used = resident_bytes(), recommender.memory.used
for first in range(2000, 30_000, 1000):
    recommender.engine.replay(list(enumerate(stream(first, first + 1000), recommender.position + 1)))
for n in range(2000, 12_000):
    recommender.recommend(f"user {n:09d}", 3)
gc.collect()
print(resident_bytes() - before, recommender.memory.used - used, len(recommender.users()))
"""


def test_many_users_take_no_more_than_our_costs_say_and_not_much_less() -> None:
    """Most are packed, and only those who came lately are not."""
    run = subprocess.run([sys.executable, "-c", PACKED], capture_output=True, text=True, check=True)
    grown, counted, users = map(int, run.stdout.split())
    assert users == 30_000
    assert grown < 1.05 * counted + 4 * 2**20, f"the process grew by {grown:,} bytes, and {counted:,} were counted"
    assert counted < 2.5 * grown, f"the process grew by {grown:,} bytes, and {counted:,} were counted"


OWN_TAGS = Schema(user=[Id()], item=[Id(), Categories("genre")], context=[Category("device")])


def kept(recommender: Recommender) -> None:
    """What is known is within its budget, and who comes is known."""
    memory = recommender.memory
    assert memory.bound is not None
    assert memory.used <= memory.bound + 64 * 1024
    recommender.learn(Event("who comes", "i1", context={"device": "phone"}))
    recommender.put_user("who is put", {})
    assert recommender.has_user("who comes")
    assert recommender.has_user("who is put")
    assert "i1" not in [item for item, _ in recommender.recommend("who comes", 40)]


def test_values_that_nobody_has_any_more_leave_room_for_a_catalogue_and_for_users() -> None:
    recommender = small(memory="4 MiB")
    for n in range(60):
        names = [f"{n} {k}" for k in range(200)]
        recommender.learn(Event(f"u{n % 10}", f"i{n % 30}", context={"tags": names}))
    kept(recommender)
    recommender.put_items((f"new {n}", {"genre": [f"g{n % 4}"]}) for n in range(4000))
    assert len(recommender.items()) > 100
    kept(recommender)


def test_items_that_have_values_of_their_own_leave_room_for_users() -> None:
    recommender = Recommender(OWN_TAGS, seed=4, factors=5, negatives=7, bounds=Bounds(memory="4 MiB"))
    for n in range(30):
        recommender.put_item(f"i{n}")
    regulars = [Event(f"u{n % 20}", f"i{n % 30}", context={"device": "phone"}) for n in range(200)]
    recommender.learn(regulars)
    for first in range(0, 3000, 100):
        recommender.put_items((f"own {n}", {"genre": [f"g{n} {k}" for k in range(5)]}) for n in range(first, first + 100))
        recommender.learn(regulars[:20])
    kept(recommender)
    assert len(recommender.items()) > 200
    assert sum(recommender.has_user(f"u{n}") for n in range(20)) == 20
    values = recommender.inspection.count("item.genre")
    assert values <= 5 * len(recommender.items()) + 5 * len(recommender.items()) // 100 + 20  # those of nobody went


def test_what_is_unheld_goes_the_same_way_one_by_one_and_after_a_restart() -> None:
    def shop(restart: bool, many: bool) -> Recommender:
        recommender = Recommender(OWN_TAGS, seed=4, factors=5, negatives=7, bounds=Bounds(memory="2 MiB"))
        for first in range(0, 1200, 100):
            items = [(f"i{n}", {"genre": [f"g{n} {k}" for k in range(3)]}) for n in range(first, first + 100)]
            events = [Event(f"u{n}", f"i{n}", context={"device": f"d{n}"}) for n in range(first, first + 100, 3)]
            if many:
                recommender.put_items(items)
                recommender.engine.replay(list(enumerate(events, recommender.position + 1)))
            else:
                for item, attributes in items:
                    recommender.put_item(item, attributes)
                for event in events:
                    recommender.learn(event)
            if restart:
                recommender = Recommender.from_state(*recommender.state())
        return recommender

    expected = shop(False, False)
    assert expected.memory.gone["items evicted"] > 0
    assert expected.memory.gone["values evicted"] > 0
    for restart in (False, True):
        for many in (False, True):
            assert bits(shop(restart, many)) == bits(expected)


def test_a_budget_that_what_is_there_cannot_be_brought_within_is_refused(unchanged: Callable[..., str]) -> None:
    recommender = small(memory="8 MiB")
    recommender.learn(flood(4000))
    message = unchanged(recommender, InvalidInput, lambda: recommender.change_bounds(Bounds(memory="1 MiB")))
    found = re.search(r"memory must be at least '(\d+ MiB)' for what is here already, got '1 MiB'", message)
    assert found is not None
    recommender.change_bounds(Bounds(memory=found[1]))
    assert len(recommender.items()) == 30
    kept(recommender)
    users = len(recommender.users())
    recommender.learn(flood(500))
    assert len(recommender.users()) > users // 2 > 50
    recommender.change_bounds(Bounds(memory="8 MiB"))


def test_of_what_was_there_before_a_budget_that_goes_which_was_learned_longest_ago() -> None:
    recommender = Recommender(SCHEMA, seed=4, factors=5, negatives=7)
    recommender.put_items((f"i{n}", {"genre": [f"g{n % 4}"]}) for n in range(30))
    for event in flood(1500):
        recommender.learn(event)
        recommender.learn(Event("regular", event.item, event.time, {"device": "phone", "tags": ["new"]}))
    used = recommender.memory.used
    recommender.change_bounds(Bounds(memory=f"{used * 7 // 10} B"))
    assert {"phone"} <= set(recommender.inspection.values("context.device", 10**6))
    assert recommender.has_user("regular")
    devices, users = set(recommender.inspection.values("context.device", 10**6)), set(recommender.users())
    assert "d1499" in devices
    assert "d0" not in devices
    assert "user 1499" in users
    assert "user 0" not in users
    assert len(devices) > 300
    assert len(users) > 300


def test_what_goes_of_a_budget_at_once_is_little_where_little_has_to_go_and_more_where_one_record_brings_much() -> None:
    recommender = Recommender(
        Schema(user=[Id()], item=[Id()], context=[Categories("tags")]), "paper", factors=2, bounds=Bounds(memory="3 MiB")
    )
    recommender.put_item("i")

    def went(*tags: str) -> int:
        before = sum(recommender.memory.gone.values())
        recommender.learn(Event("u", "i", context={"tags": list(tags)}))
        return sum(recommender.memory.gone.values()) - before

    n = 0
    while not went(f"t{n:06}"):
        n += 1
    assert n > 2 * BUDGET_PORTION
    assert {went(f"o{k:06}") for k in range(50)} <= {0, 1 + n // BUDGET_PORTION}
    large = went(*(f"m{k:06}" for k in range(250)))
    assert large >= 250 - (1 + n // PORTION)
    assert large < 2 * 250  # values go, and the rows that they had stay
