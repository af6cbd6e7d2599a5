"""Lines of one request: each is checked once, others have their turn meanwhile, and an early end tells how far it came."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from api import SCHEMA, Api

from coldstream.runtime import turns
from coldstream.runtime.records import Interaction, Record
from coldstream.runtime.turns import Slices
from coldstream.runtime.writing.write_queue import Overloaded
from coldstream.runtime.writing.writer import Writer
from coldstream.service.handlers import line_stream
from coldstream.service.handlers.line_stream import MAX_BATCH_BYTES, MAX_BATCH_LINES, MAX_TOLD_REFUSALS, LineStream
from coldstream.service.handlers.records import EVENT_LINE
from coldstream.service.http.problems import Problem
from coldstream.service.http.streamed_body import BodyProgress, StreamedBody
from coldstream.service.http.turned_away import Reason

KINDS = SCHEMA + "[feedback]\nview = 0.2\npurchase = 1\n"
LINES = {"content-type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Api(tmp_path_factory.mktemp("lines"), schema=KINDS).start()
    yield served
    served.stop()


def lines(records: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in records)


def good(number: int) -> dict[str, Any]:
    return {"user": f"u{number % 7}", "item": f"i{number % 5}"}


def refused(number: int) -> dict[str, Any]:
    """An event that can be decoded, and not be learned."""
    return {**good(number), "kind": "click"}


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """The calls of a function from now on, each as its first argument."""
    calls, function = list[Any](), getattr(owner, name)

    def call(*given: Any, **more: Any) -> Any:
        calls.append(given)
        return function(*given, **more)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_only_the_refusals_that_are_told_are_put_into_words(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    composed = [counted(monkeypatch, line_stream, name) for name in ("undecodable", "problem_of")]
    body = lines([own for n in range(1500) for own in ({}, refused(n))])
    answer = api.call("POST", "/events", raw=body, headers=LINES).json
    assert (answer["refused"], answer["taken"]) == (3000, 0)
    assert sum(map(len, composed)) == len(answer["refusals"]) == MAX_TOLD_REFUSALS


def test_every_record_is_checked_once_however_many_are_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = counted(monkeypatch, Interaction, "check")
    body = lines([own for n in range(1000) for own in (good(n), refused(n))])
    answer = api.call("POST", "/events", raw=body, headers=LINES).json
    assert (answer["taken"], answer["refused"]) == (1000, 1000)
    assert len(checked) == 2000


@pytest.mark.parametrize("line", [b"{}", b"", b'{"user":"u","item":"i"}', b'{"user":"u","item":"i","kind":"no"}'])
def test_others_have_their_turn_between_lines(api: Api, monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr(turns, "SLICE", -1.0)  # every line is a slice
    count = 300

    async def work() -> int:
        had = 0

        async def somebody() -> None:
            nonlocal had
            while True:
                await asyncio.sleep(0)
                had += 1

        other = asyncio.create_task(somebody())

        async def receive() -> Any:
            return {"type": "http.request", "body": (line + b"\n") * count, "more_body": False}

        await LineStream(api.service, EVENT_LINE, 1000).take(receive)
        other.cancel()
        return had

    assert api.run(work()) >= count * turns.TURNS


def test_requests_share_one_slice_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE", -1.0)
    order = list[str]()

    async def one(name: str, pausing: asyncio.Lock) -> None:
        slices = Slices(pausing)
        for _ in range(5):
            await slices.pause_if_over()
            order.append(name)

    async def work() -> None:
        pausing = asyncio.Lock()
        many = [asyncio.create_task(one("bulk", pausing)) for _ in range(10)]
        while not all(task.done() for task in many):
            order.append("other")
            await asyncio.sleep(0)

    asyncio.run(work())
    longest = max(map(len, "".join("b" if own == "bulk" else " " for own in order).split()))
    assert longest == 1  # and not ten, one of each request


def test_a_line_that_comes_byte_by_byte_is_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = 0

    class Counting(bytearray):
        def __iadd__(self, other: Any) -> "Counting":  # type: ignore[override, misc]
            nonlocal copied
            copied += len(other)
            return super().__iadd__(other)  # type: ignore[return-value]

    monkeypatch.setattr(line_stream, "bytearray", Counting, raising=False)
    body = b'{"a": "' + b"x" * 3000 + b'"}\nsecond\n\nthird'

    async def work() -> list[tuple[int, bytes]]:
        parts = [body[n : n + 1] for n in range(len(body))]

        async def receive() -> Any:
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        read = line_stream._lines(StreamedBody(receive, BodyProgress()), 10_000, Slices(asyncio.Lock()))
        return [line async for line in read]

    assert asyncio.run(work()) == [(1, body.split(b"\n")[0]), (2, b"second"), (4, b"third")]
    assert copied <= len(body)
    assert copied > 3000


def test_a_batch_ends_where_it_has_bytes_enough(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    written = counted(monkeypatch, Writer, "write_each")
    event = {**good(1), "context": {"device": [f"{n}" + "x" * 900 for n in range(200)]}}  # 180 kB, which is refused
    count = 3 * MAX_BATCH_BYTES // len(lines([event]))
    answer = api.call("POST", "/events", raw=lines([event] * count), headers=LINES).json
    assert answer["refused"] == count < MAX_BATCH_LINES
    assert len(written) >= 3


# An answer that ends early


def ended(answer: Any) -> dict[str, Any]:
    document = answer.json
    return {name: document[name] for name in ("taken", "duplicates", "refused", "next_line")}


def test_a_connection_that_ends_has_its_whole_lines_taken_and_no_other(api: Api) -> None:
    position = api.service.learner.position
    body = lines([good(1), good(2), {}, good(3)]) + b'{"user":"u","item"'
    answer = api.call("POST", "/events", raw=[body], headers=LINES, cut=True)
    assert (answer.status, ended(answer)) == (400, {"taken": 3, "duplicates": 0, "refused": 1, "next_line": 5})
    assert answer.json["position"] == api.service.learner.position == position + 3
    assert [one["line"] for one in answer.json["refusals"]] == [3]
    assert "go on with that one" in answer.json["detail"]


def test_what_goes_on_with_the_next_line_learns_nothing_twice(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_stream, "MAX_BATCH_LINES", 10)
    write_each, calls = Writer.write_each, list[int]()

    async def overloaded(writer: Writer, records: Sequence[Record]) -> Any:
        calls.append(len(records))
        if len(calls) == 3:
            raise Overloaded("20 records wait to be learned, the most is 20; try again later")
        return await write_each(writer, records)

    monkeypatch.setattr(Writer, "write_each", overloaded)
    position = api.service.learner.position
    body = lines([{} if n % 10 == 4 else good(n) for n in range(50)])
    answer = api.call("POST", "/events", raw=body, headers=LINES)
    assert (answer.status, ended(answer)) == (503, {"taken": 18, "duplicates": 0, "refused": 2, "next_line": 21})
    assert "retry-after" in answer.headers
    rest = b"".join(body.splitlines(keepends=True)[answer.json["next_line"] - 1 :])
    again = api.call("POST", "/events", raw=rest, headers=LINES).json
    assert (again["taken"], again["refused"]) == (27, 3)
    assert again["position"] == position + 45


@pytest.mark.parametrize(("reason", "status"), [(Reason.SLOW_BODY, 408), (Reason.STOPPING, 503), (Reason.BODIES, 503)])
def test_a_body_that_the_connection_ends_tells_how_far_it_came(api: Api, reason: Reason, status: int) -> None:
    async def work() -> Problem:
        progress = BodyProgress()
        parts = [lines([good(1), {}, good(2)]) + b'{"user"', b""]

        async def receive() -> Any:
            if len(parts) == 1:
                progress.ended = reason
            return {"type": "http.request", "body": parts.pop(0), "more_body": True}

        with pytest.raises(Problem) as raised:
            await LineStream(api.service, EVENT_LINE, 1000, None, progress).take(receive)
        return raised.value

    problem: Problem = api.run(work())
    document = problem.document
    assert (problem.status, document.taken, document.refused, document.next_line) == (status, 2, 1, 4)
    assert problem.headers["Connection"] == "close"
    assert ("Retry-After" in problem.headers) == (status == 503)


def test_what_is_held_of_a_body_is_known_while_it_comes(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_stream, "MAX_BATCH_LINES", 4)

    async def work() -> list[tuple[int, int]]:
        progress, held = BodyProgress(), list[tuple[int, int]]()
        line = lines([good(1)])
        parts = [line[:9], line[9:] + line + line[:5], line[5:] + line]

        async def receive() -> Any:
            held.append((progress.kept, progress.batched))
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        await LineStream(api.service, EVENT_LINE, 1000, None, progress).take(receive)
        return [*held, (progress.kept, progress.batched)]

    size = len(lines([good(1)])) - 1
    assert api.run(work()) == [(0, 0), (9, 0), (5, 2 * size), (0, 0)]


def test_a_start_that_is_not_over_is_told_without_a_position(tmp_path: Path) -> None:
    waiting = Api(tmp_path)
    answer = waiting.call("POST", "/events", raw=lines([good(1)]), headers=LINES)
    assert (answer.status, ended(answer)) == (503, {"taken": 0, "duplicates": 0, "refused": 0, "next_line": 1})
    assert "position" not in answer.json
    waiting.stop()
