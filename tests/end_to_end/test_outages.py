"""The world fails and comes back: a database that is down, a full disk, a second server, a stop under load."""

import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from customers import Customer, busy, check_promises, event_ids
from served import POSTGRES, SQLITE, STORES, Home, Served, homes, wait_until
from twin import check_bits

if TYPE_CHECKING:
    from postgres_server import PostgresServer

pytest_plugins = ["postgres_server"]

OUTAGES = 3
OFTEN = ("--snapshot-events", 60)

Outage = Callable[[Home, Served], AbstractContextManager[None]]
"""While it lasts, the server cannot write."""


@pytest.fixture
def customers() -> list[Customer]:
    return [Customer(f"customer{n}") for n in range(3)]


@pytest.fixture(params=STORES)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return homes(request, request.param, tmp_path)


# A store that fails while everybody posts


def test_what_postgresql_does_not_take_is_refused_until_it_is_back(
    request: pytest.FixtureRequest, postgres: "PostgresServer", tmp_path: Path, customers: list[Customer]
) -> None:
    @contextmanager
    def stopped(home: Home, server: Served) -> Iterator[None]:
        postgres.stop()
        yield
        postgres.start()

    go_through(homes(request, POSTGRES, tmp_path), stopped, customers)


def test_what_a_full_disk_does_not_take_is_refused_until_there_is_room(
    request: pytest.FixtureRequest, tmp_path: Path, full: Outage, customers: list[Customer]
) -> None:
    go_through(homes(request, SQLITE, tmp_path), full, customers)


def test_a_server_that_is_killed_on_a_full_disk_has_lost_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, full: Outage, customers: list[Customer]
) -> None:
    home = homes(request, SQLITE, tmp_path)
    with home.serve(*OFTEN) as server, busy(customers, server.ready()):
        wait_until(lambda: all(customer.acknowledged for customer in customers))
        with full(home, server):
            wait_until(lambda: all(customer.refusals for customer in customers))
            server.kill()
    check_promises(customers, home.lines())
    with home.serve(*OFTEN) as server:
        server.ready()
        finish(home, server, customers)


@pytest.fixture(params=["a disk of its own", "a limit"])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outage]:
    """A full disk; where none may be mounted, the kernel is asked to let no file of the server grow."""
    data = tmp_path / "data"
    if request.param == "a limit" or not mounted(data):
        yield limited
        return
    yield filled
    subprocess.run(["umount", data], check=True)


def mounted(folder: Path) -> bool:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


@contextmanager
def filled(home: Home, server: Served) -> Iterator[None]:
    filler = home.data / "filler"
    with open(filler, "wb", buffering=0) as file, suppress(OSError):
        while shutil.disk_usage(home.data).free:
            file.write(bytes(4096))
    yield
    filler.unlink()


@contextmanager
def limited(home: Home, server: Served) -> Iterator[None]:
    before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    if server.runs():
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)


def go_through(home: Home, outage: Outage, customers: list[Customer]) -> None:
    """Everybody posts; while the store fails, they are told so and others are served; afterwards all goes on by itself."""
    with home.serve(*OFTEN) as server:
        client = server.ready().client()
        with busy(customers, server):
            for _ in range(OUTAGES):
                wait_for_more(lambda customer: len(customer.acknowledged), customers)
                with outage(home, server):
                    wait_for_more(lambda customer: len(customer.refusals), customers)
                    assert client.done("POST", "/recommend", {"user": "u1"})["items"]
                    wait_until(lambda: client.done("GET", "/health")["status"] == "degraded")
            wait_for_more(lambda customer: len(customer.acknowledged), customers)
            wait_until(lambda: client.done("GET", "/health")["status"] == "ok")
        for refusal in (refusal for customer in customers for refusal in customer.refusals):
            assert int(refusal.headers["Retry-After"]) > 0
            assert refusal.headers["Content-Type"] == "application/problem+json"
            assert refusal.body["status"] == 503
            assert refusal.body["detail"]
        finish(home, server, customers)


def wait_for_more(counted: Callable[[Customer], int], customers: list[Customer]) -> None:
    before = [counted(customer) for customer in customers]
    wait_until(lambda: all(counted(customer) > n for customer, n in zip(customers, before, strict=True)))


def finish(home: Home, server: Served, customers: list[Customer]) -> None:
    """What is unclear is sent again; then everything that was sent is in the log once, and was learned once."""
    client, lines = server.client(), home.lines()
    for customer in customers:
        customer.settle(client, event_ids(lines))
    learned = client.done("GET", "/evaluation")["events"]
    assert server.terminate() == 0
    lines = home.lines()
    check_promises(customers, lines)
    sent = set().union(*(customer.sent for customer in customers))
    assert set(event_ids(lines)) == sent
    assert learned == len(sent)
    check_bits(home)


# A stop, and a second start


def test_a_stop_under_load_finishes_what_was_accepted(home: Home, customers: list[Customer]) -> None:
    with home.serve() as server, busy(customers, server.ready()):
        wait_for_more(lambda customer: len(customer.acknowledged), customers)
        assert server.terminate() == 0
    lines = home.lines()
    check_promises(customers, lines)
    assert set(event_ids(lines)) == set().union(*(customer.acknowledged for customer in customers))
    check_bits(home)
    with home.serve() as server:
        server.ready()
        assert server.logged("recovered")["replayed"] == 0
        assert server.terminate() == 0
    assert home.lines() == lines


def test_a_second_server_on_one_folder_refuses_and_the_first_goes_on(
    request: pytest.FixtureRequest, tmp_path: Path, customers: list[Customer]
) -> None:
    home = homes(request, SQLITE, tmp_path)
    with home.serve() as first:
        first.ready()
        with home.serve() as second:
            assert second.ended() == 2
            assert f"in use by process {first.pid}, and SQLite cannot be shared" in second.said()
            assert "several processes need --store postgresql://" in second.said()
            assert "Traceback" not in second.said()
        with busy(customers, first):
            wait_for_more(lambda customer: len(customer.acknowledged), customers)
        finish(home, first, customers)
