"""Files into a service, and out of it again."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

sys.path.append(str(Path(__file__).parents[1] / "service"))
from api import SCHEMA, Api

from coldstream.cli import main
from coldstream.cli.service_client import ServiceClient
from coldstream.errors import InvalidInput

EVENTS = """user,item,time,kind,device
u1,i1,100,view,phone
u2,i2,90,purchase,
u1,i2,110,,desk
u3,i3,120,click,phone
"""
ITEMS = """id,genre,price,hidden
i1,a|b,3.5,
i2,b,,true
i3,,2,
"""


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    served = Api(tmp_path, schema=SCHEMA + "[feedback]\nview = 0.2\npurchase = 1\n").start()

    def send(client: ServiceClient, path: str, body: bytes) -> tuple[int, Any]:
        answer = served.call("POST", path, raw=body, headers={"content-type": "application/x-ndjson"})
        return answer.status, answer.json

    monkeypatch.setattr(ServiceClient, "send", send)
    yield served
    served.stop()


def test_there_and_back_again(api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "events.csv").write_text(EVENTS)
    (tmp_path / "items.csv").write_text(ITEMS)
    given = ["import", "--events", str(tmp_path / "events.csv"), "--items", str(tmp_path / "items.csv"), "--list", "genre"]
    assert main(given) == 1  # a line was refused
    said = capsys.readouterr()
    assert "items.csv: 3 taken, 0 were there, 0 refused" in said.out
    assert "events.csv: 3 taken, 0 were there, 1 refused" in said.out
    assert "events.csv, record 4: kind must be one that the schema declares" in said.err
    assert api.call("GET", "/items/i2").json == {"id": "i2", "attributes": {"genre": ["b"]}, "hidden": True}
    events = api.service.recommender.events
    assert main(given) == 1
    assert "0 taken, 3 were there, 1 refused" in capsys.readouterr().out
    assert api.service.recommender.events == events == 3

    made = {name: tmp_path / f"{name}.parquet" for name in ("events", "items", "users")}
    wanted = [part for name, path in made.items() for part in (f"--{name}", str(path))]
    assert main(["export", "--data", str(tmp_path / "data"), *wanted]) == 0
    rows = {name: pq.read_table(path).to_pylist() for name, path in made.items()}
    assert [(one["user"], one["item"], one["time"], one["kind"], one["device"]) for one in rows["events"]] == [
        ("u2", "i2", 90.0, "purchase", None),
        ("u1", "i1", 100.0, "view", "phone"),
        ("u1", "i2", 110.0, None, "desk"),
    ]
    assert {one["item"]: (one["genre"], one["price"], one["hidden"]) for one in rows["items"]} == {
        "i1": (["a", "b"], 3.5, None),
        "i2": (["b"], None, True),
        "i3": (None, 2.0, None),
    }
    assert [one["user"] for one in rows["users"]] == ["u2", "u1"]
    assert main(["import", *wanted]) == 0
    assert "0 taken, 3 were there, 0 refused" in capsys.readouterr().out

    asked = {"user": "u1", "n": 2, "remember": True, "exclude_seen": False}
    name = api.call("POST", "/recommend", asked).json["recommendation_id"]
    api.call("POST", "/events", {"user": "u1", "item": "i3", "recommendation_id": name})
    api.call("GET", "/evaluation")
    shown = tmp_path / "shown.parquet"
    assert main(["export", "--data", str(tmp_path / "data"), "--shown", str(shown)]) == 0
    row, other = pq.read_table(shown).to_pylist()
    assert (row["recommendation_id"], row["user"], row["position"], other["position"]) == (name, "u1", 1, 2)
    assert {row["item"]: row["taken"], other["item"]: other["taken"]} == {"i1": False, "i3": True}

    lines = tmp_path / "events.jsonl"
    assert main(["export", "--data", str(tmp_path / "data"), "--events", str(lines)]) == 0
    assert json.loads(lines.read_text().splitlines()[0])["item"] == "i2"


def test_what_cannot_be_done_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import"]) == 2
    assert "give at least one of --events, --items and --users" in capsys.readouterr().err
    assert main(["export", "--data", str(tmp_path), "--items", str(tmp_path / "items.xls")]) == 2
    assert "unknown kind of file '.xls'; known are .parquet, .jsonl" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="--url must be that of a service"):
        ServiceClient("localhost:8000", None)


def test_a_store_that_no_service_runs_on_is_written_to_directly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA + "[feedback]\nview = 0.2\npurchase = 1\n")
    (tmp_path / "events.csv").write_text(EVENTS)
    (tmp_path / "items.csv").write_text(ITEMS)
    files = ["--events", str(tmp_path / "events.csv"), "--items", str(tmp_path / "items.csv"), "--list", "genre"]
    given = ["import", "--data", str(tmp_path / "data"), "--schema", str(tmp_path / "schema.toml"), *files]
    assert main(given) == 1
    assert "events.csv: 3 taken, 0 were there, 1 refused" in capsys.readouterr().out
    assert main(given) == 1
    assert "events.csv: 0 taken, 3 were there, 1 refused" in capsys.readouterr().out
    assert main(["verify", "--data", str(tmp_path / "data")]) == 0
    api = Api(tmp_path, schema=SCHEMA + "[feedback]\nview = 0.2\npurchase = 1\n", learning={"factors": 40, "negatives": 100})
    try:
        assert api.start().service.recommender.events == 3
        assert main(given) == 2  # a service runs on it
        assert "is in use by process" in capsys.readouterr().err
    finally:
        api.stop()


def test_a_file_that_does_not_tell_how_it_is_written_is_read_as_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (events := tmp_path / "events.csv").write_bytes("user;item,no\nJürgen;Käse\n".encode("cp1252"))
    given = ["import", "--data", str(tmp_path / "data"), "--schema", str(tmp_path / "schema.toml"), "--events", str(events)]
    for option, remedy in ((["--encoding", "cp1252"], "--separator ';'"), (["--separator", ";"], "--encoding cp1252")):
        assert main([*given, *option, "--column", "item=item,no"]) == 2
        assert remedy in capsys.readouterr().err
    assert main([*given, "--separator", ";", "--encoding", "cp1252", "--column", "item=item,no"]) == 0
    assert "events.csv: 1 taken" in capsys.readouterr().out


def test_where_files_are_to_go_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = ["import", "--events", str(tmp_path / "events.csv")]
    for given, said in (
        (["--url", "http://h", "--data", "d"], "give one of --url, --data and --store"),
        (["--schema", "s.toml"], "--schema is for a store"),
        (["--data", "d", "--store", "postgresql://h/d"], "give one of --url, --data and --store"),
        (["--data", str(tmp_path / "d")], "no such file"),
    ):
        assert main([*events, *given]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "d").exists()
