"""Scenarios are the same whenever they are run, and keep their rules."""

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any

import httpx
import pytest

from coldstream import Schema
from coldstream.client import Client
from coldstream.demo.audience import Audience
from coldstream.demo.churn import ITEMS, churn
from coldstream.demo.scenario_events import Choice, ItemCame, ItemWent, ScenarioEvent, UserCame
from coldstream.demo.scenarios import SCENARIOS
from coldstream.events.simulated_shop import Gone, Offer, shop, shop_stream


@pytest.mark.parametrize("name", ["clicks", "churn", "shop"])
def test_a_scenario_is_the_same_whenever_it_is_run(name: str) -> None:
    first, again = (list(islice(SCENARIOS[name].events(), 3000)) for _ in range(2))
    assert first == again
    assert len(first) == 3000


@pytest.mark.parametrize("name", ["clicks", "churn", "shop"])
def test_the_schema_of_a_scenario_knows_all_that_happens(name: str) -> None:
    from coldstream import Event, Recommender

    scenario = SCENARIOS[name]
    recommender = Recommender(scenario.schema(), factors=2, negatives=2)
    for event in islice(scenario.events(), 2500):
        match event:
            case ItemCame():
                recommender.put_item(event.item, event.attributes)
            case ItemWent():
                recommender.remove_item(event.item)
            case UserCame():
                recommender.put_user(event.user, event.attributes)
            case Choice():
                recommender.learn(Event(*event))


def test_the_shop_keeps_its_rules() -> None:
    there, hidden, kinds = set[str](), set[str](), defaultdict[str, int](int)
    over, carts = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for one in islice(shop(1), 9000):
        match one:
            case Offer():
                there.add(one.item)
                (hidden.add if one.hidden else hidden.discard)(one.item)
            case Gone():
                there.remove(one.item)
            case _:
                kinds[one.kind] += 1
                assert one.item in there - hidden
                assert one.item not in over[one.user]
                if one.kind == "cart":
                    carts[one.user].add(one.item)
                elif one.kind != "view":
                    over[one.user].add(one.item)
                    assert one.kind == "dislike" or one.item in carts[one.user]
    assert len(there) == 200
    assert kinds["view"] > 4 * kinds["cart"] > 4 * kinds["purchase"] > 400
    assert kinds["dislike"] > 100
    assert shop_stream(1, 100).events == shop_stream(1, 200).first(100).events


def test_in_the_record_shop_there_are_always_as_many_items_and_nobody_chooses_one_twice() -> None:
    there: set[str] = set()
    had = defaultdict[str, set[str]](set)
    went = 0
    for event in islice(churn(1), 8000):
        if isinstance(event, ItemCame):
            there.add(event.item)
        elif isinstance(event, ItemWent):
            there.remove(event.item)
            went += 1
        elif isinstance(event, Choice):
            assert len(there) == ITEMS
            assert event.item in there
            assert event.item not in had[event.user]
            had[event.user].add(event.item)
    assert went > 300
    assert len(had) > 400


@pytest.mark.parametrize("name", ["clicks", "churn", "shop"])
def test_a_schema_can_be_written_and_read(name: str, tmp_path: Any) -> None:
    schema = SCENARIOS[name].schema()
    (tmp_path / "schema.toml").write_text(schema.toml())
    assert Schema.from_toml(tmp_path / "schema.toml") == schema


class Noted:
    """A service that notes what it is asked, and has learned some events already."""

    def __init__(self, events: int) -> None:
        self.events, self.asked = events, list[tuple[str, str, Any]]()
        self.client = Client(transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        body = json.loads(request.content or b"null")
        self.asked.append((request.method, path, body))
        if request.method == "DELETE":
            return httpx.Response(404, json={"detail": "it is gone"})
        evaluation = {"top": 10, "window": 9, "tested": 0, "sampled": None, "new_users": None, "new_items": None}
        written = {"position": 1, "written": 1, "learned": 1, "duplicates": 0, "items": []}
        return httpx.Response(200, json={"events": self.events, "methods": {}, **evaluation, **written})


def story() -> Iterator[ScenarioEvent]:
    yield ItemCame("a/b", {})
    for n in range(6):
        yield Choice(f"u{n}", "a/b", float(n), {})
        if n == 2:
            yield ItemCame("c", {"price": 3})
            yield ItemWent("a/b")
    yield UserCame("u", {"age": "old"})


def choices(service: Noted) -> list[str]:
    return [event["event_id"] for _, path, body in service.asked if path == "/events" for event in body]


def test_an_audience_begins_at_the_beginning() -> None:
    service = Noted(0)
    assert Audience(service.client, "story", 0.0).run(story()) == 6
    assert choices(service) == [f"story-{n}" for n in range(1, 7)]
    paths = [path for _, path, _ in service.asked[2:]]
    assert paths == ["/items", "/events", "/items", "/items/a%2Fb", "/events", "/users"]
    assert service.asked[2][2] == [
        {"id": "a/b", "attributes": {}, "available_from": None, "available_until": None, "hidden": False}
    ]


def test_an_audience_goes_on_where_the_service_has_come_to() -> None:
    service = Noted(3)
    Audience(service.client, "story", 0.0).run(story())
    assert choices(service) == ["story-4", "story-5", "story-6"]
    # What came right after the last choice that was learned may not have been sent yet.
    first = takewhile(lambda asked: asked[1] != "/events", service.asked[2:])
    assert [path for _, path, _ in first] == ["/items", "/items/a%2Fb"]


def test_an_audience_stops_after_so_many_choices() -> None:
    service = Noted(0)
    assert Audience(service.client, "story", 0.0).run(story(), 2) == 2
    assert choices(service) == ["story-1", "story-2"]


def test_at_a_speed_people_look_before_they_choose() -> None:
    service = Noted(4)
    Audience(service.client, "story", 1000.0).run(story())
    assert [path for _, path, _ in service.asked].count("/recommend") == 2
