"""Arrow streams in a request: rows as lines, and nothing of what a client may say that is not so."""

import asyncio
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from api import SCHEMA, Api
from hypothesis import given, settings
from hypothesis import strategies as st

from coldstream.runtime import turns
from coldstream.runtime.turns import Slices
from coldstream.service.handlers import arrow_stream
from coldstream.service.handlers.arrow_stream import ARROW
from coldstream.service.handlers.records import EVENT_LINE
from coldstream.service.http.problems import Problem
from coldstream.service.http.streamed_body import BodyProgress, StreamedBody

KINDS = SCHEMA + "[feedback]\nview = 0.2\npurchase = 1\n"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Api(tmp_path_factory.mktemp("arrow"), schema=KINDS, body_bytes=100_000).start()
    yield served
    served.stop()


def stream(*batches: pa.RecordBatch, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def sent(api: Api, path: str, body: bytes | list[bytes]) -> Any:
    return api.call("POST", path, raw=body, headers={"content-type": ARROW.decode()})


def test_rows_are_taken_one_by_one(api: Api) -> None:
    items = batch(
        item=["a", "b", "c"], genre=[["x", "y"], None, ["z"]], price=[1.5, float("nan"), 3.0], hidden=[None, True, None]
    )
    answer = sent(api, "/items", stream(items)).json
    assert (answer["lines"], answer["taken"], answer["refused"]) == (3, 3, 0)
    assert api.call("GET", "/items/a").json["attributes"] == {"genre": ["x", "y"], "price": 1.5}
    assert api.call("GET", "/items/b").json == {"id": "b", "attributes": {}, "hidden": True}
    assert sent(api, "/users", stream(batch(id=[7, 8], country=["NL", None]))).json["taken"] == 2
    assert api.call("GET", "/users/7").json["attributes"] == {"country": "NL"}
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    first = batch(user=["u1", "u2"], item=["a", "b"], kind=["view", "click"], time=[noon, noon], device=["phone", None])
    second = batch(user=["u3", "u4"], item=["c", None], kind=["view", "view"], time=[noon, None], device=["desk", "desk"])
    body = stream(first, second)
    answer = sent(api, "/events", [body[:10], body[10:700], body[700:]]).json
    assert (answer["lines"], answer["taken"], answer["refused"]) == (4, 2, 2)
    assert sorted(one["line"] for one in answer["refusals"]) == [2, 4]
    assert api.service._store is not None
    lines = [json.loads(entry.body) for entry in api.service._store.read(api.service.learner.position - 2)]
    assert [(line["user"], line["context"]) for line in lines] == [("u1", {"device": "phone"}), ("u3", {"device": "desk"})]
    assert lines[0]["time"] == noon.timestamp()


def test_categories_of_a_data_frame_are_texts(api: Api) -> None:
    columns = pa.array(["m1", "m2", "m1"]).dictionary_encode()
    table = pa.RecordBatch.from_arrays([columns, pa.array(["u1", "u2", "u3"])], ["item", "user"])
    assert sent(api, "/events", stream(table, table)).json["taken"] == 6


@pytest.mark.parametrize(
    "times",
    [
        pa.array([2**62], pa.timestamp("s", "UTC")),
        pa.array([-(2**62)], pa.timestamp("us", "UTC")),
        pa.array([1], pa.timestamp("s", "Nowhere/At All")),
    ],
)
def test_a_time_that_cannot_be_read_is_refused_by_the_name_of_its_column(api: Api, times: pa.Array) -> None:
    answer = sent(api, "/events", stream(batch(user=["u1"], item=["a"], time=times)))
    assert answer.status == 400
    assert "column 'time' of type" in answer.json["detail"]
    assert "make times of the years 1900 to 2200" in answer.json["detail"]


def test_a_list_of_times_that_cannot_be_read_is_refused_by_the_name_of_its_column(api: Api) -> None:
    times = pa.array([[2**62]], pa.list_(pa.timestamp("us", "UTC")))
    answer = sent(api, "/events", stream(batch(user=["u1"], item=["a"], seen=times)))
    assert (answer.status, "column 'seen' of type" in answer.json["detail"]) == (400, True)


@pytest.mark.parametrize("end", [float("inf"), -float("inf")])
def test_a_number_without_end_is_refused_and_not_left_out(api: Api, end: float) -> None:
    answer = sent(api, "/events", stream(batch(user=["u1"], item=["a"], time=[end]))).json
    assert (answer["taken"], answer["refused"]) == (0, 1)
    assert answer["refusals"][0]["field"] == "$.time"
    answer = sent(api, "/items", stream(batch(item=["endless"], price=[end]))).json
    assert (answer["taken"], answer["refused"]) == (0, 1)
    assert "price must be a finite number" in answer["refusals"][0]["detail"]


@pytest.mark.parametrize("names", [["user", "user", "item"], ["user", "item", "item"], ["user", "item", "", ""]])
def test_two_columns_of_one_name_are_refused(api: Api, names: list[str]) -> None:
    columns = [pa.array([f"{name}{number}"]) for number, name in enumerate(names)]
    before = api.service.learner.position
    answer = sent(api, "/events", stream(pa.RecordBatch.from_arrays(columns, names)))
    twice = max(names, key=names.count)
    assert answer.status == 400
    assert f"column {twice!r} is there 2 times; send it once" in answer.json["detail"]
    assert api.service.learner.position == before


def large(rows: int) -> pa.RecordBatch:
    return batch(user=["u"] * rows, item=["a" * 50] * rows)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"PAR1 and more that is no stream", 400, "must be an Arrow stream"),
        (stream(batch(user=["u"], item=["a"]))[:-20], 400, "in the midst of a message"),
        (stream(batch(user=["u"] * 2000, item=["a"] * 2000), compression="zstd"), 400, "is compressed"),
        (stream(large(5000)), 413, "must not be longer than 100000 bytes"),
        (stream(batch(user=["u"], item=["a"], where=[{"x": 1}])), 400, "column 'where' is of type struct"),
        (stream(batch(user=["u"], item=[b"a"])), 400, "column 'item' is of type binary"),
        (stream(pa.RecordBatch.from_arrays([pa.nulls(200_000)], ["user"])), 413, "more than 100000 rows"),
    ],
    ids=["no stream", "cut", "compressed", "long", "struct", "binary", "rows"],
)
def test_what_cannot_be_taken_is_refused_and_changes_nothing(api: Api, body: bytes, status: int, said: str) -> None:
    position = api.service.learner.position
    answer = sent(api, "/events", body)
    assert (answer.status, said in answer.json["detail"]) == (status, True), answer.json
    assert api.service.learner.position == position


def test_dictionaries_may_be_as_long_together_as_a_body_and_no_longer() -> None:
    columns = [pa.array([text * 300]).dictionary_encode() for text in "ab"]
    body = stream(pa.RecordBatch.from_arrays(columns, ["user", "item"]))

    async def rows(longest: int) -> list[tuple[int, bytes]]:
        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        lines = arrow_stream.arrow_lines(
            StreamedBody(receive, BodyProgress()), longest, EVENT_LINE.row, Slices(asyncio.Lock())
        )
        return [(number, row) async for number, row in lines if isinstance(row, bytes)]

    both = sum(len(message) for kind, message in _messages_of(body) if kind == arrow_stream._DICTIONARY)
    assert len(asyncio.run(rows(both))) == 1
    with pytest.raises(Problem, match="all dictionaries together"):
        asyncio.run(rows(both - 1))


def _messages_of(body: bytes) -> list[tuple[int, bytes]]:
    async def listed() -> list[tuple[int, bytes]]:
        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        parts = StreamedBody(receive, BodyProgress())
        return [message async for message in arrow_stream._messages(parts, len(body), Slices(asyncio.Lock()))]

    return asyncio.run(listed())


def test_many_small_batches_do_not_read_a_large_dictionary_again_and_again(api: Api) -> None:
    words = pa.array([f"a rather long word {n}" for n in range(2000)])
    column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), words)
    one = pa.RecordBatch.from_arrays([column, pa.array(["i1"])], ["user", "item"])
    assert sent(api, "/events", stream(*[one] * 3)).json["taken"] == 3
    answer = sent(api, "/events", stream(*[one] * 600))
    assert (answer.status, "small beside their dictionaries" in answer.json["detail"]) == (413, True)


def test_nothing_at_all_is_no_row(api: Api) -> None:
    assert sent(api, "/events", b"").json["lines"] == 0
    assert sent(api, "/recommend", b"").status == 415


GOOD = stream(
    batch(user=["u1", "u2"], item=["a", "b"], device=["phone", None]), batch(user=["u3"], item=["c"], device=["desk"])
)


@settings(max_examples=300)
@given(data=st.data())
def test_damage_ends_in_a_refusal_and_never_in_a_crash(api: Api, data: st.DataObject) -> None:
    body = bytearray(GOOD)
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=4)):
        body[place] = data.draw(st.integers(0, 255))
    assert sent(api, "/events", bytes(body)).status in (200, 400, 413, 422)


def test_without_pyarrow_it_is_said_what_to_install(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_stream, "_pyarrow", _missing)
    answer = sent(api, "/events", GOOD)
    assert (answer.status, "coldstream[evaluation]" in answer.json["detail"]) == (415, True)


def _missing() -> Any:
    raise ImportError("no pyarrow")


# What would cost much


@pytest.mark.parametrize(
    ("columns", "field", "said"),
    [
        ({"user": ["u1", "u2"]}, "$.item", "column 'item' is missing"),
        ({"user": ["u1", "u2"], "item": pa.nulls(2)}, "$.item", "column 'item' has no value"),
        ({"user": ["u1", "u2"], "item": [None, None]}, "$.item", "column 'item' has no value"),
        ({"user": [True, False], "item": ["a", "b"]}, "$.user", "column 'user' is of type bool; make it numbers or text"),
        ({"user": ["u1", "u2"], "item": ["a", "b"], "time": [[1], [2]]}, "$.time", "make it numbers or text or times"),
        (
            {"user": ["u1", "u2"], "item": ["a", "b"], "kind": [1, 2]},
            "$.kind",
            "column 'kind' is of type int64; make it text",
        ),
        (
            {"user": ["u1", "u2"], "item": ["a", "b"], "context": ["x", "y"]},
            "$.context",
            "a column for each field of context",
        ),
    ],
)
def test_a_column_with_which_no_row_can_be_taken_is_one_refusal(
    api: Api, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any], field: str, said: str
) -> None:
    records = list[Any]()
    monkeypatch.setattr(arrow_stream, "_record", lambda *given: records.append(given))
    position = api.service.learner.position
    answer = sent(api, "/events", stream(batch(**columns)))
    assert (answer.status, answer.json["field"]) == (422, field)
    assert said in answer.json["detail"]
    assert "refusals" in answer.json
    assert (answer.json["refused"], answer.json["next_line"], records) == (0, 1, [])
    assert api.service.learner.position == position


def test_an_item_needs_its_id_under_either_name(api: Api) -> None:
    answer = sent(api, "/items", stream(batch(price=[1.0])))
    assert (answer.status, "column 'id' or 'item' is missing" in answer.json["detail"]) == (422, True)
    assert (
        sent(api, "/items", stream(batch(item=["by name"], hidden=[True], available_from=["2026-01-01T00:00:00Z"]))).json[
            "taken"
        ]
        == 1
    )


def test_a_batch_that_cannot_be_taken_says_which_rows_were(api: Api) -> None:
    whole = stream(batch(user=["u1", "u2"], item=["a", "b"]))
    answer = sent(api, "/events", whole[: -len(arrow_stream._END)] + stream(batch(user=["u3"])))
    assert (answer.status, answer.json["taken"], answer.json["next_line"]) == (422, 2, 3)


def test_a_value_that_many_rows_share_is_not_made_for_each(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list[Any]()
    record = arrow_stream._record
    monkeypatch.setattr(arrow_stream, "_record", lambda row, shape: (lines.append(row), record(row, shape))[1])
    long = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None] * 500, pa.int8()), pa.array(["x" * 65_536, "phone"]))
    body = stream(batch(user=["u"] * 2000, item=["a"] * 2000, device=long))
    answer = sent(api, "/events", body).json
    assert (answer["taken"], answer["refused"], len(lines)) == (1000, 1000, 1000)
    assert answer["refusals"][0] == {
        "line": 1,
        "detail": "column 'device' has a value of more than 4096 bytes, or a list of more than 256 values",
        "field": "$.device",
    }
    assert [one["line"] for one in answer["refusals"][:3]] == [1, 3, 5]


def test_rows_are_made_objects_of_a_few_values_at_a_time() -> None:
    sizes = [1, 300, 200, 0, 256, 257, 3]
    device = pa.array([["x"] * size for size in sizes] * 10)
    read = arrow_stream._batch(stream(batch(user=["u"] * 70, item=["a"] * 70, device=device)), EVENT_LINE.row)
    slices = list[int]()

    class Rows:
        """Rows that note how many values are converted at once."""

        schema = read.rows.schema

        def __init__(self, rows: Any) -> None:
            self._rows = rows

        def slice(self, first: int, count: int) -> "Rows":
            return Rows(self._rows.slice(first, count))

        def filter(self, mask: Any) -> "Rows":
            return Rows(self._rows.filter(mask))

        def to_pylist(self) -> Any:
            rows = self._rows.to_pylist()
            slices.append(sum(2 + len(row["device"]) for row in rows))
            return rows

    rows = list(arrow_stream._rows(read._replace(rows=Rows(read.rows))))
    assert [isinstance(row, Problem) for row in rows] == [size > 256 for size in sizes] * 10
    assert [len(row["device"]) for row in rows if not isinstance(row, Problem)] == [s for s in sizes if s <= 256] * 10
    assert max(slices) <= arrow_stream.VALUES_TOGETHER
    assert len(slices) > 3


def test_a_row_of_too_many_values_is_refused_before_it_is_made() -> None:
    wide = {f"c{n}": [["x"] * 250, ["x"]] for n in range(100)}
    read = arrow_stream._batch(stream(batch(user=["u", "v"], item=["a", "b"], **wide)), EVENT_LINE.row)
    first, second = arrow_stream._rows(read)
    assert isinstance(first, Problem)
    assert not isinstance(second, Problem)


def test_others_have_their_turn_between_small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE", -1.0)
    schema = stream(batch(user=["u"], item=["a"]).slice(0, 0))[: -len(arrow_stream._END)]

    async def work() -> int:
        had = 0

        async def somebody() -> None:
            nonlocal had
            while True:
                await asyncio.sleep(0)
                had += 1

        async def receive() -> Any:
            return {"type": "http.request", "body": schema * 100, "more_body": False}

        other = asyncio.create_task(somebody())
        parts = StreamedBody(receive, BodyProgress())
        messages = [one async for one in arrow_stream._messages(parts, 10_000, Slices(asyncio.Lock()))]
        other.cancel()
        assert len(messages) >= 100
        return had

    assert asyncio.run(work()) >= 100 * turns.TURNS
