"""What a client is told when a request is refused: the field, the value and the remedy, in the words of HTTP and JSON."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
import pytest
from api import Api
from msgspec import Meta, Struct

from coldstream.errors import StoreInUse, StoreUnavailable
from coldstream.runtime.writing.checks import Refused
from coldstream.runtime.writing.write_queue import Overloaded
from coldstream.service.http.problems import problem_of, undecodable
from coldstream.service.http.routes import ROUTES, Route
from coldstream.service.messages.core import Fields, Name

PYTHON = re.compile(r"\w+\(|Expected `|\bNone\b|\bTrue\b|a function|datetime|codec")
"""What only somebody who writes Python would understand."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Api(tmp_path_factory.mktemp("problems")).start()
    served.call("PUT", "/items/i", {"attributes": {"genre": ["jazz"], "price": 3}})
    yield served
    served.stop()


EVENT_FIELDS = "known are user, item, time, context, event_id, kind, recommendation_id, passed_over; needed: user, item"

TOLD: list[tuple[str, str, Any, str]] = [
    ("POST", "/recommend", {"n": 0}, "$.n must be a whole number from 1 to 1000, got 0"),
    ("POST", "/recommend", {"n": "ten"}, '$.n must be a whole number from 1 to 1000, got "ten"'),
    ("POST", "/recommend", {"explain": 3}, "$.explain must be true/false, got 3"),
    ("POST", "/recommend", {"user": ""}, '$.user must be a text of 1 to 256 characters, got ""'),
    ("POST", "/recommend", {"user": [3]}, "$.user must be a text or a whole number, got [3]"),
    ("POST", "/recommend", {"allow": "i"}, '$.allow must be a list of at most 10000 values, got "i"'),
    ("POST", "/recommend", {"context": {"": 1}}, "$.context: the name of a field must be a text of 1 to 256 characters"),
    ("POST", "/events", [], "$ must be a list of 1 to 1000 values, got []"),
    ("POST", "/events", 3, "$ must be an object or a list, got 3"),
    (
        "POST",
        "/events",
        [{"user": "u", "item": "i"}, {"user": "u"}],
        f"$[1] has no field item; {EVENT_FIELDS}",
    ),
    (
        "POST",
        "/events",
        [{"user": "u", "item": "i", "colour": 1}],
        f"$[0]: there is no field colour; {EVENT_FIELDS}",
    ),
    (
        "POST",
        "/events",
        {"user": "u", "item": "i", "context": {"a": 1, "b": {"c": 2}}},
        '$.context.b must be a text, a whole number, a number, true/false or a list, got {"c":2}',
    ),
    (
        "POST",
        "/events",
        {"user": "u", "item": "i", "context": {"a": [1, None]}},
        "$.context.a[1] must be a text, a whole number, a number or true/false, got null",
    ),
    (
        "POST",
        "/events",
        {"user": "u", "item": "i", "context": {"a": "x" * 2000}},
        f'$.context.a must be a text of at most 1024 characters, got "{"x" * 78}…',
    ),
    ("GET", "/items?limit=0", None, '$.limit must be a whole number from 1 to 1000, got "0"'),
    ("GET", "/items?limt=5", None, "$: there is no field limt; known are search, limit, after"),
    ("GET", "/items/zzz", None, "item 'zzz' is not in the catalogue; PUT /items/{id} adds it"),
    ("GET", "/users/cust-5", None, "user 'cust-5' is not known; PUT /users/{id} adds one"),
    (
        "POST",
        "/recommend",
        {"where": {"price": 3}},
        'where: price is a number, got 3; give a range such as {"max": 50}',
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "told"), TOLD, ids=[told[:40] for *_, told in TOLD])
def test_a_refusal_says_what_came_and_what_would_do(api: Api, method: str, path: str, body: Any, told: str) -> None:
    answer = api.call(method, path, body)
    assert answer.status in (404, 422)
    assert answer.json["detail"] == told
    assert not PYTHON.search(answer.json["detail"])


def test_a_time_that_is_none_is_told_both_ways_to_write_one(api: Api) -> None:
    for given in ("yesterday", "2026-11-15T09:30:00", True):
        told = api.call("POST", "/recommend", {"time": given}).json["detail"]
        assert told.startswith("$.time must be a number")
        assert "2026-11-15T09:30:00Z" in told
        assert told.endswith(f"got {msgspec.json.encode(given).decode()}")


@pytest.mark.parametrize("route", [r for r in ROUTES if r.takes is not None], ids=lambda r: f"{r.method} {r.path}")
def test_every_call_refuses_an_unknown_field_and_lists_those_it_knows(api: Api, route: Route) -> None:
    path = route.path.replace("{id}", "i")
    if route.method == "GET":
        answer = api.call("GET", f"{path}?colour=red")
    else:
        answer = api.call(route.method, path, {"colour": "red"})
    assert (answer.status, answer.json["field"]) == (422, "$.colour")
    assert answer.json["detail"].startswith("$: there is no field colour; known are ")
    described = msgspec.json.schema(route.takes)["$defs"]
    name = getattr(route.takes, "__name__", "")
    for field in described[name if name in described else next(iter(described))]["properties"]:
        assert field in answer.json["detail"]


@pytest.mark.parametrize(
    ("path", "raw", "field"),
    [
        ("/events", b'{"user":"u","item":"m","context":{"a":{}},"context":5}', "$.context"),
        ("/events", b'{"user":"u","item":"m","context":5,"context":{}}', "$.context"),
        ("/events", b'[{"user":"u","item":"m","context":{"a":{}},"context":{}}]', "$[0].context"),
        ("/recommend", b'{"a.b[...]":1}', "$.a.b[...]"),
        ("/recommend", b'{"context[...]":1}', "$.context[...]"),
        ("/recommend", b'{"x` - at `$.n":1}', "$.x` - at `$.n"),
        ("/recommend", b'{"x - at `$.n":1}', "$.x - at `$.n"),
        ("/events", b'[{"x` - at `$[0]":1}]', "$[0].x` - at `$[0]"),
        ("/recommend", b'{"context":{"[...]":{}}}', "$.context.[...]"),
        ("/recommend", b'{"n":0,"n":5}', "$.n"),
        ("/recommend", b'{"n":0,"rest":[[}', "$.n"),
        ("/recommend", b'{"":1}', "$."),
        ("/recommend", b'{"' + b"x" * 5000 + b'":1}', "$." + "x" * 79 + "…"),
    ],
)
def test_a_body_made_to_confuse_is_refused_where_it_is_wrong(api: Api, path: str, raw: bytes, field: str) -> None:
    answer = api.call("POST", path, raw=raw)
    assert (answer.status, answer.json["field"]) == (422, field)
    assert not PYTHON.search(answer.json["detail"])
    assert len(answer.json["detail"]) < 300


def test_a_value_that_the_decoder_did_not_see_is_not_shown(api: Api) -> None:
    assert api.call("POST", "/recommend", raw=b'{"n":0,"n":5}').json["detail"] == "$.n must be a whole number from 1 to 1000"


class Described(Struct, forbid_unknown_fields=True):
    n: Annotated[int, Meta(ge=1, description="how many")] = 1
    fields: Annotated[Fields, Meta(description="what else")] = {}
    name: Annotated[Name | None, Meta(description="who")] = None


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b'{"n":0}', "$.n must be a whole number of at least 1, got 0"),
        (b'{"fields":{"a":[{}]}}', "$.fields.a[0] must be a text, a whole number, a number or true/false, got {}"),
        (b'{"name":""}', '$.name must be a text of 1 to 256 characters, got ""'),
        (b'{"size":1}', "$: there is no field size; known are n, fields, name"),
    ],
)
def test_what_is_said_of_a_type_does_not_hide_it(raw: bytes, told: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(raw, type=Described)
    assert undecodable(refused.value, Described, raw).document.detail == told


@pytest.mark.parametrize("query", ["limit=5&limit=6", "limit", "search=%ff", "&".join(f"a{n}=1" for n in range(20))])
def test_a_query_that_is_none_is_a_bad_request(api: Api, query: str) -> None:
    answer = api.call("GET", f"/items?{query}")
    assert answer.status == 400
    assert answer.json["detail"].startswith("the query must ")
    assert not PYTHON.search(answer.json["detail"])


def test_a_client_is_not_told_where_the_store_is() -> None:
    secret = "store: PostgreSQL at db.internal:5432/shop does not do its work (connection refused)"
    for error in (StoreUnavailable(secret), StoreInUse(secret), Refused(3, StoreUnavailable(secret))):
        problem = problem_of(error)
        assert problem.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert int(problem.headers["Retry-After"]) > 0
        assert "db.internal" not in problem.document.detail
        assert "again" in problem.document.detail
    assert "20000" in problem_of(Overloaded("20000 records wait to be learned")).document.detail


def test_a_snapshot_that_fails_is_told_to_whoever_runs_the_service(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def full() -> None:
        raise StoreUnavailable("the disk at /srv/secret is full")

    monkeypatch.setattr(api.service.writer, "snapshot", full)
    answer = api.call("POST", "/snapshot", {})
    assert answer.status == 503
    assert "/srv/secret" not in answer.json["detail"]
    assert any("/srv/secret" in getattr(record, "reason", "") for record in caplog.records)


@pytest.mark.parametrize("raw", [b'[{"id": "a", "unknown": {"\xe0": 1}}]', b'[{"id": [5], "attributes": {"a": "\xff"}}]'])
def test_a_body_with_an_unknown_field_before_what_is_no_text_is_refused(api: Api, raw: bytes) -> None:
    """The decoder stops at the field, and whoever reads the rest to show the value must not stumble over it."""
    assert api.call("POST", "/items", raw=raw).status == 422
