"""What replicas on one database answer, against one process, and what a line costs each of them.

Load generators, PostgreSQL and all services share the cores of this machine, so two followers cannot show twice the rate
on two of them. What each answer and each line costs in processor time is measured too: the model is made from that.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from coldstream import Recommender
from load import Generator, Load
from postgres_server import PostgresServer
from workloads import FULL, MovieLens

CONNECTIONS, SECONDS, ROUNDS = 8, 3.0, 5
REQUESTS = [{"user": f"u{n}", "n": 10, "time": 1e6} for n in range(400)]


class Replica:
    """A service on the database."""

    def __init__(self, schema: Path, url: str) -> None:
        command = [sys.executable, "-m", "coldstream", "serve", "--port", "0", "--schema", str(schema), "--store", url]
        self._process = subprocess.Popen([*command, "--snapshot-events", "0"], stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for text in self._process.stderr:
            entry = json.loads(text)
            if entry["event"] == "listening":
                self.port = int(entry["address"].rpartition(":")[2])
            if entry["event"] == "ready":
                return
        raise SystemExit("a replica did not start")

    def ask(self, path: str, body: Any = None) -> Any:
        """One request."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    @property
    def cpu(self) -> float:
        """Seconds of a processor that it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def answered(replicas: Sequence[Replica]) -> tuple[float, float]:
    """Recommendations per second of several together, and processor seconds that one costs."""
    before = sum(replica.cpu for replica in replicas)
    loads = [Load(replica.port, "/recommend", REQUESTS, CONNECTIONS // len(replicas), SECONDS) for replica in replicas]
    outcomes = [generator.outcome() for generator in [Generator(load) for load in loads]]
    assert not any(outcome.failures for outcome in outcomes)
    requests = sum(outcome.requests for outcome in outcomes)
    return sum(outcome.rate for outcome in outcomes), (sum(replica.cpu for replica in replicas) - before) / requests


def learned(writer: Replica, followers: Sequence[Replica], events: int) -> tuple[float, float]:
    """Processor seconds that an event costs the writer, and a follower."""
    made = [{"user": e.user, "item": e.item, "time": e.time} for e in MovieLens().events(events)]
    before = writer.cpu, sum(replica.cpu for replica in followers)
    for start in range(0, events, 100):
        position = writer.ask("/events", made[start : start + 100])["position"]
    while any(replica.ask("/ready")["position"] < position for replica in followers):
        time.sleep(0.05)
    return (writer.cpu - before[0]) / events, (sum(replica.cpu for replica in followers) - before[1]) / events / len(
        followers
    )


def main() -> None:
    """All of it."""
    server = PostgresServer()
    started = list[Replica]()
    try:
        with tempfile.TemporaryDirectory() as folder:
            schema = Path(folder) / "schema.toml"
            schema.write_text(FULL.toml())
            url = server.new_schema()
            writer = Replica(schema, url)
            started.append(writer)
            known = MovieLens().fill(Recommender(FULL, factors=1, negatives=1))
            for start in range(0, len(known.items()), 1000):
                part = known.items()[start : start + 1000]
                writer.ask("/items", [{"id": item, "attributes": known.item(item)} for item in part])
            started += [Replica(schema, url), Replica(schema, url)]
            followers = started[1:]
            write, follow = learned(writer, followers, 10_000)
            one, two = list[tuple[float, float]](), list[tuple[float, float]]()
            for _ in range(ROUNDS):  # turn by turn, so that a noisy minute hits both
                one.append(answered([writer]))
                two.append(answered(followers))
        ratio = statistics.median(b[0] / a[0] for a, b in zip(one, two, strict=True))
        cost, cost_two = min(own for _, own in one), min(own for _, own in two)
        print(f"recommend, two followers / one process, on {os.cpu_count()} cores with load and database: {ratio:.2f}")
        print(f"processor time of an answer, follower / one process: {cost_two / cost:.2f}")
        print(f"processor time of an event, follower / writer: {follow / write:.2f}")
        print(f"processor time at a follower, of an event / of an answer: {follow / cost:.2f}")
        print("model: with a core each, n followers answer n · (1 − w / W) times what one process does that learns nothing,")
        print(
            f"where w events come in a second and a core could follow W: {cost / follow:.2f} times the answers it could give"
        )
    finally:
        for replica in started:
            replica.kill()
        server.remove()


if __name__ == "__main__":
    main()
