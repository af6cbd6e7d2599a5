"""What a restart makes of what it finds: damaged snapshots, people who are to be forgotten, another schema."""

import random
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from customers import Customer, Line, busy, check_promises
from served import SQLITE, STORES, Client, Gone, Home, Served, homes, wait_until
from twin import Twin, check_bits

from coldstream.storage.store import Saved

pytest_plugins = ["postgres_server"]

OFTEN = ("--snapshot-events", 40)
DELETIONS = 8
EVENT = {"user": "u1", "item": "i1", "time": 1.7e9}
DAMAGED = "a snapshot is damaged; the one before is used"


@pytest.fixture(params=STORES)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return homes(request, request.param, tmp_path)


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """A home in SQLite."""
    return homes(request, SQLITE, tmp_path)


def used(home: Home, *arguments: object) -> list[Saved]:
    """Somebody was there, and the server was stopped; the snapshots, the newest first."""
    customers = [Customer("a"), Customer("b")]
    with home.serve(*OFTEN, *arguments) as server:
        with busy(customers, server.ready()):
            wait_until(lambda: all(len(customer.acknowledged) > 60 for customer in customers))
        assert server.terminate() == 0
    check_promises(customers, home.lines())
    with home.look() as store:
        return store.snapshots()


# Kills at odd moments


def test_a_server_that_is_killed_while_it_begins_begins_again(folder: Home) -> None:
    chance = random.Random(4)
    for _ in range(5):
        with folder.serve() as server:
            wait_until((folder.data / "lock").exists)
            time.sleep(chance.uniform(0, 0.02))
            server.kill()
        (folder.data / "lock").unlink()
    used(folder)
    check_bits(folder)


def test_a_snapshot_that_nobody_finished_is_cleared_away(home: Home) -> None:
    customers = [Customer("a"), Customer("b")]
    for _ in range(50):  # it may have been finished just before
        if home.half_written():
            break
        with home.serve("--snapshot-events", 1) as server, busy(customers, server.ready()):
            wait_until(home.half_written)
            server.kill()
        customers = [Customer(f"{customer.name}+") for customer in customers]  # with ids that nobody knows
    assert home.half_written()
    with home.serve() as server:
        server.ready()
        assert not home.half_written()


# Damaged snapshots


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    """A stretch of bytes, because single ones may lie where an archive has room that nobody reads."""
    middle = len(content) // 2
    return content[:middle] + bytes(byte ^ 1 for byte in content[middle : middle + 300]) + content[middle + 300 :]


@pytest.mark.parametrize("how", [truncated, flipped])
def test_a_damaged_snapshot_is_passed_over_with_a_warning(home: Home, how: Callable[[bytes], bytes]) -> None:
    newest, before, *_ = used(home)
    home.damage(newest, how)
    with home.serve() as server:
        client = server.ready().client()
        warning, recovered = server.logged(DAMAGED), server.logged("recovered")
        assert (warning["level"], warning["position"]) == ("warning", newest.position)
        assert (recovered["snapshot"], recovered["position"]) == (before.position, newest.position)
        client.done("POST", "/events", EVENT)
        assert server.terminate() == 0
    with home.look() as store:
        last = store.snapshots()[0]
        assert last.position == newest.position + 1
        assert Twin().follow(home.lines(), last.position).is_like(store, last)


def test_after_a_damaged_snapshot_two_whole_ones_are_kept_again(folder: Home) -> None:
    newest, *_ = used(folder)
    folder.damage(newest, truncated)
    with folder.serve() as server:
        server.ready().client().done("POST", "/events", EVENT)
        assert server.terminate() == 0
    with folder.look() as store:
        folder.damage(store.snapshots()[0], truncated)
    with folder.serve() as server:
        server.ready()
        assert server.logged("recovered")["snapshot"] > 1
        assert server.terminate() == 0


def test_without_a_whole_snapshot_the_log_is_replayed_from_its_beginning(folder: Home) -> None:
    for saved in used(folder):
        folder.damage(saved, flipped)
    with folder.serve() as server:
        server.ready().client().done("POST", "/events", EVENT)
        assert server.logged("recovered")["snapshot"] == 1
        assert server.terminate() == 0
    with folder.look() as store:
        last = store.snapshots()[0]
        assert Twin().follow(folder.lines(), last.position).is_like(store, last)


def test_without_a_whole_snapshot_after_an_erasure_a_start_is_refused(home: Home) -> None:
    used(home)
    with home.serve() as server:
        server.ready().client().done("DELETE", "/users/u1")
        server.logged("people were erased from the log")
        assert server.terminate() == 0
    with home.look() as store:
        for saved in store.snapshots():
            home.damage(saved, flipped)
    before = home.lines()
    with home.serve() as server:
        assert server.ended() == 2
        assert "no snapshot is whole" in server.said()
        assert "people were erased" in server.said()
        assert "restore the store from a backup" in server.said()
        assert "Traceback" not in server.said()
    assert home.lines() == before


# People who are to be forgotten


def test_whoever_is_deleted_stays_gone_wherever_the_server_is_killed(home: Home) -> None:
    chance, twin, person, acknowledged = random.Random(3), Twin(), "", False
    for number in range(DELETIONS):
        with home.serve() as server:
            client = server.ready().client()
            if number == 0:
                twin.do(home.lines()[1])
            else:
                make_sure(server, home, person, twin, acknowledged)
            person = f"person-who-leaves-{number}"
            for line in life(number, person):
                post(client, line)
                twin.do(line)
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(delete, client, person)
                time.sleep(chance.uniform(0, 0.03))
                server.kill()
            acknowledged = asked.result()
    with home.serve() as server:
        make_sure(server.ready(), home, person, twin, acknowledged)
        assert server.terminate() == 0
    check_bits(home, twin)


def test_whoever_comes_back_before_they_are_erased_is_somebody_new(folder: Home) -> None:
    again = {"user": "anna", "item": "i2", "time": 2.0, "event_id": "the first of a new life"}
    with folder.serve() as server:
        client = server.ready().client()
        client.done("POST", "/events", {"user": "anna", "item": "i1", "time": 1.0, "event_id": "the old life"})
        with no_room_for_a_snapshot(folder, server):
            assert client.done("DELETE", "/users/anna")["position"] == 3
            assert client.done("POST", "/events", again)["learned"] == 1
        server.logged("people were erased from the log")
        assert b"the old life" not in folder.everything()
        assert client.done("POST", "/events", again)["duplicates"] == 1
        assert client.done("GET", "/evaluation")["events"] == 2
        assert server.terminate() == 0
    assert again["event_id"] in [line.get("event_id") for line in folder.lines().values()]


@contextmanager
def no_room_for_a_snapshot(folder: Home, server: Served) -> Iterator[None]:
    """The log may grow by a few lines, which is less than a snapshot takes."""
    before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    room = (folder.data / "log.sqlite-wal").stat().st_size + 50_000
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (room, before[1]))
    yield
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)


def make_sure(server: Served, home: Home, person: str, twin: Twin, acknowledged: bool) -> None:
    """After a kill around a deletion the person is gone, or is deleted again, and then before long nothing is left."""
    client = server.client()
    if client.ask("GET", f"/users/{person}").status == 200:
        assert not acknowledged
        client.done("DELETE", f"/users/{person}")
    assert client.ask("GET", f"/users/{person}").status == 404
    twin.do({"kind": "user-forgotten", "id": person})
    wait_until(lambda: person.encode() not in home.everything())
    lines = home.lines()
    twin.follow(lines, max(lines))  # what went along
    assert client.done("GET", "/ready") == {"position": twin.position}


def life(number: int, person: str) -> list[Line]:
    """What happens before somebody leaves: they come, they choose, and so do others."""
    events = [{"user": who, "item": f"i{n}", "time": 1.7e9 + n} for n in range(4) for who in (person, f"u{n}")]
    named = [{"kind": "event", **event, "event_id": f"{event['user']} chose {event['item']} #{number}"} for event in events]
    return [{"kind": "user", "id": person, "attributes": {"city": "Jena"}}, *named]


def post(client: Client, line: Line) -> None:
    body = {name: value for name, value in line.items() if name != "kind"}
    client.done("POST", "/events" if line["kind"] == "event" else "/users", body)


def delete(client: Client, person: str) -> bool:
    """Whether the server said that a person is forgotten."""
    with suppress(Gone):
        return bool(client.done("DELETE", f"/users/{person}")["position"])
    return False


# Another schema


def test_a_field_that_is_added_is_taken_over(home: Home) -> None:
    used(home)
    home.schema.write_text(home.schema.read_text().replace("[item]", '[item]\nbrand = { kind = "category" }'))
    with home.serve() as server:
        client = server.ready().client()
        extended = server.logged("the schema was extended")["position"]
        client.done("PUT", "/items/i1", {"attributes": {"brand": "Zeiss", "genre": ["a"]}})
        client.done("POST", "/events", [EVENT, EVENT])
        server.kill()
    with home.serve() as server:
        client = server.ready().client()
        assert client.done("GET", "/items/i1")["attributes"]["brand"] == "Zeiss"
        assert server.logged("recovered")["position"] == extended + 3
        assert not server.log("the schema was extended")
        assert server.terminate() == 0
    assert [position for position, line in home.lines().items() if line["kind"] == "schema"] == [extended]
    check_bits(home)


CONTRADICTIONS = (
    ('genre = { kind = "set" }', "", "item field 'genre' was declared before and is missing now"),
    ('city = { kind = "category" }', 'city = { kind = "set" }', "user field 'city' cannot change"),
    ("exclude_seen = false", "exclude_seen = true", "exclude_seen cannot change"),
)


def test_a_schema_that_contradicts_what_was_learned_is_refused(folder: Home) -> None:
    used(folder)
    declared, lines, snapshots = folder.schema.read_text(), folder.lines(), saved_bytes(folder)
    for before, after, reason in CONTRADICTIONS:
        folder.schema.write_text(declared.replace(before, after))
        with folder.serve() as server:
            assert server.ended() == 2
            assert reason in server.said()
            assert "Traceback" not in server.said()
        assert folder.lines() == lines
        assert saved_bytes(folder) == snapshots
    folder.schema.write_text(declared)
    with folder.serve() as server:
        server.ready().client().done("POST", "/events", EVENT)
        assert server.terminate() == 0
    check_bits(folder)


def saved_bytes(folder: Home) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder.data / "snapshots").iterdir()}
