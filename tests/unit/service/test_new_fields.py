"""Fields that are declared while the service runs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from api import Api

from conftest import bits

FIELDS = {
    "item": {"brand": {"kind": "category"}, "weight": {"kind": "number", "scale": 10}},
    "user": {"hobbies": {"kind": "set", "normalize": True}},
    "context": {
        "distance": {"kind": "number", "low": 0, "high": 50},
        "last_brand": {"kind": "last_attribute", "of": "brand"},
        "last_three": {"kind": "last_items", "length": 3},
    },
}
BRANDED = {"attributes": {"brand": "Zeiss", "weight": 3}}
NEAR = {"user": "ann", "item": "a", "context": {"distance": 3, "mood": "calm"}}


def served(folder: Path) -> Api:
    return Api(folder).start()


def test_new_attributes_and_numbers_enter_in_mid_stream_and_survive(tmp_path: Path) -> None:
    api = served(tmp_path)
    api.call("POST", "/events", {"user": "ann", "item": "b"})
    for method, path, body, field in (
        ("PUT", "/items/a", BRANDED, "$.attributes.brand"),
        ("PUT", "/users/ann", {"attributes": {"hobbies": ["chess"]}}, "$.attributes.hobbies"),
        ("POST", "/events", NEAR, "$.context.distance"),
    ):
        refused = api.call(method, path, body)
        assert (refused.status, refused.json["field"]) == (422, field)
    declared = api.call("PUT", "/schema/fields", FIELDS).json
    assert declared["written"] == 6
    assert api.call("PUT", "/schema/fields", FIELDS).json == {"written": 0, "position": declared["position"]}
    assert api.call("PUT", "/items/a", BRANDED).status == 200
    assert api.call("PUT", "/users/ann", {"attributes": {"hobbies": ["chess"]}}).status == 200
    assert api.call("POST", "/events", [NEAR, NEAR]).status == 200
    assert api.call("GET", "/schema").json["context"]["distance"] == {"kind": "number", "low": 0.0, "high": 50.0}
    found = api.call("POST", "/explain", {"user": "ann", "item": "a", "context": {"distance": 9}}).json["terms"]
    names = {name for term in found for name in term["features"]}
    assert {"context.distance", "item.brand=Zeiss", "context.last_brand=Zeiss", "item.weight"} <= names
    branded = api.call("POST", "/recommend", {"where": {"brand": "Zeiss"}}).json["items"]
    assert [one["item"] for one in branded] == ["a"]
    before = bits(api.service.recommender)
    api.stop()
    for file in (tmp_path / "data").glob("*.npz"):
        file.unlink()
    again = served(tmp_path)  # with the schema file as it was, from the log alone
    assert bits(again.service.recommender) == before
    assert again.call("POST", "/events", NEAR).status == 200
    again.stop()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"item": {"genre": {"kind": "category"}}}, "item field 'genre' cannot change from {'kind': 'set'}"),
    ({"context": {"mood": {"kind": "number"}}}, "context field 'mood' cannot change from {'kind': 'category'}"),
    ({"item": {"hot": {"kind": "trend"}}}, "'hot' of kind 'trend' cannot be added to what was learned without it"),
    ({"item": {"x": {"kind": "colour"}}}, "unknown kind 'colour'; known are id, category"),
    ({"item": {"x": {"size": 3}}}, "item field 'x' must be a table with a kind"),
    ({"user": {"x": {"kind": "number", "low": 3}}}, "low and high must be two finite numbers"),
    ({"context": {"x": {"kind": "last_attribute", "of": "nothing"}}}, "of must name an item attribute"),
    ({"items": {"x": {"kind": "category"}}}, "items"),
    ({"user": {"x": {"kind": {"deep": 1}}}}, "user"),
]


def test_what_contradicts_what_was_learned_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    api = served(tmp_path)
    api.call("POST", "/events", {"user": "ann", "item": "b", "context": {"mood": "calm"}})
    before = bits(api.service.recommender)
    for fields, reason in REFUSED:
        answer = api.call("PUT", "/schema/fields", fields)
        assert answer.status == 422, fields
        assert reason in answer.json["detail"]
    assert api.call("PUT", "/schema/fields", {}).json["written"] == 0
    assert bits(api.service.recommender) == before
    api.stop()


@pytest.mark.parametrize("first", ["event", "fields"])
def test_an_event_and_a_declaration_of_the_same_field_at_once_do_not_collide(tmp_path: Path, first: str) -> None:
    """Whichever comes first says what the field is, and the other is refused or fits."""
    api = served(tmp_path)
    fields = {"context": {"distance": {"kind": "number"}}}
    event = {"user": "ann", "item": "b", "context": {"distance": "far"}}

    async def both() -> list[int]:
        headers = [("host", "127.0.0.1:8000"), ("content-type", "application/json")]
        calls = [("POST", "/events", event), ("PUT", "/schema/fields", fields)]
        calls = calls if first == "event" else calls[::-1]
        answers = await asyncio.gather(*(api._call(m, p, [json.dumps(b).encode()], headers) for m, p, b in calls))
        return [answer.status for answer in answers]

    assert api.run(both()) == [200, 422]
    assert api.call("POST", "/events", {"user": "ann", "item": "b"}).status == 200
    api.stop()
