"""The drill: back up under traffic, destroy, restore into a store of either kind, and compare."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from customers import Customer, busy, check_promises
from served import PATIENCE, POSTGRES, SQLITE, STORES, Client, Home, homes, wait_until
from twin import Twin

pytest_plugins = ["postgres_server"]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    said = [sys.executable, "-m", "coldstream", *map(str, arguments)]
    return subprocess.run(said, capture_output=True, text=True, timeout=PATIENCE, check=False)


def destroyed(home: Home) -> None:
    if home.url.startswith(f"{SQLITE}:"):
        shutil.rmtree(home.data)
        return
    with psycopg.connect(home.url) as connection:
        for table in ("meta", "log", "snapshot_chunk", "snapshot", "mark", "kept", "writer"):
            connection.execute(f"DROP TABLE coldstream_{table}")


@pytest.mark.parametrize("kind", STORES)
def test_what_is_backed_up_under_traffic_is_restored_with_the_same_bits(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    home, file = homes(request, kind, tmp_path), tmp_path / "backup"
    customers = [Customer("a"), Customer("b")]
    with home.serve("--snapshot-events", 50) as server:
        with busy(customers, server.ready()):
            wait_until(lambda: all(len(customer.acknowledged) > 60 for customer in customers))
            before = {event for customer in customers for event in customer.acknowledged}
            done = command("backup", file, *home.flags)
            assert done.returncode == 0, done.stderr
            assert "snapshots in" in done.stdout
        server.kill()
    home.rest()
    lines = home.lines()
    check_promises(customers, lines)
    destroyed(home)
    for target in (home, homes(request, POSTGRES if kind == SQLITE else SQLITE, _made(tmp_path / "other"))):
        done = command("restore", file, *target.flags)
        assert done.returncode == 0, done.stderr
        assert "the same, bit by bit" in target.verify()
        restored = target.lines()
        assert restored == {position: lines[position] for position in range(1, max(restored) + 1)}
        assert before <= {line.get("event_id") for line in restored.values()}
        with target.serve() as server:
            assert server.ready().client().done("GET", "/ready") == {"position": max(restored)}
            assert server.terminate() == 0
        with target.look() as store:
            newest = store.snapshots()[0]
            assert Twin().follow(restored, newest.position).is_like(store, newest)


def test_what_cannot_be_restored_says_so_in_one_line(tmp_path: Path) -> None:
    home = Home(tmp_path, f"{SQLITE}:{tmp_path / 'data'}")
    with home.serve() as server:
        server.ready().client().done("POST", "/events", {"user": "u", "item": "i"})
        assert server.terminate() == 0
    file = tmp_path / "backup"
    assert command("backup", file, *home.flags).returncode == 0
    (tmp_path / "cut").write_bytes(file.read_bytes()[:-100])
    for arguments, reason in (
        (("restore", file, *home.flags), "is not empty; restore into a folder that is empty, or not there"),
        (("restore", tmp_path / "cut", "--data", tmp_path / "new"), "is damaged, or none of coldstream"),
        (("restore", tmp_path / "none", "--data", tmp_path / "new"), "cannot be read"),
        (("restore", file), "give either --data DIR or --store URL"),
        (("backup", file, *home.flags), "is there already"),
        (("backup", tmp_path / "x", "--data", tmp_path / "nowhere"), "give the folder of a store"),
        (("backup", tmp_path / "no" / "x", *home.flags), "make it first"),
    ):
        done = command(*arguments)
        assert done.returncode == 2
        assert reason in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_metrics_tell_of_erasures_and_of_the_room_that_is_taken(tmp_path: Path) -> None:
    home = Home(tmp_path, f"{SQLITE}:{tmp_path / 'data'}")
    bounds = ("--retain", "90d", "--disk", "1 GiB")
    with home.serve("--erase-minutes", 10, *bounds) as server:
        client = server.ready().client()
        client.done("POST", "/events", [{"user": "ann", "item": "i1"}, {"user": "bob", "item": "i1"}])
        assert json.loads(json.dumps(client.done("DELETE", "/users/ann"))) == {"position": 4, "erasure_begins_within": 600.0}
        assert metrics(client)["coldstream_people_to_erase"] == 1
        assert 0 <= metrics(client)["coldstream_oldest_erasure_seconds"] < PATIENCE
        assert b'"ann"' in home.everything()
        assert server.terminate() == 0
    with home.serve(*bounds) as server:  # which erases at once
        client = server.ready().client()
        wait_until(lambda: metrics(client)["coldstream_people_to_erase"] == 0)
        assert metrics(client)["coldstream_oldest_erasure_seconds"] == 0
        assert b'"ann"' not in home.everything()
        wait_until(lambda: metrics(client).get("coldstream_store_bytes", 0) > 10_000)
        assert metrics(client)["coldstream_log_cut"] == 0


def metrics(client: Client) -> dict[str, float]:
    text = client.ask("GET", "/metrics").body.decode()
    return {name: float(value) for name, _, value in (line.partition(" ") for line in text.splitlines()) if name != "#"}


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
