"""Files into a service, and out of it again."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pyarrow.parquet as pq
import pytest

sys.path.append(str(Path(__file__).parents[1] / "service"))
from api import SCHEMA, Api

import coldstream.client.client as client_module
from coldstream.cli import main, running_service
from coldstream.cli.running_service import RunningService
from coldstream.errors import Unavailable

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

    def answer(_: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        answer = served.call(request.method, path, raw=request.read(), headers=dict(request.headers))
        return httpx.Response(answer.status, headers=answer.headers, content=answer.body)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
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
    assert "events.csv, row 5: kind must be one that the schema declares" in said.err
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
    (tmp_path / "events.csv").write_text(EVENTS)
    assert main(["import", "--events", str(tmp_path / "events.csv"), "--url", "localhost:8000"]) == 2
    assert "url must be the address of a service, got 'localhost:8000'" in capsys.readouterr().err


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


# Imported again


def imported(capsys: pytest.CaptureFixture[str], path: Path, text: str, *more: str, what: str = "events") -> tuple[str, str]:
    """What is said of a file, which is written anew."""
    path.write_text(text)
    main(["import", f"--{what}", str(path), *more])
    said = capsys.readouterr()
    return said.out.removeprefix(f"{path}: ").strip(), said.err


def test_a_second_import_learns_only_what_is_new(api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, long = tmp_path / "events.csv", "x" * 300
    rows = ["m1,i1,100,phone", f"{long},i1,101,phone", "m3,i3,102,tv", "m3,i3,102,tv"]
    said, error = imported(capsys, path, "\n".join(["user,item,time,device", *rows]))
    assert said == "3 taken, 0 were there, 1 refused"
    assert "events.csv, row 3: user" in error
    assert "mend these rows and import the file again; nothing is learned twice" in error

    rows[1] = "m2,i1,101,phone"
    assert imported(capsys, path, "\n".join(["user,item,time,device", *rows])) == ("1 taken, 3 were there, 0 refused", "")
    # Other rows before and behind, a third that says the same, and a column that is no longer one of numbers
    rows = ["m9,i1,99,7", *rows, "m3,i3,102,tv", "m1,i1,103,"]
    assert imported(capsys, path, "\n".join(["user,item,time,device", *rows]))[0] == "3 taken, 4 were there, 0 refused"
    other = tmp_path / "other.csv"
    assert imported(capsys, other, "item,time,user,device\ni1,99.0,m9,7\n")[0] == "0 taken, 1 were there, 0 refused"


def test_rows_that_claim_the_id_of_a_message_of_a_broker_are_refused(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "user,item,time,event_id\nc1,i1,100,nats:SHOP:1\nc2,i1,101,own-1\n"
    said, error = imported(capsys, tmp_path / "claims.csv", rows)
    assert said == "1 taken, 0 were there, 1 refused"
    assert "claims.csv, row 2: event_id must not begin with one of nats:, kafka:, outbox:" in error
    assert imported(capsys, tmp_path / "claims.csv", rows, "--ignore", "event_id")[0] == "2 taken, 0 were there, 0 refused"


def test_without_times_mended_rows_are_to_be_imported_alone(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, text = tmp_path / "events.csv", "user,item,kind\nu1,i1,\nu2,i2,no\n"
    said, error = imported(capsys, path, text)
    assert said == "1 taken, 0 were there, 1 refused"
    assert "mend these rows, and import them in a file of their own" in error
    assert imported(capsys, path, text)[0] == "0 taken, 1 were there, 1 refused"
    assert imported(capsys, tmp_path / "other.csv", "user,item\nu1,i1\n")[0] == "1 taken, 0 were there, 0 refused"


# What the schema declares as sets


@pytest.mark.parametrize("place", ["service", "store"])
def test_texts_are_split_where_the_schema_has_sets(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    (tmp_path / "new.toml").write_text(SCHEMA + 'tags = { kind = "set" }\n')
    more = ["--data", str(tmp_path / "new"), "--schema", str(tmp_path / "new.toml")] if place == "store" else []
    if not more:
        request.getfixturevalue("api")
    items = "id,genre,price\nq1,Drama|Sci-Fi,3\nq2,7,4\nq3,,5\n"
    said, error = imported(capsys, tmp_path / "items.csv", items, *more, what="items")
    assert (said, error) == ("3 taken, 0 were there, 0 refused", "")
    if not more:
        assert request.getfixturevalue("api").call("GET", "/items/q1").json["attributes"]["genre"] == ["Drama", "Sci-Fi"]
        return
    tagged = "user,item,time,tags\nu,q1,1,new|used\n"
    assert imported(capsys, tmp_path / "events.csv", tagged, *more[:2])[0] == "1 taken, 0 were there, 0 refused"
    written = tmp_path / "items.jsonl"
    assert main(["export", "--data", str(tmp_path / "new"), "--items", str(written)]) == 0
    genres = {one["item"]: one.get("genre") for one in map(json.loads, written.read_text().splitlines())}
    assert genres == {"q1": ["Drama", "Sci-Fi"], "q2": ["7"], "q3": None}


# What is said


def test_a_bad_column_is_said_once_with_its_remedy(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunningService, "sets", lambda _: {})  # the key may not read the schema
    rows = "".join(f"q{n},a{n}|b,\n" for n in range(30)) + "q30,,cheap\nq31,,dear\n"
    said, error = imported(capsys, tmp_path / "items.csv", "id,genre,price\n\n" + rows, what="items")
    assert said == "0 taken, 0 were there, 32 refused"
    first, second, remedy = error.splitlines()
    assert first.endswith(
        "items.csv, row 3 and 29 more: item 'q0': genre must be a list of strings, got 'a0|b'; "
        "split the column with --list genre"
    )
    assert "items.csv, row 33 and 1 more: item 'q30': price must be" in second
    assert "import the file again" in remedy


def test_a_file_without_rows_is_said(api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path := tmp_path / "events.csv").write_text("user,item,time\n")
    assert main(["import", "--events", str(path)]) == 1
    assert "events.csv: there are no rows in it" in capsys.readouterr().err


def test_a_service_that_never_answered_is_given_up_soon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = list[float]()
    monkeypatch.setattr(running_service, "time", SimpleNamespace(monotonic=lambda: sum(slept)))
    monkeypatch.setattr(client_module, "time", SimpleNamespace(sleep=slept.append))
    path = tmp_path / "events.csv"
    error = imported(capsys, path, "user,item\nu,i\n", "--url", "http://127.0.0.1:9")[1]
    assert running_service.AT_FIRST <= sum(slept) <= running_service.AT_FIRST + running_service.PAUSE
    first, last = error.splitlines()
    assert re.fullmatch(
        r"the service at http://127.0.0.1:9 does not answer \(.*\); trying again until \d\d:\d\d:\d\d", first
    )
    assert last.startswith("coldstream: the service at http://127.0.0.1:9 does not answer")
    assert last.endswith("; start it, or give its address with --url")


def test_a_service_that_was_there_is_waited_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_service, "AT_FIRST", 0.0)
    monkeypatch.setattr(running_service, "PAUSE", 0.001)
    away = httpx.Response(503, json={"detail": "starting"})
    taken = {"lines": 1, "taken": 1, "duplicates": 0, "refused": 0, "refusals": [], "position": 1}
    answers = [away, httpx.Response(200, json=taken), *[httpx.ReadError("")] * 3, httpx.Response(404, text="<html>")]

    def answer(_: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
    service = RunningService("http://h")
    assert service.take("event", [{"user": "u", "item": "i"}]).taken == 1
    with pytest.raises(Unavailable, match="/events is refused with 404: <html>"):
        service.take("event", [{"user": "u", "item": "i"}])
    service.close()
    assert [line.partition("; ")[0] for line in capsys.readouterr().err.splitlines()] == [
        "the service at http://h takes nothing (status 503)",
        "the service at http://h does not answer (ReadError)",
    ]


def test_a_service_that_stays_away_is_given_up_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_service, "PATIENCE", 0.05)
    monkeypatch.setattr(running_service, "PAUSE", 0.01)
    sent = []

    def answer(_: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(503, json={"detail": "starting"})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
    with pytest.raises(Unavailable, match=r"http://h takes nothing \(status 503\); start again to go on where it was"):
        RunningService("http://h").take("event", [{"user": "u", "item": "i", "event_id": "e"}])
    assert len({request.content for request in sent}) == 1 < len(sent)
