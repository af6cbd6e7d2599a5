"""What a snapshot costs those who ask meanwhile, and what a start, a stop and everybody's memory cost, by users.

python benchmarks/snapshots.py [--users 100000]: up to so many users, each with three events, and a fifth as many items of
a shop. The service is a process of its own, on SQLite. The past is observed and not learned, which takes minutes less and
leaves as much behind. With --observed N only so many events are, and what the others leave with their users is written there
directly: neighbours of items and the log then have less than they would. A million users take minutes to make: with
--build FOLDER they are made and kept, and with --built FOLDER measured beside a small shop, once, for what is measured stays
in them.
"""

import argparse
import gc
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coldstream import Event, Recommender
from coldstream.config import Hyperparameters
from coldstream.runtime.learner import Learner, save
from coldstream.runtime.live_evaluation import LiveEvaluation
from coldstream.runtime.records import Interaction, LogHeader, line
from coldstream.storage.sqlite.store import SqliteStore
from coldstream.users.packed import UserParts, packed
from growth import SHOP, items, resident
from load import Generator, Load

SIZES = (10_000, 100_000, 1_000_000)
EVENTS = 3
SNAPSHOTS = 9
"""Snapshots that are taken: eight increments on what was loaded, and then a full one, or more if little is known."""
CHANGED = 5_000
"""Events that are learned before each."""
PACE = 40.0
"""Recommendations per second meanwhile."""


FACTS = "facts.json"
"""The file in a store that was built here that says how many users it has, and how much each took."""
ERASED = 20
"""Users who are forgotten, one after the other."""


class Row(NamedTuple):
    """What one size costs: milliseconds, seconds, and bytes."""

    users: int
    start: float
    recovered: float
    increment_pause: float
    full_pause: float
    increment_bytes: int
    full_bytes: int
    increment_seconds: float
    full_seconds: float
    calm: float
    longest: float
    resident: int
    most: int
    stop: float
    erasure: float
    bytes_a_user: float


def build(folder: Path, users: int, observed: int) -> None:
    """A store with a log and one full snapshot; prints the bytes that a user takes."""
    recommender = Recommender(SHOP, seed=1)
    count = users // 5
    recommender.put_items(items(count))
    gc.collect()
    before = resident()
    recommender.put_users((f"user{n}", {}) for n in range(users))
    chosen = (np.random.default_rng(3).random(EVENTS * users) ** 2 * count).astype(int).tolist()
    with closing(SqliteStore(folder)) as store:
        header = LogHeader(SHOP.document(), Hyperparameters().document(), 1)
        (position,) = store.append([line(header)], 0)
        assert position is not None
        fill(recommender, [chosen[n::users] for n in range(users)] if observed < len(chosen) else [])
        for first in range(0, min(observed, len(chosen)), 2000):
            some = list(enumerate(chosen[first : first + 2000], first))
            records = [Interaction(f"user{n % users}", f"item{item}", 1.7e9 + n) for n, item in some]
            store.append([line(record) for record in records], position)
            events = [Event(record.user, record.item, record.time) for record in records]
            recommender.engine.replay_observed(list(enumerate(events, position + 1)))
            position += len(records)
        gc.collect()
        (folder / FACTS).write_text(json.dumps({"users": users, "bytes_a_user": (resident() - before) / users}))
        learner = Learner(SHOP, recommender, LiveEvaluation(), position)
        save(folder / "made", learner.view())
        store.save(position, folder / "made")


def fill(recommender: Recommender, chosen: list[list[int]]) -> None:
    """Give users a past, as packed users have one."""
    users = recommender.engine.users
    for n, own in enumerate(chosen):
        slots = np.array(own, np.int32)
        users._packed[f"user{n}"] = packed(UserParts(own, None, (), {}, slots, np.ones(len(own), np.int32), 0))


class Server:
    """`coldstream serve`, and what it tells."""

    def __init__(self, folder: Path) -> None:
        flags = ["--data", str(folder), "--port", "0", "--snapshot-events", "0", "--snapshot-minutes", "0"]
        started = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "coldstream", "serve", *flags],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log: dict[str, Any] = {}
        self._wait_for("ready")
        self.seconds = time.perf_counter() - started
        self.port = int(self.log["listening"]["address"].rpartition(":")[2])

    def _wait_for(self, event: str) -> dict[str, Any]:
        assert self._process.stderr is not None
        for text in self._process.stderr:
            entry = json.loads(text)
            self.log[entry["event"]] = entry
            if entry["event"] == event:
                return entry
        raise SystemExit(f"the server ended: {self.log}")

    def post(self, path: str, body: Any, method: str = "POST") -> Any:
        """One request."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def erase(self, user: str) -> float:
        """Forget somebody; the seconds until that is answered."""
        started = time.perf_counter()
        self.post(f"/users/{user}", {}, "DELETE")
        return time.perf_counter() - started

    def snapshot(self) -> dict[str, Any]:
        """Take one, and hear what it cost."""
        self.post("/snapshot", {})
        return self._wait_for("a snapshot was written")

    def resident(self) -> int:
        """Bytes of memory: the process's, and what children have for themselves alone."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return _held(self._process.pid, "Rss") + sum(_held(int(pid), "Private_(?:Clean|Dirty)") for pid in children)

    def stop(self) -> float:
        """End it as one should; the seconds that took."""
        started = time.perf_counter()
        self._process.terminate()
        self._process.communicate()
        assert self._process.returncode == 0
        return time.perf_counter() - started


def _held(pid: int, what: str) -> int:
    """Bytes that a process has of a kind of memory; 0 where it is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return 1024 * sum(map(int, re.findall(rf"^{what}:\s+(\d+)", rollup, re.MULTILINE)))
    return 0


def batch(users: int, seed: int) -> list[dict[str, Any]]:
    """Events of anybody, with items that some choose more often than others."""
    rng = np.random.default_rng(seed)
    who, what = rng.integers(users, size=CHANGED).tolist(), (rng.random(CHANGED) ** 2 * (users // 5)).astype(int).tolist()
    return [{"user": f"user{user}", "item": f"item{item}"} for user, item in zip(who, what, strict=True)]


def longest(server: Server, users: int, seconds: float) -> Generator:
    """Recommendations at a pace, over one connection, for so long."""
    bodies = [{"user": f"user{n * 7919 % users}", "n": 10} for n in range(500)]
    return Generator(Load(server.port, "/recommend", bodies, 1, seconds, PACE))


def most_resident(server: Server, events: list[dict[str, Any]]) -> Iterator[int]:
    """Bytes of memory while another snapshot is taken. Nobody asks meanwhile: to count a process's pages holds it up."""
    server.post("/events", events[:500])
    with ThreadPoolExecutor(1) as thread:
        taking = thread.submit(server.snapshot)
        while not taking.done():
            yield server.resident()
        taking.result()


def built(users: int, observed: int) -> Row:
    """All figures at one size, of a store that is made for it."""
    with tempfile.TemporaryDirectory(prefix="coldstream-snapshots-") as name:
        folder = Path(name) / "data"
        command = [sys.executable, __file__, "--build", str(folder), "--users", str(users), "--observed", str(observed)]
        subprocess.run(command, check=True)
        return measured(folder)


def measured(folder: Path) -> Row:
    """All figures of a store that was built here."""
    facts = json.loads((folder / FACTS).read_text())
    users = facts["users"]
    full_bytes = max(path.stat().st_size for path in (folder / "snapshots").iterdir())
    server = Server(folder)
    held = server.resident()
    for user in range(3):
        server.post("/recommend", {"user": f"user{user}", "n": 10})
    leaving = 7 * int(time.time())  # whoever was erased from a store that is measured again is gone
    calm = longest(server, users, 4.0).outcome().longest
    taken, during = [], []
    for number in range(SNAPSHOTS):
        for first in range(0, CHANGED, 500):
            server.post("/events", batch(users, number)[first : first + 500])
        load = longest(server, users, 3.0 + 2 * full_bytes / 1e9)
        time.sleep(1.0)  # the generator has to start
        taken.append(server.snapshot())
        during.append(load.outcome().longest)
    most = max(held, *most_resident(server, batch(users, SNAPSHOTS)))
    erasure = max(server.erase(f"user{(leaving + n * 131) % users}") for n in range(ERASED))
    server.post("/events", batch(users, 99)[:500])
    stop = server.stop()
    increments, fulls = ([one for one in taken if one["kind"] == kind] for kind in ("increment", "full"))
    middle = statistics.median
    return Row(
        users,
        server.seconds,
        server.log["recovered"]["seconds"],
        1e3 * max(one["pause"] for one in increments),
        1e3 * max(one["pause"] for one in fulls),
        int(middle(one["bytes"] for one in increments)),
        full_bytes,
        middle(one["seconds"] for one in increments),
        middle(one["seconds"] for one in fulls),
        calm,
        max(during),
        held,
        most,
        stop,
        1e3 * erasure,
        facts["bytes_a_user"],
    )


FIGURES = (
    ("start, until it is ready (s)", "start", "{:.1f}", "≤ 15"),
    ("… of which reading the snapshot (s)", "recovered", "{:.1f}", ""),
    ("pause of an increment, the longest (ms)", "increment_pause", "{:.1f}", "≤ 10"),
    ("pause of a full one, the longest (ms)", "full_pause", "{:.1f}", "≤ 10"),
    ("longest recommend, no snapshot (ms)", "calm", "{:.1f}", ""),
    ("longest recommend during nine snapshots (ms)", "longest", "{:.1f}", "≤ 50"),
    ("an increment after 5,000 events (s)", "increment_seconds", "{:.2f}", ""),
    ("a full one (s)", "full_seconds", "{:.2f}", ""),
    ("bytes of an increment", "increment_bytes", "{:,}", ""),
    ("bytes of a full one", "full_bytes", "{:,}", ""),
    ("resident, everything (MB)", "resident", "{:,.0f}", "≤ 2,500"),
    ("… with the child that writes (MB)", "most", "{:,.0f}", ""),
    ("stop, with a last increment (s)", "stop", "{:.2f}", "≤ 3"),
    ("DELETE of a user, the longest of twenty (ms)", "erasure", "{:.1f}", "≤ 100"),
    ("bytes a user, three events and features included", "bytes_a_user", "{:,.0f}", ""),
)


def main() -> None:
    """The table by users."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=100_000, help="the most users")
    parser.add_argument("--observed", type=int, default=2**62, help="events that are observed, not put straight to users")
    parser.add_argument("--build", type=Path, help="a folder for a store with so many users, to be measured later")
    parser.add_argument("--built", type=Path, help="the store that was made so")
    args = parser.parse_args()
    if args.build is not None:
        build(args.build, args.users, args.observed)
        return
    print("snapshots, by users: each with three events, and a fifth as many items with attributes; default preset, SQLite")
    if args.built is None:
        rows = [built(size, args.observed) for size in SIZES if size <= args.users]
    else:
        rows = [built(SIZES[0], args.observed), measured(args.built)]
    print(f"{'':<52}" + "".join(f"{row.users:>15,}" for row in rows) + f"{'÷ first':>10}")
    for title, name, shape, bound in FIGURES:
        scale = 1e6 if "MB" in title else 1
        values = [getattr(row, name) / scale if scale != 1 else getattr(row, name) for row in rows]
        ratio = f"{values[-1] / values[0]:>10.1f}"
        print(f"{title:<52}" + "".join(f"{shape.format(value):>15}" for value in values) + f"{ratio}   {bound}")


if __name__ == "__main__":
    main()
