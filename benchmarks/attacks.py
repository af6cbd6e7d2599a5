"""What others notice of a client who brings ever new values, fields, users and items, under a budget.

    python benchmarks/attacks.py [--memory "512 MiB"]

A shop of 20,000 items is asked for lists at a pace, alone; then beside a client who writes as many bytes as another shop
would; then beside attacks by cardinality of as many bytes a second; then beside the same attacks as fast as they are
answered. The ratios are between figures of one run. At the end the service is killed and has to start again, with as much in
memory as the budget allows.
"""

import argparse
import json
import random
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from coldstream import Categories, Category, Id, Schema
from load import Generator, Load, run

ITEMS, USERS, SECONDS, PACE = 20_000, 5_000, 20.0, 50.0
CONNECTIONS = 4
SCHEMA = Schema(
    user=[Id(), Category("city")],
    item=[Id(), Category("brand"), Categories("genre")],
    context=[Category("device"), Categories("tags")],
)


class Server:
    """The service in a process of its own, its log on a disk that is thrown away."""

    def __init__(self, folder: Path, memory: str) -> None:
        schema = folder / "schema.toml"
        schema.write_text(SCHEMA.toml())
        command = [sys.executable, "-m", "coldstream", "serve", "--schema", str(schema), "--data", str(folder / "data")]
        started = time.perf_counter()
        self.process = Popen([*command, "--memory", memory, "--port", "0"], stderr=PIPE, text=True)
        assert self.process.stderr is not None
        for text in self.process.stderr:
            entry = json.loads(text)
            if entry["event"] == "listening":
                self.port = int(entry["address"].rpartition(":")[2])
            if entry["event"] == "ready":
                break
        else:
            raise SystemExit("the service did not start")
        self.started = time.perf_counter() - started

    def call(self, path: str, body: Any = None) -> Any:
        """The answer to one request."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.communicate()


def fill(server: Server) -> None:
    """A shop and its past."""
    items = [
        {"id": f"i{n}", "attributes": {"brand": f"b{n % 900}", "genre": [f"g{n % 30}", f"g{n % 7}"]}} for n in range(ITEMS)
    ]
    for start in range(0, ITEMS, 1000):
        server.call("/items", items[start : start + 1000])
    for start in range(0, 20_000, 500):
        server.call("/events", [regular(n) for n in range(start, start + 500)])


def regular(n: int) -> dict[str, Any]:
    """What a shop's customer does."""
    return {"user": f"u{n * 7919 % USERS}", "item": f"i{n * n % ITEMS}", "context": {"device": "phone", "tags": ["sale"]}}


def attacks(count: int) -> list[list[dict[str, Any]]]:
    """Requests that are meant to hurt, no value in them twice."""
    rng, made = random.Random(7), list[list[dict[str, Any]]]()

    def new(number: int) -> list[str]:
        return [f"{rng.getrandbits(40):x}" for _ in range(number)]

    for n in range(count):
        contexts: list[dict[str, Any]] = [
            {"tags": new(250)},
            {f"field {name}": "x" for name in new(60)},
            {f"f{k}": name for k, name in enumerate(new(20))},
        ]
        events: list[dict[str, Any]] = [{"user": new(1)[0], "item": f"i{n % ITEMS}", "context": own} for own in contexts]
        made.append(events + [{"user": "attacker", "item": item} for item in new(5)])
    return made


def main() -> int:
    """The table; 1 where others wait more than twice as long."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--memory", default="512 MiB", help="the budget")
    options = parser.parse_args()
    hostile = attacks(3000)
    size = sum(len(json.dumps(own)) for own in hostile) / len(hostile)
    harmless = [[regular(n + k) for k in range(8)] for n in range(0, 4000, 8)]
    honest = sum(len(json.dumps(own)) for own in harmless) / len(harmless)
    asked = [{"user": f"u{n}", "n": 10} for n in range(400)]
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name), options.memory)
        fill(server)
        lists = Load(server.port, "/recommend", asked, CONNECTIONS, SECONDS, PACE)
        run(lists)  # the first requests of a process are slower
        alone = run(lists)
        print(f"{PACE:.0f} lists a second from {ITEMS:,} items, {SECONDS:.0f} s each")
        print(f"{'':<52}{'requests':>9}{'p50 ms':>8}{'p99 ms':>8}{'longest':>9}{'p99 ÷ alone':>13}{'MiB':>7}")

        def shown(what: str, own: Any, requests: int) -> float:
            held = server.call("/live")["service"]["process_bytes"] / 2**20
            ratio = own.p99 / alone.p99
            figures = f"{own.p50:>8.1f}{own.p99:>8.1f}{own.longest:>9.1f}{ratio:>13.2f}{held:>7.0f}"
            print(f"{what:<52}{requests:>9,}{figures}", flush=True)
            return float(ratio)

        shown("alone", alone, 0)
        pace = 20.0
        worst = 0.0
        for what, bodies, rate in (
            ("beside a shop's own events", harmless, pace * size / honest),
            (f"beside attacks, {pace:.0f} requests and {pace * size / 1000:.0f} kB a second", hostile, pace),
            ("beside attacks, as fast as they are answered", hostile, 0.0),
        ):
            beside = Generator(Load(server.port, "/events", bodies, 1, SECONDS + 2, rate))
            time.sleep(1)
            own, other = run(lists), beside.outcome()
            ratio = shown(what, own, other.requests)
            worst = max(worst, ratio if bodies is hostile else 0.0)
            assert not own.failures
            assert not other.failures
        memory = server.call("/live")["service"]["memory"]
        print(f"counted {memory['used'] / 2**20:.0f} MiB of {memory['bound'] / 2**20:.0f}; refused {memory['refused']}")
        server.kill()
        again = Server(Path(name), options.memory)
        same = again.call("/live")["service"]["memory"] == memory
        print(f"killed and started again in {again.started:.1f} s, {'the same' if same else 'NOT the same'} in memory")
        again.kill()
    return int(worst > 2 or not same)


if __name__ == "__main__":
    sys.exit(main())
