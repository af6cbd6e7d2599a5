"""Killed at any moment and started again: nothing acknowledged is lost, nothing is learned twice, and no bit differs."""

import random
import time
from pathlib import Path
from typing import Any

import pytest
from customers import Customer, busy, check_promises, event_ids
from served import POSTGRES, SQLITE, Home, Served, homes
from twin import Twin, check_bits

pytest_plugins = ["postgres_server"]

ROUNDS = 20
CUSTOMERS = 4
SETTINGS = ("--snapshot-events", 50, "--evaluate-window", 50_000)
"""Many snapshots, and full ones of a megabyte or two, so that at most moments one is being taken."""
EVICTING = (*SETTINGS, "--users", 12, "--items", 15, "--seen", 8)
"""So few of each that some go all the time."""
KINDS = ("full", "increment")
PATIENCE_FOR_A_FILE = 120.0
"""Seconds: a full one comes after eight increments."""


def test_on_sqlite_what_was_acknowledged_survives_20_kills(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    survive(homes(request, SQLITE, tmp_path), random.Random(1))


def test_on_postgresql_what_was_acknowledged_survives_20_kills(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    survive(homes(request, POSTGRES, tmp_path), random.Random(2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("store", [SQLITE, POSTGRES])
def test_a_kill_while_a_file_is_written_costs_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, store: str, kind: str
) -> None:
    survive_writing(homes(request, store, tmp_path), random.Random(3), kind, 2)


def survive_writing(home: Home, chance: random.Random, kind: str, kills: int) -> list[Customer]:
    """Kill a service so often while a full snapshot, or an increment, is being written."""
    customers = [Customer(f"customer{n}") for n in range(CUSTOMERS)]
    twin, hits, rounds = Twin(), 0, 0
    lines: dict[int, dict[str, Any]] = {}
    while hits < kills:
        rounds += 1
        assert rounds < 50 * kills, f"only {hits} of {rounds} kills came while a file of the kind {kind} was written"
        with home.serve(*SETTINGS) as server:
            check_start(server, lines)
            left = home.half_written()
            with busy(customers, server, set(event_ids(lines))):
                wait_for_writing(home, kind, left, chance)
                assert server.runs()
                server.kill()
        home.rest()
        hits += any(f".{kind}-" in path.name for path in home.half_written() - left)
        before, lines = lines, home.lines()
        assert {position: lines[position] for position in before} == before
        check_promises(customers, lines)
        check_snapshots(home, twin, lines)
    end(home, customers, twin, lines)
    return customers


def wait_for_writing(home: Home, kind: str, left: set[Path], chance: random.Random) -> None:
    """The next moment at which a file of a kind is seen, and a little later."""
    until = time.monotonic() + PATIENCE_FOR_A_FILE
    while time.monotonic() < until and not any(f".{kind}-" in path.name for path in home.half_written() - left):
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.003))


def survive(home: Home, chance: random.Random, rounds: int = ROUNDS, settings: tuple[Any, ...] = SETTINGS) -> list[Customer]:
    """Kill a service so often; the customers, and what they were promised."""
    customers = [Customer(f"customer{n}") for n in range(CUSTOMERS)]
    twin, in_the_making, number = Twin(), 0, 0
    lines: dict[int, dict[str, Any]] = {}
    while number < rounds or in_the_making <= rounds // 10:  # a busy machine may kill after most files are whole
        assert number < 10 * rounds, f"only {in_the_making} of {number} kills came while a snapshot was being taken"
        with home.serve(*settings) as server:
            known, left = set(event_ids(lines)), home.half_written()
            if number % 5 == 4:  # while it recovers, and in its first moments
                with busy(customers, server, known):
                    time.sleep(chance.uniform(0, 0.6))
                    assert server.runs()
                    server.kill()
            else:
                check_start(server, lines)
                with busy(customers, server, known):
                    wait_for_the_moment(home, chance, left)
                    assert server.runs()
                    server.kill()
        home.rest()
        in_the_making += bool(home.half_written() - left)
        number += 1
        before, lines = lines, home.lines()
        assert {position: lines[position] for position in before} == before
        check_promises(customers, lines)
        check_snapshots(home, twin, lines)
    end(home, customers, twin, lines)
    assert settings is not EVICTING or {"users evicted", "items evicted"} <= twin.recommender.memory.gone.keys()
    return customers


def check_start(server: Served, lines: dict[int, dict[str, Any]]) -> None:
    """A started server knows every line of the log, and has learned every event once."""
    client = server.ready().client()
    assert client.done("GET", "/ready") == {"position": max(len(lines), 1)}
    assert client.done("GET", "/evaluation")["events"] == len(event_ids(lines))


def wait_for_the_moment(home: Home, chance: random.Random, left: set[Path]) -> None:
    """A moment at random; every other time, the next at which a snapshot is seen in the making."""
    time.sleep(chance.uniform(0.01, 0.3))
    end = time.monotonic() + PATIENCE_FOR_A_FILE * chance.choice((0, 1))
    while time.monotonic() < end and not home.half_written() - left:
        time.sleep(0.001)


def check_snapshots(home: Home, twin: Twin, lines: dict[int, dict[str, Any]]) -> None:
    """Every snapshot holds what an uninterrupted run knows at its line."""
    with home.look() as store:
        for saved in sorted(store.snapshots()):
            if saved.position > twin.position:
                assert twin.follow(lines, saved.position).is_like(store, saved)


def end(home: Home, customers: list[Customer], twin: Twin, lines: dict[int, dict[str, Any]]) -> None:
    """The last restart: what is unclear is sent again, and a replay from the first line leads to the same bits."""
    with home.serve(*SETTINGS) as server:
        check_start(server, lines)
        assert home.url.startswith(POSTGRES) or not home.half_written()
        client, known = server.client(), set(event_ids(lines))
        for customer in customers:
            customer.settle(client, known)
        assert server.terminate() == 0
    lines = home.lines()
    check_promises(customers, lines)
    assert set(event_ids(lines)) == set().union(*(customer.acknowledged for customer in customers))
    with home.look() as store:
        newest = store.snapshots()[0]
        assert twin.follow(lines, newest.position).is_like(store, newest)
    check_bits(home)
