"""`coldstream verify` says what is wrong in words, and with its exit status."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from coldstream import Id, Schema
from coldstream.cli import main
from coldstream.config import Hyperparameters
from coldstream.runtime import rule
from coldstream.runtime.fingerprint import digest
from coldstream.runtime.learner import save
from coldstream.runtime.records import Interaction, line
from coldstream.runtime.recovery import RequestedModel, at_the_beginning, recovered
from coldstream.runtime.verification import Held, verified
from coldstream.storage.sqlite.store import SqliteStore


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with 30 events and snapshots of lines 11 and 31."""
    with closing(SqliteStore(tmp_path / "data")) as store:
        learner = recovered(store, RequestedModel(Schema(item=[Id()]), Hyperparameters(factors=3, negatives=3), 0))
        for n in range(30):
            event = Interaction(f"u{n % 4}", f"i{n % 7}", float(n))
            (position,) = store.append([line(event)], learner.position)
            assert position is not None
            learner.apply(position, event)
            if n in (9, 29):
                save(tmp_path / "made", learner.view())
                store.save(position, tmp_path / "made")
    return tmp_path / "data"


def verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main(["verify", "--data", str(folder)])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return status, said.out


def test_a_store_that_is_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = verify(folder, capsys)
    assert status == 0
    assert "replayed 30 lines, behind line 1 up to line 31; checksums agree" in said
    assert said.count("the same, bit by bit") == 2


def test_a_changed_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(folder / "log.sqlite")) as connection, connection:
        connection.execute("UPDATE log SET body = CAST(replace(CAST(body AS TEXT), 'u1', 'u2') AS BLOB) WHERE position = 7")
    status, said = verify(folder, capsys)
    assert status == 1
    assert "the log is NOT whole: line 7 of the log" in said


def test_an_index_that_lost_an_event(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same event could be learned twice, and yet every line is what was written."""
    with closing(SqliteStore(folder)) as store:
        lines = [line(Interaction("u1", "i1", float(n), {}, f"event{n}")) for n in range(50)]
        store.append(lines, store.last())
    with closing(sqlite3.connect(folder / "log.sqlite")) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = sql || ' AND position < 40' WHERE name = 'log_event'")
    with closing(sqlite3.connect(folder / "log.sqlite")) as connection, connection:
        connection.execute("REINDEX log_event")
        connection.execute("PRAGMA writable_schema = ON")
        complete = "CREATE UNIQUE INDEX log_event ON log (event) WHERE event IS NOT NULL"
        connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'log_event'", (complete,))
    status, said = verify(folder, capsys)
    assert status == 1
    assert "missing from index log_event" in said


def test_a_snapshot_whose_header_is_damaged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = max((folder / "snapshots").iterdir())
    content = newest.read_bytes()
    newest.write_bytes(content.replace(b"'shape': (", b"'shape': {", 1))
    status, said = verify(folder, capsys)
    assert status == 1
    assert "snapshot 1 of line 11: the same" in said
    assert "snapshot 2 of line 31: NOT the same: snapshot" in said
    with closing(SqliteStore(folder)) as store:
        assert recovered(store, RequestedModel(None, None, None)).position == 31


def test_lines_that_were_acknowledged_and_lost_are_noticed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = folder / "lock"
    noted = lock.read_bytes()
    assert verify(folder, capsys)[0] == 0
    lock.write_bytes(noted.replace(b"line                  31,", b"line                  99,"))
    status, said = verify(folder, capsys)
    assert status == 1
    assert "does not have line 99, which was acknowledged, as the file lock says" in said


def test_a_running_replica_is_compared_where_it_is(folder: Path) -> None:
    with closing(SqliteStore(folder)) as store:
        learner = at_the_beginning(store)
        learner.replay(entry for entry in store.read(1) if entry.position <= 17)
        right = Held("right", 17, digest(learner.view()))
        wrong, behind = right._replace(name="wrong", position=18), right._replace(name="behind", position=5)
        verdict = verified(store, False, lambda _: None, [wrong, right])
        assert verdict.held == [(right, ""), (wrong, "the replay led to other bits")]
        ((_, reason),) = verified(store, True, lambda _: None, [behind]).held
        assert "the replay begins at line 11, behind it" in reason


def test_a_replica_that_cannot_be_asked_is_said_to_be(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for address, said in (
        ("http://127.0.0.1:1", "replica http://127.0.0.1:1 cannot be asked"),
        ("127.0.0.1:1", "url must be the address of a service, got '127.0.0.1:1'"),
    ):
        assert main(["verify", "--data", str(folder), "--replica", address]) == 2
        assert said in capsys.readouterr().err


def test_a_replica_is_asked_with_the_key_for_its_fingerprint(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        if request.headers.get("authorization") != "Bearer secret":
            return httpx.Response(403, json={"detail": "the key has not the scope admin"})
        return httpx.Response(200, json={"position": 31, "fingerprint": "0f"})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
    asked = ["verify", "--data", str(folder), "--replica", "http://h:8000"]
    assert main(asked) == 2
    said = capsys.readouterr().err
    assert "replica http://h:8000 answers 403: the key has not the scope admin; set COLDSTREAM_KEY to one" in said
    monkeypatch.setenv("COLDSTREAM_KEY", "secret")
    assert main(asked) == 1
    assert "replica http://h:8000 at line 31: NOT the same: the replay led to other bits" in capsys.readouterr().out


def test_a_log_of_another_rule_is_no_damage(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks at a store before an upgrade must not be told that it is damaged."""
    monkeypatch.setattr(rule, "LEARNING_RULE", rule.LEARNING_RULE + 1)
    assert main(["verify", "--data", str(folder)]) != 0
    said = capsys.readouterr()
    assert "the log is learned by rule" in said.err + said.out
    assert "NOT" not in said.out
