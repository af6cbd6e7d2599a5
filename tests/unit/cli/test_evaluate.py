"""What `coldstream evaluate` says and writes."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from coldstream.baselines import pair_counts, square
from coldstream.cli import main


@pytest.fixture
def events(tmp_path: Path) -> Path:
    rows = "".join(f"u{n % 7},i{n * n % 13},{1_700_000_000 + n}\n" for n in range(200))
    (tmp_path / "events.csv").write_text("user,item,time\n" + rows)
    return tmp_path / "events.csv"


def test_a_method_that_fails_on_its_way_is_marked_and_the_others_are_written(
    events: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pair_counts, "MOST_PLACES", 20)
    out = {kind: events.parent / f"out.{kind}" for kind in ("json", "html", "parquet")}
    files = ("--json", str(out["json"]), "--report", str(out["html"]), "--ranks", str(out["parquet"]))
    methods = ("--methods", "popularity,item-knn,markov", "--seeds", "2", "--jobs", "1")
    assert main(["evaluate", "--events", str(events), *methods, *files]) == 1
    shown = capsys.readouterr().out
    assert "item-knn (failed)" in shown
    assert "takes 20 at most" in shown
    assert "popularity − markov" in shown or "markov − popularity" in shown
    rows = json.loads(out["json"].read_text())
    assert [(row["method"], row["seed"], "error" in row) for row in rows] == [
        *(("popularity", 0, False), ("popularity", 1, False), ("markov", 0, False), ("markov", 1, False)),
        *(("item-knn", 0, True), ("item-knn", 1, True)),
    ]
    assert "takes 20 at most" in rows[-1]["error"]
    assert pq.read_metadata(out["parquet"]).num_rows == 4 * 140
    page = out["html"].read_text()
    assert "item-knn (failed)" in page
    assert "takes 20 at most" in page


def test_where_all_fail_there_is_only_why(
    events: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pair_counts, "MOST_PLACES", 20)
    assert main(["evaluate", "--events", str(events), "--methods", "item-knn", "--jobs", "1"]) == 2
    assert "item-knn: item-knn keeps a count" in capsys.readouterr().err


def test_what_can_be_known_is_refused_before_anything_runs(
    events: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(square, "MOST_ITEMS", 3)
    monkeypatch.setattr("coldstream.cli.evaluate.attempt_all", None)
    assert main(["evaluate", "--events", str(events), "--methods", "popularity,ease"]) == 2
    assert "ease keeps a number for every pair of items and takes 3 items at most" in capsys.readouterr().err


def test_outcomes_among_the_columns_are_pointed_out_with_the_flag_that_leaves_them_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(2)
    rows, prices = [], [round(7.3 + 1.37 * n, 2) for n in range(30)]
    for n in range(900):
        item, quantity = int(rng.integers(30)), int(rng.integers(1, 4))
        rows.append(
            f"u{rng.integers(50)},i{item},{1.7e9 + n:.0f},{prices[item]},{quantity},{prices[item] * quantity:.2f},web"
        )
    (tmp_path / "sales.csv").write_text("user,item,time,unit_price,quantity,revenue,channel\n" + "\n".join(rows) + "\n")
    page = tmp_path / "report.html"
    files = ("--events", str(tmp_path / "sales.csv"), "--report", str(page), "--jobs", "1")
    assert main(["evaluate", *files, "--methods", "linear:neighbours=0,popularity"]) == 0
    shown = capsys.readouterr()
    alarms = [line for line in shown.err.splitlines() if line.startswith("beware:")]
    assert [line.split("'")[1] for line in alarms] == ["unit_price", "revenue"]
    assert [line.rpartition(" with ")[2] for line in alarms] == ["--ignore unit_price", "--ignore revenue"]
    for text in (shown.out, page.read_text()):
        for name in ("unit_price", "quantity", "revenue", "channel", "weekday"):
            assert name in text
        assert "of the events" in text
        assert "nearly tells the item" in text
    assert page.read_text().count("Beware:") == 2

    assert (
        main(["evaluate", *files, "--methods", "linear:neighbours=0", "--ignore", "unit_price", "--ignore", "revenue"]) == 0
    )
    assert "beware" not in capsys.readouterr().err
    assert "Beware" not in page.read_text()
    assert main(["evaluate", *files, "--methods", "popularity"]) == 0  # which is told nothing that could give it away
    shown = capsys.readouterr()
    assert "beware" not in shown.err
    assert "fields in use: none but ids" in shown.out


def test_a_forgotten_time_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], events: Path) -> None:
    text = events.read_text().replace("user,item,time", "user,item,created_at")
    (tmp_path / "untimed.csv").write_text(text)
    arguments = ["evaluate", "--events", str(tmp_path / "untimed.csv"), "--methods", "popularity"]
    assert main(arguments) == 0
    err = capsys.readouterr().err
    assert "note: no column 'time': the events are taken in the order of their file" in err
    assert "'created_at'" in err
    assert "--column time=NAME" in err
    assert main([*arguments, "--column", "time=created_at"]) == 0
    assert "in the order of their file" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--column", "when=time"), "--column must be user=NAME, item=NAME, time=NAME, kind=NAME, got 'when=time'"),
        (("--methods", "item-knn:k=3"), "method item-knn: it has no option 'k'; known are shrinkage, recency"),
        (("--methods", "popularity:x=3"), "method popularity: it has no option 'x'; known are none"),
        (
            ("--methods", "recent-popularity:x=3"),
            "method recent-popularity: it has no option 'x'; known are half_life, window",
        ),
        (("--methods", "coldstream:foo=3"), "method coldstream: "),
        (("--separator", ";;"), "separator must be one character"),
    ],
)
def test_mistakes_are_answered_in_the_words_of_the_command_line(
    events: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], error: str
) -> None:
    assert main(["evaluate", "--events", str(events), *arguments]) == 2
    assert error in capsys.readouterr().err


SHOP = """
[item]
id = { kind = "id" }
[feedback]
view = 0.2
purchase = 1
dislike = -1
"""


@pytest.mark.parametrize(("target", "tested"), [((), 47), (("--target", "view"), 47), (("--target", "purchase"), 47)])
def test_a_kind_is_a_target(events: Path, target: tuple[str, ...], tested: int, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split(",") for line in events.read_text().splitlines()[1:]]
    kinds = ("view", "purchase", "dislike")
    lines = [",".join((*row, kinds[n % 3])) for n, row in enumerate(rows)]
    events.write_text("user,item,time,what\n" + "\n".join(lines) + "\n")
    (events.parent / "schema.toml").write_text(SHOP)
    given = ["evaluate", "--events", str(events), "--schema", str(events.parent / "schema.toml"), "--column", "kind=what"]
    ranks = events.parent / "ranks.parquet"
    assert main([*given, *target, "--methods", "popularity,imf", "--jobs", "1", "--ranks", str(ranks)]) == 0
    assert f"{tested} tested" in capsys.readouterr().out
    places = pq.read_table(ranks).to_pydict()["event"]
    wanted = target[1] if target else "purchase"
    assert {kinds[place % 3] for place in places} == {wanted}


def test_a_schema_with_kinds_wants_their_column(events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (events.parent / "schema.toml").write_text(SHOP)
    assert main(["evaluate", "--events", str(events), "--schema", str(events.parent / "schema.toml")]) == 2
    assert "no column 'kind'" in capsys.readouterr().err
