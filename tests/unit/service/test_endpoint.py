"""What stands before every call: how long, how many and how often things may be, to the last one that may."""

import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api import Api

from coldstream.service.handlers.arrow_stream import ARROW
from coldstream.service.http import endpoint as module

LONGEST = 2000
EVENT = b'{"user":"u","item":"i"}'
JSON, LINES = "application/json", "application/x-ndjson"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Api(tmp_path_factory.mktemp("endpoint"), body_bytes=LONGEST).start()
    yield served
    served.stop()


def refused(api: Api, *call: Any, **more: Any) -> tuple[int, str | None, str]:
    answer = api.call(*call, **more)
    return answer.status, answer.json.get("field"), answer.json["detail"]


def test_a_body_may_be_so_long_and_no_longer(api: Api) -> None:
    body = EVENT + b" " * (LONGEST - len(EVENT))
    for parts in ([body], [body[:1500], body[1500:]]):
        for length in ({}, {"content-length": str(LONGEST)}):
            assert api.call("POST", "/events", raw=parts, headers=length).status == 200
        assert api.call("POST", "/events", raw=[*parts, b" "]).status == 413
    assert api.call("POST", "/events", raw=EVENT, headers={"content-length": str(LONGEST + 1)}).status == 413


def test_a_length_of_more_digits_than_any_has_is_not_read(api: Api) -> None:
    """Reading a number takes longer the more digits it has, zeros before it too."""
    for digits, status in ((15, 200), (16, 413)):
        assert api.call("POST", "/events", raw=EVENT, headers={"content-length": f"{len(EVENT):0{digits}}"}).status == status


@pytest.mark.parametrize("kind", [JSON, LINES, ARROW.decode()])
def test_a_body_that_ends_with_its_connection_is_told_so_and_not_taken(api: Api, kind: str) -> None:
    position = api.service.learner.position
    told = refused(api, "POST", "/events", raw=[EVENT[:7]], headers={"content-type": kind}, cut=True)
    assert told[:2] == (400, "$")
    assert "the connection ended before the body did" in told[2]
    assert api.service.learner.position == position


@pytest.mark.parametrize("name", ["host", "authorization", "content-type", "content-length", "origin", "sec-fetch-site"])
def test_a_header_that_decides_something_comes_once(api: Api, name: str) -> None:
    given = {"host": "localhost", "content-type": JSON, "content-length": "2", "sec-fetch-site": "none"} | {name: "x"}
    status, _, detail = refused(api, "POST", "/recommend", {}, headers=given, again={name: "y"})
    assert status == 400
    assert detail == f"the header {name.title()} must be there once, got it 2 times; send one"


def test_other_headers_may_come_again(api: Api) -> None:
    assert api.call("POST", "/recommend", {}, headers={"accept": "a"}, again={"accept": "b"}).status == 200


def test_a_query_has_so_many_parameters_and_each_once(api: Api) -> None:
    def asked(count: int) -> tuple[int, str | None, str]:
        return refused(api, "GET", "/items?" + "&".join(f"a{n}=1" for n in range(count)))

    assert asked(16)[:2] == (422, "$.a0")
    assert asked(17)[:2] == (400, "$")
    assert refused(api, "GET", "/items?limit=5&search=x&limit=6") == (
        400,
        "$",
        "the query must have 'limit' once, got it several times",
    )
    assert refused(api, "GET", "/items?limit=")[:2] == (422, "$.limit")
    assert api.call("GET", "/items?").status == 200


def test_a_position_in_a_header_has_so_many_digits(api: Api) -> None:
    for digits, field in ((15, "$.after"), (16, None)):
        told = refused(api, "GET", "/items", headers={"coldstream-after": "1" * digits})
        assert told[1] == field
        assert told[0] == (422 if field else 400)


@pytest.mark.parametrize("path", ["/recommend/", "/health/", "//items"])
def test_a_path_that_is_nearly_one_is_none(api: Api, path: str) -> None:
    assert api.call("GET", path).status == 404


def test_how_long_an_answer_took_is_logged_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    now = itertools.count(100.0, 0.25)
    monkeypatch.setattr(module, "perf_counter", lambda: next(now))
    for logged in (True, False):
        api = Api(tmp_path, access_log=logged)
        api.call("GET", "/health")
        counted = api.service.metrics.of("GET", "/health")
        assert (list(counted.recent), counted.answered) == ([0.25], 1)
        text = api.service.metrics.text().decode()
        assert 'coldstream_request_seconds_sum{method="GET",path="/health"} 0.25' in text
        api.stop()
    (line,) = [vars(record) for record in caplog.records if record.name == "coldstream.access"]
    assert (line["call"], line["status"], line["ms"]) == ("GET /health", 200, 250.0)


def test_who_is_about_to_leave_keeps_no_connection(tmp_path: Path) -> None:
    api = Api(tmp_path)
    assert "connection" not in api.call("GET", "/health").headers
    api.service.leaving = True
    assert api.call("GET", "/health").headers["connection"] == "close"
    api.stop()


def test_a_body_of_very_many_objects_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    api = Api(tmp_path).start()
    pins = {"rules": {"pins": [{"item": 1, "position": 1}] * module.MAX_OBJECTS}}
    items = [{"id": 1}] * (module.MAX_LINE_OBJECTS + 1)
    for path, body, most in (("/items", items, module.MAX_LINE_OBJECTS), ("/recommend", pins, module.MAX_OBJECTS)):
        answer = api.call("POST", path, raw=json.dumps(body).encode())
        assert (answer.status, f"more than {most} objects" in answer.json["detail"]) == (413, True)
    assert api.call("POST", "/items", [{"id": 1}] * 1000).status == 200
    api.stop()
