"""How fast the service answers, learns, recovers and takes snapshots, at ML-100k's shape and at that of a shop.

On two cores the server has one and the load generators the other. Every ratio is between two figures of this one run.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec

import growth
from coldstream import Recommender
from coldstream.service.http.routes import ROUTES, Route
from coldstream.service.http.server import serve
from coldstream.service.messages import recommend as recommend_messages
from coldstream.service.service import Service
from coldstream.service.settings import Settings
from load import Generator, Load, Outcome, run
from workloads import FULL, MovieLens

CONNECTIONS = 16
USERS = [f"u{n}" for n in range(400)]
REQUESTS = [{"user": user, "n": 10, "time": 1e6} for user in USERS]


class Empty(msgspec.Struct):
    """An answer that says nothing."""


def empty(service: Service, given: recommend_messages.RecommendRequest, name: str) -> Empty:  # noqa: ARG001
    """Nothing, after all that every call goes through."""
    return Empty()


def line(what: str, value: str, bound: str = "") -> None:
    """One row of the report."""
    print(f"  {what:<66}{value:>18}   {bound}", flush=True)


class Server:
    """A server process."""

    def __init__(self, folder: Path, *flags: str) -> None:
        command = [sys.executable, __file__, "serve", str(folder), *flags]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.log: dict[str, Any] = {}
        assert self._process.stderr is not None
        for text in self._process.stderr:
            entry = json.loads(text)
            self.log[entry["event"]] = entry
            if entry["event"] == "ready":
                break
        else:
            raise SystemExit(f"the server did not start: {self.log}")
        self.port = int(self.log["listening"]["address"].rpartition(":")[2])

    def post(self, path: str, body: Any) -> Any:
        """One request."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method="POST")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def get(self, path: str) -> str:
        """One request."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            return answer.read().decode()

    def metric(self, name: str) -> float:
        """A figure that the server shows."""
        lines = (text.split() for text in self.get("/metrics").splitlines() if text.startswith(name))
        return float(next(lines)[1])

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        self._process.communicate()

    def stop(self) -> None:
        """End it as one should."""
        self._process.terminate()
        self._process.communicate()


@contextmanager
def serving(folder: Path, *flags: str) -> Iterator[Server]:
    """A server, for as long as the block lasts."""
    server = Server(folder, *flags)
    try:
        yield server
    finally:
        server.kill()


def fill(server: Server) -> None:
    """Items, users and a past, as in ML-100k."""
    recommender = MovieLens().fill(Recommender(FULL, factors=1, negatives=1))
    items, users = recommender.items(), recommender.users()
    for start in range(0, len(items), 1000):
        part = items[start : start + 1000]
        server.post("/items", [{"id": item, "attributes": recommender.item(item)} for item in part])
    for start in range(0, len(users), 1000):
        part = users[start : start + 1000]
        server.post("/users", [{"id": user, "attributes": recommender.user(user)} for user in part])
    for batch in batches(20_000):
        server.post("/events", batch)


def batches(events: int, size: int = 500) -> list[list[dict[str, Any]]]:
    """Events in calls of so many."""
    made = [{"user": e.user, "item": e.item, "time": e.time} for e in MovieLens().events(events)]
    return [made[start : start + size] for start in range(0, events, size)]


def answering(server: Server, rounds: int = 7, seconds: float = 2.0) -> None:
    """Recommend against the empty call, turn by turn, so that a noisy minute hits both."""
    loads = {path: Load(server.port, path, REQUESTS, CONNECTIONS, seconds) for path in ("/empty", "/recommend")}
    found: dict[str, list[Outcome]] = {path: [] for path in loads}
    for _ in range(rounds):
        for path, load in loads.items():
            found[path].append(run(load))
    print(f"answering, {CONNECTIONS} connections, as fast as it goes (median of {rounds} turns)")
    for path, outcomes in found.items():
        assert not any(outcome.failures for outcome in outcomes)
        rate, p50, p99 = (statistics.median(getattr(o, name) for o in outcomes) for name in ("rate", "p50", "p99"))
        line(f"POST {path}: p50 {p50:.2f} ms, p99 {p99:.2f} ms", f"{rate:,.0f} /s")
    ratios = [own.rate / none.rate for own, none in zip(found["/recommend"], found["/empty"], strict=True)]
    line("recommend / empty", f"{statistics.median(ratios):.2f}", "≥ 0.60")


def learning_meanwhile(server: Server, rounds: int = 5, seconds: float = 4.0) -> None:
    """The latency of recommend, with and without 500 events a second beside it."""
    print("\nrecommend while 500 events/s are learned durably, one per call (medians of turns)")
    events = [event for batch in batches(4000) for event in batch]
    for name, pace, connections in (("400 requests/s", 400.0, 8), ("as fast as it goes", 0.0, CONNECTIONS)):
        quiet, busy = [], []
        for _ in range(rounds):
            load = Load(server.port, "/recommend", REQUESTS, connections, seconds, pace)
            quiet.append(run(load).p99)
            writer = Generator(Load(server.port, "/events", events, 32, seconds + 0.5, 500.0))
            busy.append(run(load).p99)
            learned = writer.outcome()
            assert not learned.failures
        idle, loaded = statistics.median(quiet), statistics.median(busy)
        line(f"{name}: p99 idle {idle:.2f} ms, learning {loaded:.2f} ms", f"ratio {loaded / idle:.1f}", "≤ 3")
        line(f"  events learned {learned.rate:.0f}/s, p99 of their acknowledgement", f"{learned.p99:.1f} ms")


def learning(server: Server, rounds: int = 3, seconds: float = 5.0) -> None:
    """Events in batches."""
    print("\nPOST /events in batches of 500, durable and learned when acknowledged")
    bodies = batches(20_000)
    rates = []
    for _ in range(rounds):
        before = server.metric("coldstream_events ")
        outcome = run(Load(server.port, "/events", bodies, 2, seconds))
        assert not outcome.failures
        rates.append((server.metric("coldstream_events ") - before) / outcome.seconds)
    line("2 connections", f"{statistics.median(rates):,.0f} events/s", "≥ 5,000")
    line("  of which ranked before they were learned", f"{server.metric('coldstream_sampled_share '):.0%}")
    outcome = run(Load(server.port, "/events", [batch[0] for batch in bodies], 32, seconds))
    line(f"one event per call, 32 connections: p99 {outcome.p99:.1f} ms", f"{outcome.rate:,.0f} events/s")


def snapshots(server: Server) -> None:
    """What a snapshot costs those who ask meanwhile."""
    print("\nsnapshots")
    load = Generator(Load(server.port, "/recommend", REQUESTS, 4, 3.0, 400.0))
    pauses = []
    for _ in range(5):
        server.post("/snapshot", None)
        pauses.append(server.metric("coldstream_snapshot_pause_seconds ") * 1e3)
    line("pause of one snapshot", f"{statistics.median(pauses):.0f} ms")
    outcome = load.outcome()
    line("longest recommend while five were taken", f"{outcome.longest:.0f} ms")


def pages(server: Server, rounds: int = 5, seconds: float = 2.0) -> None:
    """What three open pages cost: each asks once a second for what is new."""
    print("\nrecommend, as fast as it goes, while pages are open (each asks for what is new, once a second)")
    ratios = []
    for _ in range(rounds):
        load = Load(server.port, "/recommend", REQUESTS, CONNECTIONS, seconds)
        alone = run(load).rate
        stop = Event()
        readers = [Thread(target=_read_along, args=(server, stop)) for _ in range(3)]
        for reader in readers:
            reader.start()
        ratios.append(run(load).rate / alone)
        stop.set()
        for reader in readers:
            reader.join()
    line("three pages / none", f"{statistics.median(ratios):.2f}", "≥ 0.90")


def _read_along(server: Server, stop: Event) -> None:
    last = -1
    while not stop.is_set():
        samples = json.loads(server.get(f"/live?since={last}"))["samples"]
        last = samples[-1]["seq"] if samples else last
        stop.wait(1.0)


def recovery(folder: Path) -> None:
    """How long a restart takes after a power cut, from the log alone."""
    print("\nrecovery after kill -9, from the log alone")
    with serving(folder) as server:
        recovered = server.log["recovered"]
        lines, seconds = recovered["replayed"], recovered["seconds"]
        line(f"{lines:,} lines in {seconds:.1f} s", f"{seconds / lines * 1e6:,.0f} s per million")


def shop(items: int = 200_000, rounds: int = 3, seconds: float = 4.0) -> None:
    """The same questions at the size of a shop: items with a brand, two genres, a price and in_stock."""
    with tempfile.TemporaryDirectory(prefix="coldstream-bench-") as name, serving(Path(name), "shop") as server:
        put = time.perf_counter()
        catalogue = [{"id": item, "attributes": attributes} for item, attributes in growth.items(items)]
        for start in range(0, items, 1000):
            server.post("/items", catalogue[start : start + 1000])
        put = time.perf_counter() - put
        chosen = growth.events(20_000)
        made = [{"user": e.user, "item": e.item, "time": e.time, "context": dict(e.context)} for e in chosen]
        bodies = [made[start : start + 500] for start in range(0, len(made), 500)]
        for body in bodies[:10]:
            server.post("/events", body)
        print(f"\na shop: {server.metric('coldstream_items '):,.0f} items put over HTTP in {put:.0f} s")
        requests = [{"user": f"user{n}", "n": 10, "context": {"device": "phone"}} for n in range(200)]
        quiet, busy = [], []
        for _ in range(rounds):
            load = Load(server.port, "/recommend", requests, 4, seconds, 100.0)
            quiet.append(run(load).p99)
            writer = Generator(Load(server.port, "/events", made, 32, seconds + 0.5, 500.0))
            busy.append(run(load).p99)
            learned = writer.outcome()
            assert not learned.failures
        idle, loaded = statistics.median(quiet), statistics.median(busy)
        line(f"recommend at 100/s: p99 idle {idle:.1f} ms, while learning {loaded:.1f} ms", f"{loaded / idle:.1f} ×", "≤ 2")
        line("  events learned durably beside it, one per call", f"{learned.rate:,.0f} /s", "≥ 500 asked for")
        before, outcome = server.metric("coldstream_events "), run(Load(server.port, "/events", bodies, 2, seconds))
        rate = (server.metric("coldstream_events ") - before) / outcome.seconds
        line("batches of 500", f"{rate:,.0f} events/s", "≥ 3,000")


def main() -> None:
    """All of it."""
    with tempfile.TemporaryDirectory(prefix="coldstream-bench-") as name:
        folder = Path(name)
        with serving(folder, "begin") as server:
            fill(server)
            print(f"ML-100k's shape: {server.metric('coldstream_items '):.0f} items, default preset, SQLite\n")
            answering(server)
            learning_meanwhile(server)
            learning(server)
            pages(server)
        recovery(folder)
        with serving(folder) as server:
            snapshots(server)
    shop()


def serve_with_empty(folder: str, *flags: str) -> None:
    """The service as it is, with one route more."""
    schema = Path(folder) / "schema.toml"
    if flags:
        schema.write_text((growth.SHOP if "shop" in flags else FULL).toml())
    route = Route("POST", "/empty", empty, recommend_messages.RecommendRequest, Empty, "read")
    settings = Settings(schema=schema, data=Path(folder), port=0, snapshot_events=0, snapshot_minutes=0)
    serve(settings, (route, *ROUTES))


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve_with_empty(*sys.argv[2:])
    elif sys.argv[1:2] == ["shop"]:
        shop()
    else:
        main()
