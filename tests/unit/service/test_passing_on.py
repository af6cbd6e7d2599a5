"""What a process that does not write does with what is to be written: it goes to the writer as it came, and back."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from api import Api

from coldstream.runtime.replication.roles import NotTheWriter
from coldstream.service.handlers import line_stream
from coldstream.service.http.app import application
from coldstream.service.http.forwarding import ELSEWHERE, HOP, Forwarded
from coldstream.service.http.gate import Gate
from coldstream.service.http.rates import Rates
from coldstream.service.messages.core import LinesTaken, RefusedLine
from coldstream.service.service import Service

JSON = {b"content-type": b"application/json"}
LINES = {"content-type": "application/x-ndjson"}


class Writer:
    """A writer elsewhere, which answers as it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes, bytes]] = []
        self.headers: list[Mapping[bytes, bytes]] = []
        self.answers: list[Forwarded] = []

    async def forward(self, method: str, target: bytes, headers: Mapping[bytes, bytes], body: bytes) -> Forwarded:
        self.heard.append((method, target, body))
        self.headers.append(headers)
        return self.answers.pop(0)

    def close(self) -> None:
        pass


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def api(tmp_path: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A service that follows: it need not have started, because it does nothing by itself."""

    def elsewhere(_: Service) -> None:
        raise NotTheWriter("this process does not write")

    monkeypatch.setattr(Service, "writer", property(elsewhere))
    served = Api(tmp_path)
    served.service.forwarder = writer  # type: ignore[assignment]
    served._app = application(served.service, Gate(None, Rates(0.0)))
    yield served
    served.stop()


def test_a_call_goes_as_it_came_and_the_answer_comes_back(api: Api, writer: Writer) -> None:
    back = {**JSON, b"retry-after": b"3", b"www-authenticate": b"Bearer", b"server": b"another"}
    writer.answers = [Forwarded(429, back, b'{"a":1}')]
    answer = api.call("PUT", "/items/a%2Fb?x=1", {"attributes": {}})
    assert writer.heard == [("PUT", b"/items/a%2Fb", b'{"attributes": {}}')]
    assert writer.headers[0][b"host"] == b"127.0.0.1:8000"
    assert (answer.status, answer.body) == (429, b'{"a":1}')
    assert answer.headers["content-type"] == "application/json"
    assert (answer.headers["retry-after"], answer.headers["www-authenticate"]) == ("3", "Bearer")
    assert "server" not in answer.headers


def test_an_answer_that_does_not_say_what_it_is_is_json(api: Api, writer: Writer) -> None:
    writer.answers = [Forwarded(200, {}, b"{}")]
    assert api.call("POST", "/events", {"user": "u", "item": "i"}).headers["content-type"] == "application/json"


@pytest.mark.parametrize("kind", [{}, LINES])
def test_what_was_passed_on_once_is_not_passed_on_again(api: Api, writer: Writer, kind: dict[str, str]) -> None:
    answer = api.call("POST", "/events", {"user": "u", "item": "i"}, {**kind, HOP.decode(): "1"})
    assert (answer.status, answer.headers[ELSEWHERE.decode()]) == (503, "1")
    assert writer.heard == []


def test_reading_is_not_passed_on(api: Api, writer: Writer) -> None:
    assert api.call("GET", "/health").status == 200
    assert writer.heard == []


def taken(count: int, position: int, refusals: tuple[int, ...] = (), duplicates: int = 0) -> Forwarded:
    """What a writer says became of so many lines."""
    told = [RefusedLine(line, f"line {line} is bad", "$.item") for line in refusals]
    good = count - len(told) - duplicates
    return Forwarded(200, JSON, msgspec.json.encode(LinesTaken(count, good, duplicates, len(told), told, position)))


def event(number: int) -> bytes:
    return b'{"user":"u","item":"i%d"}' % number


def test_lines_go_some_at_once_and_are_told_by_the_numbers_they_had(
    api: Api, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_stream, "MAX_BATCH_LINES", 4)
    writer.answers = [taken(3, 17, refusals=(2,)), taken(1, 18, duplicates=1)]
    body = b"\n".join([event(1), b"", event(3), b"{}", event(5), event(6)])
    answer = api.call("POST", "/events?x=1", raw=body, headers=LINES).json
    assert writer.heard == [
        ("POST", b"/events", b"\n".join([event(1), event(3), event(5)])),
        ("POST", b"/events", event(6)),
    ]
    assert all(headers[b"content-type"] == b"application/x-ndjson" for headers in writer.headers)
    counts = [answer[name] for name in ("lines", "taken", "duplicates", "refused", "position")]
    assert counts == [5, 2, 1, 2, 18]
    assert [one["line"] for one in answer["refusals"]] == [3, 4]


def test_refusals_are_told_so_many_and_counted_all(api: Api, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_stream, "MAX_BATCH_LINES", 4)
    monkeypatch.setattr(line_stream, "MAX_TOLD_REFUSALS", 5)
    writer.answers = [taken(4, 3, refusals=(1, 2, 3)), taken(4, 3, refusals=(1, 2, 3, 4))]
    answer = api.call("POST", "/events", raw=b"\n".join([*map(event, range(8)), b"{}"]), headers=LINES).json
    assert answer["refused"] == 8
    assert [one["line"] for one in answer["refusals"]] == [1, 2, 3, 5, 6]


def test_a_writer_that_takes_nothing_ends_the_rest(api: Api, writer: Writer) -> None:
    problem = {"title": "t", "status": 503, "detail": "not now", "field": "$.x"}
    writer.answers = [Forwarded(503, JSON, json.dumps(problem).encode())]
    answer: Any = api.call("POST", "/events", raw=event(1), headers=LINES)
    assert (answer.status, answer.json["detail"], answer.json["field"]) == (503, "not now", "$.x")
    assert int(answer.headers["retry-after"]) > 0


def test_a_writer_that_ends_in_the_middle_says_where_to_go_on(
    api: Api, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_stream, "MAX_BATCH_LINES", 3)
    told = [{"line": 2, "detail": "line 2 is bad"}]
    counts = {"taken": 0, "duplicates": 0, "refused": 2, "refusals": told, "next_line": 3, "position": 20}
    problem = {"title": "t", "status": 503, "detail": "not now", **counts}
    writer.answers = [taken(2, 17), Forwarded(503, JSON, json.dumps(problem).encode())]
    body = b"\n".join([event(1), b"{}", event(3), b"", *map(event, range(5, 9))])
    answer = api.call("POST", "/events", raw=body, headers=LINES).json
    found = {name: answer[name] for name in ("taken", "duplicates", "refused", "next_line", "position")}
    assert found == {"taken": 2, "duplicates": 0, "refused": 3, "next_line": 7, "position": 20}
    assert [one["line"] for one in answer["refusals"]] == [2, 6]
