"""Attacks by cardinality: a client brings ever new values, fields, users and items, and the service stays in bounds."""

import os
import random
from pathlib import Path
from typing import Any

import pytest
from served import SQLITE, Client, Home, Served, homes

BUDGET = 24 * 2**20
BOUNDS = ("--memory", "24 MiB", "--items", 400, "--admissions", 100, "--undeclared", 20, "--undeclared-values", 300)


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return homes(request, SQLITE, tmp_path)


def attack(client: Client, rng: random.Random, n: int) -> None:
    """One request of each kind that is meant to hurt."""
    new = lambda count: [f"{rng.getrandbits(60):x}" for _ in range(count)]  # noqa: E731
    kinds: list[dict[str, Any]] = [
        {"tags": new(250)},  # many values in one event
        {f"field {name}": "x" for name in new(60)},  # many fields
        {f"f{k}": name for k, name in enumerate(new(20))},  # few fields, ever new values
        {"device": new(1)[0]},
    ]
    events = [{"user": new(1)[0], "item": "i1", "context": context} for context in kinds for _ in range(5)]
    events += [{"user": f"attacker {n}", "item": item} for item in new(30)]
    client.done("POST", "/events", events)
    client.done("POST", "/users", [{"id": name, "attributes": {"city": name}} for name in new(100)])


def memory(client: Client) -> dict[str, Any]:
    facts: dict[str, Any] = client.done("GET", "/live")["service"]
    return facts


def processor_seconds(server: Served, client: Client) -> float:
    """What the server's processor needs for some requests, however busy the machine is."""
    before = _used(server)
    for n in range(300):
        client.done("POST", "/recommend", {"user": f"u{n % 5}", "n": 5})
    return _used(server) - before


def _used(server: Served) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_flood_of_what_is_new_stays_within_bounds_and_survives_a_restart(home: Home) -> None:
    rng = random.Random(5)
    with home.serve(*BOUNDS) as server:
        client = server.ready().client()
        client.done("POST", "/items", [{"id": f"i{n}", "attributes": {"genre": ["a", f"g{n % 5}"]}} for n in range(50)])
        regular = [{"user": f"u{n % 5}", "item": f"i{n % 50}", "context": {"device": "phone"}} for n in range(500)]
        client.done("POST", "/events", regular)
        before, process = processor_seconds(server, client), memory(client)["process_bytes"]
        for n in range(60):
            attack(client, rng, n)
            client.done("POST", "/events", regular[n * 8 : n * 8 + 8])
            used = memory(client)["memory"]
            assert used["used"] <= used["bound"] == BUDGET
        after, facts = processor_seconds(server, client), memory(client)
        assert facts["memory"]["gone"]["users evicted"] > 100
        assert facts["memory"]["gone"]["values evicted"] > 10_000
        assert facts["memory"]["gone"]["items evicted"] > 1000
        assert facts["memory"]["refused"]["many"] > 10_000
        assert facts["memory"]["refused"]["fields"] > 10_000
        assert facts["items"] <= 400
        assert facts["process_bytes"] - process < BUDGET + 64 * 2**20  # the log's cache and what requests need besides
        assert after < 4 * before + 0.3, f"300 requests took {before:.2f} s of the processor before and {after:.2f} s after"
        assert {one["item"] for one in client.done("POST", "/recommend", {"user": "u1", "n": 300})["items"]} >= {"i1", "i2"}
        for n in range(5):  # whoever comes again and again has not gone for those who came once
            assert client.done("GET", f"/users/u{n}")["id"] == f"u{n}"
        assert b'coldstream_refused{reason="many"}' in client.done("GET", "/metrics")
        client.done("DELETE", "/users/attacker%200")
        last = memory(client)
        server.kill()
    with home.serve() as server:  # bounds are the log's, where settings say nothing
        client = server.ready().client()
        assert memory(client)["memory"] == last["memory"]
    home.verify()


def test_other_bounds_at_a_restart_are_a_line_of_the_log(home: Home) -> None:
    with home.serve() as server:
        client = server.ready().client()
        client.done("POST", "/events", [{"user": f"u{n}", "item": "i1"} for n in range(50)])
        assert memory(client)["memory"]["bound"] is None
        server.terminate()
    with home.serve("--users", 10) as server:
        assert memory(server.ready().client())["users"] == 10
        server.terminate()
    assert [line["kind"] for line in home.lines().values()][-1] == "bounds"
    with home.serve() as server:
        assert memory(server.ready().client())["users"] == 10
    home.verify()
