"""A stream in files is read as it was written, whatever the format, and what cannot be used is named with its place."""

import csv
import json
import time as clock
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from coldstream.errors import InvalidInput
from coldstream.events.event import Event
from coldstream.events.readers import choose_again, read_stream
from coldstream.events.stream import Stream

LISTS = {"tags"}
TYPES = {
    "user": pa.string(),
    "item": pa.string(),
    "time": pa.float64(),
    "device": pa.string(),
    "price": pa.float64(),
    "count": pa.int64(),
    "member": pa.bool_(),
    "tags": pa.list_(pa.string()),
}


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(rows[0])
        writer.writerows([_cell(row[name]) for name in rows[0]] for row in rows)
    return path


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return "|".join(value) if isinstance(value, list) else value


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    schema = pa.schema([(name, TYPES[name]) for name in rows[0]])
    parquet.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


def write_json_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    lines = [json.dumps({name: value for name, value in row.items() if value is not None}) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], Path]] = {
    ".csv": write_csv,
    ".tsv": write_csv,
    ".parquet": write_parquet,
    ".jsonl": write_json_lines,
    ".ndjson": write_json_lines,
}

ids = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5) | st.integers(
    0, 999
).map("{:05}".format)
# CSV has no types: a text that looks like a number or a date is one, and an empty one is missing.
words = st.text("abc ,;\"'|\n\té", max_size=4).map("x".__add__)
tags = st.lists(st.text('abc,"\n', min_size=1, max_size=3), min_size=1, max_size=3)
attributes = st.fixed_dictionaries(
    {
        "device": st.none() | words,
        "price": st.none() | st.floats(-1e9, 1e9),
        "count": st.none() | st.integers(-(2**53), 2**53),
        "member": st.none() | st.booleans(),
        "tags": st.none() | tags,
    }
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Events as rows of a file, and attributes of their items."""
    timed = draw(st.booleans())
    moments = st.floats(-2e9, 7e9) | st.integers(0, 3).map(float)
    rows = draw(
        st.lists(
            st.builds(
                lambda user, item, moment, rest: {"user": user, "item": item, "time": moment} | rest,
                ids, ids, moments if timed else st.none(), attributes,
            ),
            min_size=1,
            max_size=8,
        )
    )  # fmt: skip
    known = draw(st.sets(st.sampled_from([row["item"] for row in rows]), min_size=1)) | draw(st.sets(ids, max_size=2))
    return rows, {item: draw(attributes) for item in sorted(known)}


def without_missing(record: dict[str, Any], besides: tuple[str, ...] = ()) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None and name not in besides}


@given(streams(), st.sampled_from(sorted(WRITERS)))
def test_a_stream_reads_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, written: tuple[list[dict[str, Any]], dict[str, dict[str, Any]]], suffix: str
) -> None:
    rows, items = written
    folder = tmp_path_factory.mktemp("stream")
    write = WRITERS[suffix]
    events = write(folder / f"plays{suffix}", rows)
    table = write(folder / f"items{suffix}", [{"item": item} | record for item, record in items.items()])
    expected = [
        Event(row["user"], row["item"], row["time"], without_missing(row, besides=("user", "item", "time"))) for row in rows
    ]
    if rows[0]["time"] is not None:
        expected.sort(key=lambda event: event.time)
    known = {item: without_missing(record) for item, record in items.items()}
    read = read_stream(events, items=table, lists=LISTS, repeats=False)
    assert read == Stream("plays", expected, {}, known, repeats=False)
    # Equality takes 1 for 1.0 and for True.
    for found, wrote in zip(read.events, expected, strict=True):
        assert {name: type(raw) for name, raw in found.context.items()} == {
            name: type(raw) for name, raw in wrote.context.items()
        }


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str | bytes, name: str = "events.csv") -> Path:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / name

    return write


@pytest.fixture
def arrow(tmp_path: Path) -> Callable[..., Path]:
    def write(columns: dict[str, Any], name: str = "events.parquet") -> Path:
        parquet.write_table(pa.table(columns), tmp_path / name)
        return tmp_path / name

    return write


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own time is not UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    clock.tzset()
    yield
    monkeypatch.undo()
    clock.tzset()


def refused(*files: Path, **options: Any) -> str:
    with pytest.raises(InvalidInput) as raised:
        read_stream(*files, **options)
    return str(raised.value)


def context(path: Path, **options: Any) -> list[Any]:
    return [dict(event.context) for event in read_stream(path, **options).events]


# Order and time


def test_without_a_time_the_order_is_the_files(file: Callable[..., Path]) -> None:
    stream = read_stream(file("item,user\nb,1\na,1\nc,0\n"))
    assert [(event.user, event.item, event.time) for event in stream.events] == [
        ("1", "b", None),
        ("1", "a", None),
        ("0", "c", None),
    ]


def test_equal_times_keep_the_order_of_the_file(file: Callable[..., Path]) -> None:
    stream = read_stream(file("user,item,time\n1,b,5\n1,a,5\n1,d,4\n1,c,5\n"))
    assert [event.item for event in stream.events] == ["d", "b", "a", "c"]


MOMENT = datetime(2013, 11, 6, 0, 0, 25, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    [
        "1383696025.5",
        "2013-11-06T00:00:25.5Z",
        "2013-11-06 00:00:25.500",
        "2013-11-06T01:00:25.5+01:00",
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_time_may_be_seconds_or_iso_in_utc(file: Callable[..., Path], far_away: None, written: str, suffix: str) -> None:
    number = float(written) if written[4] != "-" else written
    text = f"user,item,time\n1,2,{written}\n" if suffix == ".csv" else json.dumps({"user": 1, "item": 2, "time": number})
    assert read_stream(file(text, f"events{suffix}")).events[0].time == MOMENT.timestamp()


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Vienna"])
def test_a_time_may_be_a_timestamp(arrow: Callable[..., Path], unit: str, zone: str | None) -> None:
    moments = pa.array([MOMENT if zone else MOMENT.replace(tzinfo=None)], pa.timestamp(unit, zone))
    stream = read_stream(arrow({"user": ["u"], "item": ["i"], "time": moments}))
    assert stream.events[0].time == MOMENT.timestamp()


def test_a_time_may_be_a_date(file: Callable[..., Path], arrow: Callable[..., Path]) -> None:
    day = datetime(2013, 11, 6, tzinfo=UTC)
    for path in (
        file("user,item,time\n1,2,2013-11-06\n"),
        file('{"user": "1", "item": "2", "time": "2013-11-06"}', "events.jsonl"),
        arrow({"user": ["1"], "item": ["2"], "time": pa.array([day.date()])}),
    ):
        assert read_stream(path).events[0].time == day.timestamp()


def test_iso_times_in_mixed_forms_are_sorted_by_what_they_mean(file: Callable[..., Path]) -> None:
    stream = read_stream(
        file("user,item,time\n1,late,2020-01-01T12:00:00Z\n1,early,2020-01-01T12:00:00+02:00\n1,first,2020-01-01\n")
    )
    assert [event.item for event in stream.events] == ["first", "early", "late"]


def test_a_time_that_is_none_is_named(file: Callable[..., Path]) -> None:
    message = refused(file("user,item,time\n1,2,2020-01-01\n1,3,yesterday\n"))
    assert "events.csv, row 3: time must be" in message
    assert "'yesterday'" in message
    assert "row 3: time must be a time, because other rows have one, got None" in refused(
        file("user,item,time\n1,2,5\n1,3,\n")
    )
    assert "row 1: time must be" in refused(file('{"user":1,"item":2,"time":true}', "events.jsonl"))


def test_one_bad_time_among_seconds_is_the_one_that_is_named(file: Callable[..., Path]) -> None:
    rows = "".join(f"1,{n},{1_700_000_000 + n}\n" for n in range(50))
    message = refused(file(f"user,item,time\n{rows}1,x,yesterday\n"))
    assert "row 52: time must be seconds since 1970 or a date and time in ISO 8601, got 'yesterday'" in message
    stream = read_stream(file(f"user,item,time\n{rows}1,first,2020-01-01T00:00:00Z\n"))
    assert [stream.events[0].item, stream.events[-1].time] == ["first", 1_700_000_049.0]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize(("per_second", "unit"), [(10**3, "milli"), (10**6, "micro"), (10**9, "nano")])
def test_times_that_no_second_can_be_are_taken_for_something_shorter(
    file: Callable[..., Path], suffix: str, per_second: int, unit: str
) -> None:
    moment = 1_700_000_000 * per_second
    text = f"user,item,time\n1,2,{moment}\n" if suffix == ".csv" else f'{{"user": 1, "item": 2, "time": {moment}}}'
    message = refused(file(text, f"events{suffix}"))
    assert "time must be seconds since 1970, from the years 1900 to 2200, got" in message
    assert f"if it counts {unit}seconds, divide it by {per_second}" in message
    assert str(moment) in message


# Ids


def test_ids_keep_their_leading_zeros_and_whole_numbers_become_strings(
    file: Callable[..., Path], arrow: Callable[..., Path]
) -> None:
    stream = read_stream(file("user,item\n007,1.0\nNA,2020-01-01\n"))
    assert [(event.user, event.item) for event in stream.events] == [("007", "1.0"), ("NA", "2020-01-01")]
    for path in (
        arrow({"user": pa.array([7], pa.uint64()), "item": pa.array(["a"]).dictionary_encode()}),
        file('{"user": 7, "item": "a"}', "events.jsonl"),
    ):
        assert [(event.user, event.item) for event in read_stream(path).events] == [("7", "a")]


@pytest.mark.parametrize(
    ("value", "remedy"),
    [("1.0", "convert"), ("true", "convert"), ("null", "fill it in"), ('""', "fill it in"), ('["a"]', "convert")],
)
def test_an_id_of_another_kind_is_named(file: Callable[..., Path], value: str, remedy: str) -> None:
    message = refused(file(f'{{"user": "u", "item": "a"}}\n{{"user": {value}, "item": "b"}}', "events.jsonl"))
    assert "events.jsonl, row 2: user must be the user's id, a string or a whole number, got" in message
    assert remedy in message


def test_float_ids_are_refused(arrow: Callable[..., Path]) -> None:
    assert "row 1: item must be the item's id" in refused(arrow({"user": ["u"], "item": [3.0]}))


def test_an_empty_id_in_csv_is_missing(file: Callable[..., Path]) -> None:
    message = refused(file("user,item\n1,2\n,3\n"))
    assert "row 3: user must be the user's id, a string or a whole number, got None; fill it in" in message


# Columns


def test_columns_can_have_other_names(file: Callable[..., Path]) -> None:
    columns = {"user": "customer", "item": "product", "time": "at"}
    events = file("customer,product,at,item\nc,p,5,x\n")
    users = file("customer,age\nc,30\nd,31\n", "users.csv")
    items = file("id,price\np,2.5\n", "items.csv")
    stream = read_stream(events, users, items, columns=columns)
    assert stream.events == [Event("c", "p", 5.0, {"item": "x"})]
    assert stream.users == {"c": {"age": 30}, "d": {"age": 31}}
    assert stream.items == {"p": {"price": 2.5}}


def test_a_table_may_name_its_ids_by_their_role(file: Callable[..., Path]) -> None:
    events, users = file("uid,item\nc,p\n"), file("user,id\nc,9\n", "users.csv")
    assert read_stream(events, users, columns={"user": "uid"}).users == {"c": {"id": "9"}}


def test_a_missing_column_is_named_with_those_there_are(file: Callable[..., Path]) -> None:
    message = refused(file("u,item\n1,2\n"))
    assert "events.csv: no column 'user', it has u, item; say which one is the user with columns={'user': …}" in message
    assert "cannot be renamed" in refused(file("user,item\n1,2\n"), columns={"genre": "genres"})


def test_what_is_ignored_is_not_even_looked_at(arrow: Callable[..., Path], file: Callable[..., Path]) -> None:
    path = arrow({"user": ["u"], "item": ["i"], "where": [{"lat": 1.0}], "x": [1]})
    assert "where must be a string, a number, true/false or a list of strings, got {'lat': 1.0}" in refused(path)
    assert context(path, ignore={"where"}) == [{"x": 1}]
    assert context(file("user,item,a,b\n1,2,3,4\n"), ignore={"a"}) == [{"b": 4}]
    assert context(file('{"user":1,"item":2,"a":{"b":1}}', "events.jsonl"), ignore={"a"}) == [{}]


def test_a_column_that_no_file_has_cannot_be_ignored(file: Callable[..., Path]) -> None:
    events, items = file("user,item,a\n1,2,3\n"), file("item,b\n2,x\n", "items.csv")
    for name in ("a", "b"):
        read_stream(events, items=items, ignore=[name])
    message = refused(events, items=items, ignore=["a", "pirce"])
    assert message == "ignore: no file has a column 'pirce'; name one of a, b, item, user"


def test_what_is_missing_is_left_out(file: Callable[..., Path]) -> None:
    text = 'user,item,price,device,member\n1,2,NaN,,true\n1,3,2.5,"NA",\n1,4,,phone,\n'
    assert context(file(text)) == [{"member": True}, {"price": 2.5, "device": "NA"}, {"device": "phone"}]
    lines = '{"user":1,"item":2,"price":NaN,"tags":["a",null]}\n{"user":1,"item":3,"tags":[]}\n'
    assert context(file(lines, "events.jsonl")) == [{"tags": ["a"]}, {"tags": []}]
    mixed = '{"user":1,"item":2,"x":NaN}\n{"user":1,"item":3,"x":["a"]}\n'
    assert context(file(mixed, "events.jsonl")) == [{}, {"x": ["a"]}]


def test_text_is_split_only_where_told(file: Callable[..., Path]) -> None:
    text = "user,item,genre,title\n1,2,a||b|,x|y\n1,3,7,z\n1,4,,w\n"
    assert context(file(text), lists={"genre"}) == [
        {"genre": ["a", "b"], "title": "x|y"},
        {"genre": ["7"], "title": "z"},
        {"title": "w"},
    ]
    assert [record.get("genre") for record in context(file(text))] == ["a||b|", "7", None]
    assert context(file('{"user":1,"item":2,"genre":"a|b"}', "events.jsonl"), lists={"genre"}) == [{"genre": ["a", "b"]}]


def test_dates_times_and_decimals_become_numbers(arrow: Callable[..., Path]) -> None:
    columns = {
        "day": pa.array([date(1970, 1, 3)]),
        "moment": pa.array([datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))], pa.timestamp("us", "UTC")),
        "clock": pa.array([time(0, 1, 0, 500_000)]),
        "seconds": pa.array([time(0, 1)], pa.time32("s")),
        "spell": pa.array([timedelta(minutes=2)]),
        "price": pa.array([Decimal("2.50")]),
        "half": pa.array([1.5], pa.float16()),
        "nothing": pa.nulls(1),
    }
    assert context(arrow({"user": ["u"], "item": ["i"]} | columns)) == [
        {"day": 2 * 86400, "moment": 0.0, "clock": 60.5, "seconds": 60.0, "spell": 120.0, "price": 2.5, "half": 1.5}
    ]


def test_the_index_that_pandas_writes_is_no_column(file: Callable[..., Path], arrow: Callable[..., Path]) -> None:
    assert context(file(b"\xef\xbb\xbf,user,item\n0,1,2\n")) == [{}]
    assert context(arrow({"user": ["u"], "item": ["i"], "__index_level_0__": [0]})) == [{}]


def test_a_value_no_field_can_be_made_of_is_named(file: Callable[..., Path], arrow: Callable[..., Path]) -> None:
    assert "row 3: price must be a finite number, got inf" in refused(file("user,item,price\n1,2,1.5\n1,3,inf\n"))
    assert "row 1: tags must be" in refused(arrow({"user": ["u"], "item": ["i"], "tags": [[0.5]]}))
    assert "row 2: not in UTF-8" in refused(file(b"user,item,name\n1,2,\xff\n"))
    huge = "1" + "0" * 400
    assert "row 1: n must be a finite number" in refused(file(f'{{"user":1,"item":2,"n":{huge}}}', "events.jsonl"))


MANY = 150_000
"""So many rows are more than the megabyte that Arrow reads at once."""


def test_types_follow_the_whole_file(file: Callable[..., Path]) -> None:
    stream = read_stream(file("user,item,x,y\n" + "1,2,3,4\n" * MANY + "1,2,high,4.5\n"))
    assert {type(event.context["x"]) for event in stream.events} == {str}
    assert {type(event.context["y"]) for event in stream.events} == {float}


def test_a_line_may_break_within_quotes_anywhere(file: Callable[..., Path]) -> None:
    verse = "\n" * 100
    stream = read_stream(file("user,item,x\n" + f'1,2,"{verse}"\n' * (MANY // 10)))
    assert [event.context["x"] for event in stream.events].count(verse) == MANY // 10


def test_rows_are_counted_as_an_editor_counts_them(file: Callable[..., Path]) -> None:
    text = 'user,item,x\n1,2,"a\nb\nc"\n\n1,3,"say ""so"", or\nnot"\n1,,c\n'
    assert "row 8: item must be" in refused(file(text))


# Filter


def test_only_events_rated_high_enough_are_kept(file: Callable[..., Path]) -> None:
    stream = read_stream(file("user,item,rating,device\n1,a,3.5,x\n1,b,4,y\n1,c,,z\n1,d,5,w\n"), at_least=("rating", 4))
    assert [(event.item, event.context) for event in stream.events] == [("b", {"device": "y"}), ("d", {"device": "w"})]


def test_a_filtered_file_still_counts_its_own_rows(file: Callable[..., Path]) -> None:
    assert "row 4: user must be" in refused(file("user,item,r\n1,a,1\n1,b,5\n,c,5\n"), at_least=("r", 5))


def test_a_filter_needs_a_column_of_numbers(file: Callable[..., Path]) -> None:
    path = file("user,item,rating\n1,a,4\n1,b,good\n")
    assert "row 2: rating must be a number, to be filtered by, got '4'" in refused(path, at_least=("rating", 4))
    assert "no column 'stars'" in refused(path, at_least=("stars", 4))


def test_a_file_without_events_is_refused(file: Callable[..., Path]) -> None:
    assert "there are no events" in refused(file("user,item\n"))
    assert "there are no events" in refused(file("user,item,r\n1,a,1\n"), at_least=("r", 5))


# Tables of users and items


def test_an_id_in_two_rows_is_refused(file: Callable[..., Path]) -> None:
    events, items = file("user,item\n1,a\n"), file("item,price\na,1\nb,2\na,3\n", "items.csv")
    message = refused(events, None, items)
    assert "items.csv, row 4: item must be in one row only, got 'a'; keep one row per item" in message


def test_a_table_about_nobody_in_the_events_is_refused(file: Callable[..., Path]) -> None:
    events, users = file("user,item\n007,a\n"), file('{"user": 7, "age": 3}', "users.jsonl")
    message = refused(events, users)
    assert "users.jsonl: user must be ids of the events such as '007', got only others such as '7'" in message


def test_a_table_needs_ids(file: Callable[..., Path]) -> None:
    assert "users.csv: no column 'user', it has name" in refused(file("user,item\n1,a\n"), file("name\nx\n", "users.csv"))


# Repeats


def test_repeats_are_decided_by_more_than_five_in_a_hundred() -> None:
    fresh = [Event("u", str(n)) for n in range(95)]
    again = [Event("u", "0")] * 5
    assert not choose_again(fresh + again)
    assert choose_again(fresh[:94] + again + again[:1])
    assert not choose_again([Event(str(n), "a") for n in range(20)])


def test_repeats_can_be_told(file: Callable[..., Path]) -> None:
    path = file("user,item\n1,a\n1,a\n")
    assert read_stream(path).repeats
    assert not read_stream(path, repeats=False).repeats
    assert read_stream(file("user,item\n1,a\n1,b\n"), repeats=True, name="mine").repeats
    assert (read_stream(path).name, read_stream(path, name="mine").name) == ("events", "mine")


# Files that are none


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.txt", b"", "unknown kind of file '.txt'; known are .csv, .tsv, .parquet, .jsonl, .ndjson"),
        ("a.csv", b"", "cannot be read (Empty CSV file)"),
        ("a.csv", b"user,item\n1,2\n1\n", "cannot be read (CSV parse error: Row #3: Expected 2 columns, got 1: 1)"),
        ("a.csv", b"user,user,item\n1,2,3\n", "column 'user' is there 2 times"),
        ("a.csv", b"user,item\n\xff,2\n", "row 2: not in UTF-8, got the byte 0xff; say how it is encoded"),
        ("a.parquet", b"PAR1 not really PAR1", "cannot be read"),
        ("a.jsonl", b'{"user": 1, "item": 2}\n\n{"user":\n', "a.jsonl, row 3: not valid JSON"),
        ("a.jsonl", b"[1, 2]\n", "row 1: must be an object, got [1, 2]"),
        ("a.jsonl", b'{"user": "\\ud800", "item": 2}', "row 1: not valid JSON"),
        ("a.jsonl", b"[" * 100_000, "row 1: not valid JSON"),
        ("a.jsonl", b"\xff", "row 1: not in UTF-8, got the byte 0xff; say how it is encoded"),
        ("a.jsonl", b"", "no column 'user', it has none"),
    ],
)
def test_a_broken_file_is_one_clear_error(file: Callable[..., Path], name: str, data: bytes, said: str) -> None:
    path = file(data, name)
    message = refused(path)
    assert said in message
    assert str(path) in message


@pytest.mark.parametrize("ignore", [[], ["user"]])
def test_two_columns_of_one_name_in_parquet_are_refused(tmp_path: Path, ignore: list[str]) -> None:
    path = tmp_path / "events.parquet"
    parquet.write_table(pa.Table.from_arrays([pa.array(["a"])] * 4, ["user", "item", "genre", "genre"]), path)
    with pytest.raises(InvalidInput, match="column 'genre' is there 2 times; rename or remove all but one"):
        read_stream(path, ignore=ignore)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path / 'no.csv'}: no such file" in refused(tmp_path / "no.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "no such file" in refused(tmp_path / "folder.csv")


def test_a_byte_order_mark_is_no_part_of_the_file(file: Callable[..., Path]) -> None:
    assert len(read_stream(file(b'\xef\xbb\xbf{"user": 1, "item": 2}', "events.jsonl")).events) == 1


def test_suffixes_may_be_capitals(file: Callable[..., Path]) -> None:
    assert len(read_stream(str(file("user\titem\n1\t2\n", "EVENTS.TSV"))).events) == 1


def test_a_column_has_the_kind_of_events_where_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item,kind,action\nu1,i1,a,view\nu2,i2,b,\n")
    plain = read_stream(path).events
    assert [(event.kind, dict(event.context)) for event in plain] == [
        (None, {"kind": "a", "action": "view"}),
        (None, {"kind": "b"}),
    ]
    told = read_stream(path, columns={"kind": "action"}).events
    assert [(event.kind, dict(event.context)) for event in told] == [("view", {"kind": "a"}), (None, {"kind": "b"})]
    with pytest.raises(InvalidInput, match="no column 'what'"):
        read_stream(path, columns={"kind": "what"})
