"""What goes in and out over HTTP, call by call."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from api import Answer, Api
from prometheus_client.parser import text_string_to_metric_families

from coldstream.service.http.examples import EXAMPLES
from coldstream.service.http.routes import ROUTES
from conftest import bits


@pytest.fixture
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Api(tmp_path_factory.mktemp("api")).start()
    yield served
    served.stop()


@pytest.fixture
def fresh() -> str:
    """A prefix that no other test uses."""
    return f"t{next(_numbers)}-"


_numbers = itertools.count()


def events(api: Api) -> int:
    return int(api.call("GET", "/evaluation").json["events"])


# Items, users, events


def test_an_item_is_put_got_changed_and_deleted(api: Api, fresh: str) -> None:
    path = f"/items/{fresh}a"
    assert api.call("GET", path).status == 404
    assert api.call("PUT", path, {"attributes": {"genre": ["jazz"], "price": 3}}).json["written"] == 1
    assert api.call("GET", path).json == {"id": f"{fresh}a", "attributes": {"genre": ["jazz"], "price": 3}}
    api.call("PUT", path, {"attributes": {"price": 4.5}})
    assert api.call("GET", path).json["attributes"] == {"price": 4.5}
    assert api.call("DELETE", path).status == 200
    assert api.call("GET", path).status == 404
    assert api.call("DELETE", path).status == 404


def test_an_item_is_recommended_when_it_is_available(api: Api, fresh: str) -> None:
    a, b, c = (f"{fresh}{name}" for name in "abc")
    api.call("PUT", f"/items/{a}", {"available_from": "2026-12-01T00:00:00Z", "available_until": 1_800_000_000})
    api.call("POST", "/items", [{"id": b, "hidden": True}, {"id": c, "attributes": {"genre": ["jazz"]}}])
    assert api.call("GET", f"/items/{a}").json == {
        "id": a,
        "attributes": {},
        "available_from": 1_796_083_200.0,
        "available_until": 1_800_000_000.0,
    }
    assert api.call("GET", f"/items/{b}").json == {"id": b, "attributes": {}, "hidden": True}
    assert api.call("GET", f"/items?search={b}").json["items"] == [{"id": b, "attributes": {}, "chosen": 0, "hidden": True}]

    def listed(**request: Any) -> list[str]:
        found = api.call("POST", "/recommend", {"n": 1000, "allow": [a, b, c], **request}).json["items"]
        return sorted(one["item"] for one in found)

    assert listed(time="2026-11-30T23:59:59Z") == [c]
    assert listed(time="2026-12-01T01:00:00+01:00") == [a, c]
    assert listed(time=1_800_000_000) == [c]
    assert listed(time=1_799_999_999, explain=True, n=9) == [a, c]
    api.call("PUT", f"/items/{a}", {"available_until": 1_600_000_000})
    assert listed() == [c]  # now, because no time is given
    why = api.call("POST", "/explain", {"item": a, "time": 1_500_000_000}).json
    assert why["available"] is True
    gone = api.call("POST", "/explain", {"item": a}).json
    assert gone["available"] is False
    assert gone["score"] == why["score"]
    assert api.call("POST", "/events", {"user": f"{fresh}u", "item": a}).json["learned"] == 1
    api.call("PUT", f"/items/{a}", {})
    assert api.call("GET", f"/items/{a}").json == {"id": a, "attributes": {}}
    assert listed() == [a, c]


def test_a_window_that_ends_before_it_begins_names_the_item(api: Api) -> None:
    given = [{"id": "i"}, {"id": "j", "available_from": 2000, "available_until": 1000}]
    detail = api.call("POST", "/items", given).json["detail"]
    assert "item 'j': available_until must be after available_from, which is 2000.0, got 1000.0" in detail


def test_a_user_is_put_got_changed_and_forgotten(api: Api, fresh: str) -> None:
    path = f"/users/{fresh}u"
    assert api.call("GET", path).status == 404
    assert api.call("PUT", path, {"attributes": {"country": "NL"}}).status == 200
    assert api.call("GET", path).json == {"id": f"{fresh}u", "attributes": {"country": "NL"}}
    forgotten = api.call("DELETE", path).json
    assert forgotten["position"] > 0
    assert forgotten["erasure_begins_within"] == 600
    assert api.call("GET", path).status == 404
    gone = api.call("DELETE", path)
    assert gone.status == 404
    assert "field" not in gone.json


@pytest.mark.parametrize("name", ["a/b", "ü", "a b", "a%2Fb", "?", "a\nb", "a\n", "\x00", "💡", "..", "x" * 256])
def test_any_text_can_be_an_id(api: Api, name: str) -> None:
    from urllib.parse import quote

    path = f"/items/{quote(name, safe='')}"
    assert api.call("PUT", path, {}).status == 200
    assert api.call("GET", path).json["id"] == name


@pytest.mark.parametrize("path", ["/items/m50/", "/items/a/b", "/users/a//"])
def test_a_slash_that_is_not_encoded_is_no_part_of_an_id(api: Api, path: str) -> None:
    refused = api.call("PUT", path, {})
    assert (refused.status, refused.json["field"]) == (404, "id")
    assert "a slash as %2F" in refused.json["detail"]


def test_many_items_and_users_go_in_one_call(api: Api, fresh: str) -> None:
    many = [{"id": f"{fresh}{n}", "attributes": {}} for n in range(1000)]
    assert api.call("POST", "/items", many).json["written"] == 1000
    assert api.call("POST", "/users", many[:3]).json["written"] == 3
    assert api.call("POST", "/items", many[0]).json["written"] == 1
    refused = api.call("POST", "/items", [*many, many[0]])
    assert (refused.status, refused.json["field"]) == (422, "$")


def test_an_event_is_known_when_it_is_answered_and_learned_once(api: Api, fresh: str) -> None:
    before = events(api)
    event = {"user": f"{fresh}u", "item": f"{fresh}i", "event_id": f"{fresh}e"}
    assert api.call("POST", "/events", event).json["learned"] == 1
    answer = api.call("POST", "/events", [event, {**event, "event_id": f"{fresh}f"}]).json
    assert (answer["learned"], answer["duplicates"]) == (1, 1)
    assert events(api) == before + 2
    left = api.call("POST", "/recommend", {"user": f"{fresh}u", "n": 1000}).json["items"]
    assert f"{fresh}i" not in [one["item"] for one in left]


def test_the_time_of_an_event_may_be_a_number_or_a_text_or_now(api: Api, fresh: str) -> None:
    for given in (1_700_000_000, 1_700_000_000.5, "2026-11-15T09:30:00Z", "2026-11-15T09:30:00+01:00", None):
        assert api.call("POST", "/events", {"user": f"{fresh}u", "item": f"{fresh}i", "time": given}).status == 200
    naive = api.call("POST", "/events", {"user": f"{fresh}u", "item": f"{fresh}i", "time": "2026-11-15T09:30:00"})
    assert (naive.status, naive.json["field"]) == (422, "$.time")


# Recommend


def test_a_recommendation_can_be_filtered_and_explained(api: Api, fresh: str) -> None:
    names = [f"{fresh}{n}" for n in range(6)]
    genres = [fresh if n % 2 else "other" for n in range(6)]
    api.call("POST", "/items", [{"id": i, "attributes": {"genre": [g]}} for i, g in zip(names, genres, strict=True)])
    api.call("POST", "/events", [{"user": f"{fresh}u", "item": name, "context": {"device": "phone"}} for name in names[:2]])

    def asked(**more: Any) -> list[Any]:
        answer = api.call("POST", "/recommend", {"user": f"{fresh}u", "time": 60, "allow": names, **more})
        assert answer.status == 200, answer
        return answer.json["items"]

    assert {one["item"] for one in asked()} == set(names[2:])
    assert {one["item"] for one in asked(exclude_seen=False)} == set(names)
    assert {one["item"] for one in asked(where={"genre": fresh})} == {names[3], names[5]}
    assert {one["item"] for one in asked(deny=names[2:5])} == {names[5]}
    assert len(asked(n=2)) == 2
    for one in asked(explain=True, context={"device": "phone"}):
        assert sum(term["value"] for term in one["why"]) == pytest.approx(one["score"], abs=1e-4)
        why = {"user": f"{fresh}u", "item": one["item"], "time": 60, "context": {"device": "phone"}}
        told = api.call("POST", "/explain", why).json
        assert told["terms"] == one["why"]
        assert told["score"] == pytest.approx(one["score"], abs=1e-4)


def test_those_who_ask_at_once_get_what_they_would_get_alone_and_one_who_errs_harms_nobody(api: Api, fresh: str) -> None:
    api.call("POST", "/items", [{"id": f"{fresh}{n}"} for n in range(9)])
    api.call("POST", "/events", [{"user": f"{fresh}u{n}", "item": f"{fresh}{n}"} for n in range(9)])
    bodies = [{"user": f"{fresh}u{n}", "n": n + 1, "time": 60} for n in range(9)] + [{"context": {"device": ["wrong"]}}, {}]

    async def together() -> list[Answer]:
        headers = [("host", "localhost"), ("content-type", "application/json")]
        calls = (api._call("POST", "/recommend", [json.dumps(body).encode()], headers) for body in bodies)
        return await asyncio.gather(*calls)

    found = api.run(together())
    assert [answer.status for answer in found] == [200] * 9 + [422, 200]
    for body, answer in zip(bodies[:9], found, strict=False):
        assert answer.json == api.call("POST", "/recommend", body).json


def test_nobody_in_particular_gets_something_too(api: Api, fresh: str) -> None:
    api.call("PUT", f"/items/{fresh}a", {})
    assert api.call("POST", "/recommend", {}).json["items"]
    assert api.call("POST", "/recommend", {"user": "never seen", "attributes": {"country": "NL"}}).json["items"]


# What is refused

EVENT = {"user": "u", "item": "i"}
BAD: list[tuple[str, str, Any, int, str]] = [
    ("POST", "/events", {"user": "u"}, 422, "$"),
    ("POST", "/events", {"user": "", "item": "i"}, 422, "$.user"),
    ("POST", "/events", {"user": "u" * 257, "item": "i"}, 422, "$.user"),
    ("POST", "/events", {"user": 3.5, "item": "i"}, 422, "$.user"),
    ("POST", "/events", {**EVENT, "colour": "red"}, 422, "$.colour"),
    ("POST", "/events", {**EVENT, "time": 1e300}, 422, "$.time"),
    ("POST", "/events", {**EVENT, "time": "yesterday"}, 422, "$.time"),
    ("POST", "/events", [EVENT, {**EVENT, "time": 1_700_000_000_000}], 422, "$[1].time"),
    ("POST", "/recommend", {"time": 1_700_000_000_000}, 422, "$.time"),
    ("POST", "/events", {**EVENT, "event_id": ""}, 422, "$.event_id"),
    ("POST", "/events", [], 422, "$"),
    ("POST", "/events", [EVENT] * 1001, 422, "$"),
    ("POST", "/events", [EVENT, {**EVENT, "context": {"device": {"deep": 1}}}], 422, "$[1].context.device"),
    ("POST", "/events", [EVENT, {**EVENT, "context": {"device": 1.5}}], 422, "$[1].context.device"),
    ("POST", "/events", [EVENT, {**EVENT, "context": {"new": 1.5}}], 422, "$[1].context.new"),
    ("POST", "/events", {**EVENT, "context": {"device": None}}, 422, "$.context.device"),
    ("POST", "/events", {**EVENT, "context": {"device": "x" * 1025}}, 422, "$.context.device"),
    ("POST", "/events", {**EVENT, "context": {"device": 10**30}}, 422, "$.context.device"),
    ("POST", "/events", {**EVENT, "context": {f"f{n}": "x" for n in range(65)}}, 422, "$.context"),
    ("POST", "/events", {**EVENT, "context": {"many": ["x"] * 257}}, 422, "$.context.many"),
    ("POST", "/items", {"id": "i", "attributes": {"genre": "jazz"}}, 422, "$.attributes.genre"),
    ("POST", "/items", [{"id": "i"}, {"id": "j", "attributes": {"size": 3}}], 422, "$[1].attributes.size"),
    ("PUT", "/items/i", {"attributes": {"price": "cheap"}}, 422, "$.attributes.price"),
    ("PUT", "/items/i", {"price": 3}, 422, "$.price"),
    ("PUT", "/items/i", {"available_from": 2, "available_until": 1}, 422, "$.available_until"),
    ("PUT", "/items/i", {"available_from": 1_700_000_000_000}, 422, "$.available_from"),
    ("PUT", "/items/i", {"hidden": 1}, 422, "$.hidden"),
    ("PUT", "/users/u", {"hidden": True}, 422, "$.hidden"),
    ("POST", "/items", [{"id": "i"}, {"id": "j", "available_until": "soon"}], 422, "$[1].available_until"),
    ("PUT", "/items/" + "i" * 257, {}, 422, "id"),
    ("PUT", "/items/", {}, 422, "id"),
    ("PUT", "/items/%ff", {}, 400, "id"),
    ("PUT", "/users/u", {"attributes": {"country": 1.5}}, 422, "$.attributes.country"),
    ("POST", "/recommend", {"n": 0}, 422, "$.n"),
    ("POST", "/recommend", {"n": 1001}, 422, "$.n"),
    ("POST", "/recommend", {"n": "ten"}, 422, "$.n"),
    ("POST", "/recommend", {"context": {"device": ["a"]}}, 422, "$.context.device"),
    ("POST", "/recommend", {"attributes": {"age": 3}}, 422, "$.attributes.age"),
    ("POST", "/recommend", {"where": {"price": 3}}, 422, "$.where.price"),
    ("POST", "/recommend", {"where": {"size": 3}}, 422, "$.where.size"),
    ("POST", "/recommend", {"allow": "i"}, 422, "$.allow"),
    ("POST", "/recommend", {"allow": ["i"] * 10_001}, 422, "$.allow"),
    ("POST", "/explain", {"user": "u"}, 422, "$"),
]


def test_a_time_in_milliseconds_is_refused_with_the_remedy(api: Api) -> None:
    detail = api.call("POST", "/events", {**EVENT, "time": 1_700_000_000_000}).json["detail"]
    assert "1700000000000" in detail
    assert "divide it by 1000" in detail


def state(api: Api) -> Any:
    return bits(api.service.recommender), api.service.learner.position, api.service._store.last()


def refused(api: Api, answer: Answer) -> Any:
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json
    assert document["status"] == answer.status
    assert document["title"]
    assert document["detail"]
    return document


@pytest.mark.parametrize(("method", "path", "body", "status", "field"), BAD)
def test_bad_input_names_the_field_and_changes_nothing(
    api: Api, method: str, path: str, body: Any, status: int, field: str
) -> None:
    before = state(api)
    answer = api.call(method, path, body)
    assert answer.status == status, answer
    assert refused(api, answer)["field"] == field
    assert state(api) == before


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"user":"\xff","item":"i"}',
        b'{"user":"\\ud800","item":"i"}',
        b'{"user":"u","item":"i","time":NaN}',
        b'{"user":"u","item":"i"} more',
        b"[" * 100_000,
        b'{"user":"u","item":"i","context":' + b'{"a":' * 100_000,
        b'{"user":"u","item":"i","context":{"a":' + b"[" * 100_000,
        b'{"user":"u","item":"i","x":' + b"[" * 100_000,
        b'{"user":"u","item":"i","context":{"device":1e400}}',
        b'{"user":"u","item":"i","time":' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_json_is_refused_and_changes_nothing(api: Api, raw: bytes) -> None:
    before = state(api)
    answer = api.call("POST", "/events", raw=raw)
    assert answer.status in (400, 413, 422), answer
    assert refused(api, answer)["field"].startswith("$")
    assert state(api) == before


def test_a_long_body_is_refused_whether_it_says_so_or_not(tmp_path: Any) -> None:
    api = Api(tmp_path, body_bytes=2000).start()
    try:
        said = api.call("POST", "/events", headers={"content-length": "2001"}, raw=b"x")
        unsaid = api.call("POST", "/events", raw=[b"x" * 1500, b"x" * 1500])
        absurd = api.call("POST", "/events", headers={"content-length": "9" * 30}, raw=b"x")
        assert [refused(api, answer)["status"] for answer in (said, unsaid, absurd)] == [413, 413, 413]
    finally:
        api.stop()


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""])
def test_a_body_must_say_that_it_is_json(api: Api, kind: str) -> None:
    assert refused(api, api.call("POST", "/events", EVENT, {"content-type": kind}))["status"] == 415


def test_json_with_parameters_is_json(api: Api) -> None:
    assert api.call("POST", "/recommend", {}, {"content-type": "Application/JSON; charset=utf-8"}).status == 200


def test_an_unknown_path_and_a_wrong_method_are_problems_too(api: Api) -> None:
    assert refused(api, api.call("GET", "/nowhere"))["status"] == 404
    wrong = api.call("PATCH", "/items/i")
    assert refused(api, wrong)["status"] == 405
    assert set(wrong.headers["allow"].split(", ")) == {"PUT", "GET", "HEAD", "DELETE"}


def test_an_unknown_item_cannot_be_explained(api: Api) -> None:
    assert refused(api, api.call("POST", "/explain", {"item": "never seen"}))["status"] == 404


def test_a_bug_is_an_answer_too(api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(api.service.recommender.serving, "recommend_batch", lambda _: 1 / 0)
    assert refused(api, api.call("POST", "/recommend", {"user": "secret person"}))["status"] == 500
    assert "ZeroDivisionError" in caplog.text
    assert "secret person" not in caplog.text


# The service itself


def test_a_snapshot_can_be_asked_for(api: Api, fresh: str) -> None:
    position = api.call("PUT", f"/items/{fresh}a", {}).json["position"]
    assert api.call("POST", "/snapshot").json["position"] == position


def test_metrics_can_be_read_by_prometheus(api: Api, fresh: str) -> None:
    api.call("POST", "/items", [{"id": f"{fresh}i"}])
    api.call("POST", "/events", [{"user": f"{fresh}u", "item": f"{fresh}i"}] * 3)
    api.call("GET", "/nowhere")
    text = api.call("GET", "/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text.body.decode())}
    samples = {family.name: family.samples[0].value for family in families.values() if family.samples}
    evaluation = api.call("GET", "/evaluation").json
    assert samples["coldstream_ready"] == 1
    assert samples["coldstream_events"] == evaluation["events"]
    assert samples["coldstream_items"] == api.service.recommender.size.items
    recalls = {sample.labels["method"]: sample.value for sample in families["coldstream_recall"].samples}
    assert recalls == {name: own["recall"] for name, own in evaluation["methods"].items()}
    requests = {
        (s.labels["method"], s.labels["path"], s.labels["status"]): s.value for s in families["coldstream_requests"].samples
    }
    assert requests["POST", "/events", "200"] >= 1
    assert fresh not in text.body.decode()
    assert "_created" not in text.body.decode(), "when a label was first seen says nothing, and doubles the page"


def test_health_and_readiness_are_told_to_anybody(api: Api) -> None:
    assert api.call("GET", "/health", headers={"host": "elsewhere"}).json["status"] == "ok"
    assert api.call("GET", "/ready", headers={"host": "elsewhere"}).json["position"] == api.service.learner.position
    assert api.call("HEAD", "/health").status == 200


def test_before_it_is_ready_a_service_says_so(tmp_path: Any) -> None:
    api = Api(tmp_path)
    for method, path, body in (("GET", "/ready", None), ("POST", "/recommend", {}), ("POST", "/events", EVENT)):
        answer = api.call(method, path, body)
        assert refused(api, answer)["status"] == 503
        assert int(answer.headers["retry-after"]) > 0
    assert api.call("GET", "/health").status == 200
    assert "coldstream_ready 0.0" in api.call("GET", "/metrics").body.decode()
    api.stop()


def test_without_keys_only_this_machine_is_answered(api: Api) -> None:
    for host in ("127.0.0.1", "localhost:8000", "[::1]:8000", "[::1]", "127.8.0.1:8000"):
        assert api.call("POST", "/recommend", {}, {"host": host}).status == 200
    for host in ("example.com", "127.0.0.example", "127.0.0.1.example.com", "", "[::2]", "localhost.example.com:80"):
        assert refused(api, api.call("POST", "/recommend", {}, {"host": host}))["status"] == 421


# The document


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_example_is_what_the_types_say(route: Any) -> None:
    example = EXAMPLES[route.handler.__name__]
    if route.takes is not None:
        msgspec.convert(example.given, route.takes)
    if route.gives is not bytes:
        msgspec.convert(example.answer, route.gives)


def test_the_document_names_every_call_and_every_answer_is_declared(api: Api) -> None:
    document = api.call("GET", "/openapi.json").json
    declared = {(method.upper(), path) for path, calls in document["paths"].items() for method in calls}
    assert declared == {(route.method, route.path) for route in ROUTES}
    for path, calls in document["paths"].items():
        for method, operation in calls.items():
            assert operation["summary"], (method, path)
            assert "200" in operation["responses"]
            if "requestBody" in operation:
                assert operation["requestBody"]["content"]["application/json"]["example"] is not None


def test_the_document_says_what_every_field_and_every_parameter_means(api: Api) -> None:
    document = api.call("GET", "/openapi.json").json
    silent = [
        f"{kind}.{name}"
        for kind, component in document["components"]["schemas"].items()
        for name, own in component["properties"].items()
        if not own.get("description", "").strip()
    ]
    parameters = [
        (path, parameter["name"], parameter.get("description", "").strip())
        for path, calls in document["paths"].items()
        for operation in calls.values()
        for parameter in operation.get("parameters", [])
    ]
    assert silent == []
    assert [(path, name) for path, name, description in parameters if not description] == []
    assert len(parameters) > 10
    assert all(component["description"].strip() for component in document["components"]["schemas"].values())


def test_recommended_items_come_with_their_attributes_if_wanted(api: Api, fresh: str) -> None:
    api.call("POST", "/items", [{"id": f"{fresh}a", "attributes": {"genre": ["jazz"], "price": 3}}, {"id": f"{fresh}b"}])
    api.call("POST", "/events", {"user": f"{fresh}u", "item": f"{fresh}a"})  # before it, there is nothing to explain
    wanted = {"allow": [f"{fresh}a", f"{fresh}b"]}
    described = api.call("POST", "/recommend", {**wanted, "describe": True}).json["items"]
    assert {one["item"]: one["attributes"] for one in described} == {
        f"{fresh}a": {"genre": ["jazz"], "price": 3},
        f"{fresh}b": {},
    }
    assert all("why" not in one for one in described)
    assert all("attributes" not in one for one in api.call("POST", "/recommend", wanted).json["items"])
    both = api.call("POST", "/recommend", {**wanted, "describe": True, "explain": True}).json["items"]
    assert all(one["why"] and "attributes" in one for one in both)


def test_attributes_of_recommended_items_are_bounded(api: Api, fresh: str) -> None:
    values = [f"{n}" + "x" * 1000 for n in range(250)]
    api.call("POST", "/items", [{"id": f"{fresh}{n}", "attributes": {"genre": values}} for n in range(3)])
    names = [f"{fresh}{n}" for n in range(20)]
    for name in names[3:]:
        api.call("PUT", f"/items/{name}", {"attributes": {"genre": values}})
    some = api.call("POST", "/recommend", {"allow": names[:10], "describe": True})
    assert (some.status, len(some.json["items"])) == (200, 10)
    for explain in (False, True):
        refused = api.call("POST", "/recommend", {"allow": names, "n": 20, "describe": True, "explain": explain})
        assert (refused.status, refused.json["field"]) == (422, "$.n")
        assert "ask for fewer, or leave out describe" in refused.json["detail"]


def test_what_filters_mean(api: Api, fresh: str) -> None:
    genres = {"a": ["jazz", "live"], "b": ["jazz"], "c": ["rock"], "d": []}
    api.call("POST", "/items", [{"id": fresh + name, "attributes": {"genre": genre}} for name, genre in genres.items()])

    def left(**filters: Any) -> list[str]:
        asked = {"n": 1000, "allow": [fresh + name for name in genres], **filters}
        return sorted(one["item"].removeprefix(fresh) for one in api.call("POST", "/recommend", asked).json["items"])

    assert left() == ["a", "b", "c", "d"]
    assert left(where={"genre": "jazz"}) == ["a", "b"]
    assert left(where={"genre": ["live", "rock"]}) == ["a", "c"]  # any of them, not all
    assert left(where={"genre": []}) == []
    assert left(where={"genre": "unheard of"}) == []
    assert left(deny=[f"{fresh}a", "nobody"], where={"genre": "jazz"}) == ["b"]  # deny is stronger than allow
    assert left(allow=[]) == []
    assert left(allow=[f"{fresh}c", "nobody"]) == ["c"]
    refused = api.call("POST", "/recommend", {"where": {"price": 3}})
    assert (refused.status, refused.json["field"]) == (422, "$.where.price")


def test_requests_are_logged_without_what_they_say(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    api = Api(tmp_path, access_log=True).start()
    caplog.set_level("INFO")
    api.call("PUT", "/users/jane.doe%40example.org", {"attributes": {"country": "Atlantis"}})
    api.call("POST", "/events", {"user": "jane.doe@example.org", "item": "i", "context": {"device": ["wrong"]}})
    api.call("DELETE", "/users/jane.doe%40example.org")
    api.stop()
    logged = " ".join(str(vars(record)) for record in caplog.records)
    assert "'call': 'PUT /users/{id}', 'status': 200" in logged
    assert "'call': 'POST /events', 'status': 422" in logged
    for secret in ("jane", "Atlantis", "wrong"):
        assert secret not in logged


# What was acknowledged


def test_a_request_may_ask_for_what_was_acknowledged(api: Api, fresh: str) -> None:
    position = api.call("PUT", f"/items/{fresh}a", {"attributes": {}}).json["position"]
    after = {"coldstream-after": str(position)}
    assert api.call("GET", f"/items/{fresh}a", headers=after).status == 200
    assert api.call("POST", "/recommend", {"after": position}).status == 200
    assert api.call("POST", "/explain", {"item": f"{fresh}a", "after": position}).status == 200


def test_a_position_that_nobody_acknowledged_is_refused(api: Api) -> None:
    answer = api.call("POST", "/recommend", {"after": 10**9})
    assert (answer.status, answer.json["field"]) == (422, "$.after")
    assert (
        "after must be a position that an acknowledgement gave, got 1000000000; the log ends at line"
        in answer.json["detail"]
    )
    for header in ("-1", "x", "1" * 30):
        assert api.call("GET", "/items", headers={"coldstream-after": header}).status == 400


def test_one_process_says_that_it_writes_and_is_not_behind(api: Api) -> None:
    health = api.call("GET", "/health").json
    assert (health["role"], health["lag"]) == ("writer", {"lines": 0, "milliseconds": 0.0})
    assert health["position"] == api.call("GET", "/ready").json["position"]
    facts = api.call("GET", "/live").json["service"]
    assert (facts["role"], facts["lag"]["lines"]) == ("writer", 0)
    assert b"coldstream_writer 1.0" in api.call("GET", "/metrics").body


def test_a_fingerprint_changes_with_what_is_learned(api: Api, fresh: str) -> None:
    before = api.call("GET", "/fingerprint").json
    assert api.call("GET", "/fingerprint").json == before
    api.call("POST", "/events", {"user": f"{fresh}u", "item": f"{fresh}i"})
    after = api.call("GET", "/fingerprint").json
    assert after["position"] == before["position"] + 1
    assert after["fingerprint"] != before["fingerprint"]
