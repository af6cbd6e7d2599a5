"""CSV as the world writes it: separators, encodings, decimal commas; and what to say where it cannot be told."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from coldstream.cli import main
from coldstream.errors import InvalidInput, MisreadFile
from coldstream.events.event import Event
from coldstream.events.readers import read_stream

ROWS = [["user", "item", "time", "place"], ["1", "a", "5", "Köln, Süd"], ["2", "b", "6", "é;x"]]
EXPECTED = [Event("1", "a", 5.0, {"place": "Köln, Süd"}), Event("2", "b", 6.0, {"place": "é;x"})]


def written(path: Path, separator: str, encoding: str, rows: list[list[str]] = ROWS) -> Path:
    lines = [separator.join(f'"{cell}"' if set(cell) & set(",;\t|") else cell for cell in row) for row in rows]
    path.write_bytes(("\r\n".join(lines) + "\r\n").encode(encoding))
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separators_and_marked_encodings_are_found_out(tmp_path: Path, separator: str, suffix: str, encoding: str) -> None:
    assert read_stream(written(tmp_path / f"events{suffix}", separator, encoding)).events == EXPECTED


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16-le", "mac-roman"])
def test_other_encodings_are_said(tmp_path: Path, encoding: str) -> None:
    path = written(tmp_path / "events.csv", ";", encoding)
    assert read_stream(path, encoding=encoding).events == EXPECTED


def test_json_lines_may_have_another_encoding_too(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes('{"user": "1", "item": "Süd"}'.encode("cp1252"))
    assert read_stream(path, encoding="cp1252").events == [Event("1", "Süd")]
    with pytest.raises(InvalidInput, match=r"row 1: not in UTF-8, got the byte 0xfc; .* with encoding='cp1252'"):
        read_stream(path)


def test_a_separator_within_names_does_not_confuse(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text('user;item;"a, b, c, d"\n1;x;3\n')
    assert read_stream(path).events == [Event("1", "x", None, {"a, b, c, d": 3})]


def test_decimal_commas_are_numbers_where_no_comma_separates(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user;item;price;note;code\n1;1,5;3,50;1,2;7\n2;2;-4;x;8\n3;2;;;9\n")
    assert [dict(event.context) for event in read_stream(path).events] == [
        {"price": 3.5, "note": "1,2", "code": 7},
        {"price": -4.0, "note": "x", "code": 8},
        {"code": 9},
    ]
    assert read_stream(path).events[0].item == "1,5"


def refused(path: Path, **options: Any) -> MisreadFile:
    with pytest.raises(MisreadFile) as raised:
        read_stream(path, **options)
    return raised.value


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["evaluate", "--methods", "popularity", *map(str, arguments)]) == 2
    return capsys.readouterr().err.strip()


def test_what_is_not_utf8_is_named_with_its_row_and_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for where in (1, 2, 3):
        rows = [["user", "item", "place"], ["1", "a", "x"], ["2", "b", "y"]]
        rows[where - 1][2] += "ü"
        path = written(tmp_path / f"events{where}.csv", ",", "cp1252", rows)
        problem = f"events{where}.csv, row {where}: not in UTF-8, got the byte 0xfc; say how it is encoded"
        assert problem in str(refused(path))
        assert str(refused(path)).endswith("with encoding='cp1252'")
        line = said(capsys, "--events", path)
        assert problem in line
        assert line.endswith("with --encoding cp1252")


def test_a_wrong_separator_gets_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user;item;price, EUR\n1;a;3, 5\n")
    problem = "no column 'user', it has user;item;price,  EUR; if ';' separates the columns, say so"
    assert str(refused(path)).endswith(f"{problem} with separator=';'")
    assert said(capsys, "--events", path).endswith(f"{problem} with --separator ';'")
    assert read_stream(path, separator=";").events == [Event("1", "a", None, {"price, EUR": "3, 5"})]
    assert "if ',' separates" in str(refused(written(tmp_path / "comma.csv", ",", "utf-8"), separator=";"))


@pytest.mark.parametrize("role", ["user", "item", "time"])
def test_a_missing_column_is_asked_for_in_the_callers_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item,time\n1,a,5\n".replace(role, "x"))
    columns = {"time": "t"} if role == "time" else {}
    assert str(refused(path, columns=columns)).endswith(f"say which one is the {role} with columns={{{role!r}: …}}")
    flags = ("--column", "time=t") if role == "time" else ()
    line = said(capsys, "--events", path, *flags)
    assert line.endswith(f"say which one is the {role} with --column {role}=NAME")
    assert "columns=" not in line


def test_the_error_comes_through_another_process(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("a,b\n1,2\n")
    error = refused(path)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.argument, again.value) == (str(error), "columns", "user")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ";;"}, "separator must be one character, or the word tab, got ';;'"),
        ({"separator": ""}, "separator must be one character, or the word tab, got ''"),
        ({"separator": '"'}, "separator must be one character"),
        ({"separator": 3}, "separator must be one character, or the word tab, got 3"),
        ({"encoding": "klingon"}, "encoding must be one that Python knows, got 'klingon'"),
        ({"encoding": 8}, "encoding must be one that Python knows, got 8"),
    ],
)
def test_odd_dialects_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_stream(written(tmp_path / "events.csv", ",", "utf-8"), **options)


def test_tab_may_be_written_as_a_word(tmp_path: Path) -> None:
    path = written(tmp_path / "events.csv", "\t", "utf-8")
    assert read_stream(path, separator="tab").events == EXPECTED


def test_a_column_that_is_not_read_may_be_anything(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(b"user,item,photo\n1,2,\xff\n")
    assert read_stream(path, ignore=["photo"]).events == [Event("1", "2")]
