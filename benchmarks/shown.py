"""What an erasure costs where many lists are kept: `DELETE /users/{id}`, the longest wait of others, and a stop.

Kept lists are written into `shown.sqlite` before the service starts. Then one client sends events that name unknown lists
and asks for lists to be shown, while another deletes people one after the other; half a second after the last deletion the
service gets SIGTERM. Times are of one run on one machine: compare two commits by running both on the same machine.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from typing import Any

from coldstream.storage.shown import ShownList
from coldstream.storage.sqlite.shown import DATABASE, SqliteShown

SCHEMA = '[user]\nid = { kind = "id" }\n[item]\nid = { kind = "id" }\n'
ITEMS = 100
"""Items in each kept list."""

PEOPLE = 20_000


def filled(folder: Path, megabytes: int) -> int:
    """Keep lists until the file has a size; how many were kept."""
    kept, now = 0, time.time()
    with closing(SqliteShown(folder)) as shown:
        while (folder / DATABASE).stat().st_size < megabytes * 1e6:
            shown.keep([_list(kept + n, now) for n in range(1000)])
            kept += 1000
    return kept


def _list(n: int, now: float) -> ShownList:
    items = tuple(f"item-{(n * 7919 + k * 104729) % 1_000_000:06}" for k in range(ITEMS))
    return ShownList(f"list-{n:011}", f"u{n % PEOPLE}", now, items)


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=300)

    def seconds(self, method: str, path: str, body: Any = None) -> float:
        """How long it takes to be answered."""
        started = time.perf_counter()
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == 200, (method, path, answer.status)
        return time.perf_counter() - started


def others(port: int, done: Event, waits: dict[str, list[float]]) -> None:
    """Send events that name unknown lists, and ask for lists that are shown, until it is enough."""
    client, n = Client(port), 0
    while not done.is_set():
        n += 1
        event = {"user": f"v{n % 50}", "item": f"i{n % 50}", "recommendation_id": f"unknown-{n}"}
        waits["an event"].append(client.seconds("POST", "/events", event))
        request = {"user": f"v{n % 50}", "n": 10, "remember": True}
        waits["a recommendation"].append(client.seconds("POST", "/recommend", request))
        time.sleep(0.005)


def measured(folder: Path, megabytes: int, deletions: int) -> None:
    """Print what was measured."""
    (folder / "data").mkdir()
    started = time.perf_counter()
    kept = filled(folder / "data", megabytes)
    size = (folder / "data" / DATABASE).stat().st_size / 1e6
    print(f"{kept:,} lists of {ITEMS} items, {size:,.0f} MB, kept in {time.perf_counter() - started:.1f} s", flush=True)
    (folder / "schema.toml").write_text(SCHEMA)
    command = [sys.executable, "-m", "coldstream", "serve", "--port", "0", "--erase-minutes", "0.02"]
    command += ["--schema", str(folder / "schema.toml"), "--data", str(folder / "data")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(folder)})
    port, worse = 0, list[str]()
    assert process.stderr is not None
    for text in process.stderr:
        entry = json.loads(text)
        if entry["event"] == "listening":
            port = int(entry["address"].rpartition(":")[2])
        if entry["event"] == "ready":
            break

    def read_on() -> None:
        assert process.stderr is not None
        worse.extend(json.loads(text)["event"] for text in process.stderr if '"level": "info"' not in text)

    reader = Thread(target=read_on)
    reader.start()
    client, done = Client(port), Event()
    client.seconds("POST", "/items", [{"id": f"i{n}"} for n in range(50)])
    client.seconds("POST", "/events", [{"user": f"u{n}", "item": f"i{n % 50}"} for n in range(500)])
    quiet: dict[str, list[float]] = {"an event": [], "a recommendation": []}
    waits: dict[str, list[float]] = {"an event": [], "a recommendation": []}
    _with_others(port, quiet, lambda: time.sleep(2.0))
    times = list[float]()

    def delete() -> None:
        for n in range(deletions):
            times.append(client.seconds("DELETE", f"/users/u{n}"))
            time.sleep(1.0)

    _with_others(port, waits, delete)
    print(f"  DELETE: longest {max(times):.3f} s, shortest {min(times):.3f} s, of {len(times)}")
    for what, own in waits.items():
        print(f"  {what}: longest {max(own):.3f} s of {len(own):,}; without deletions {max(quiet[what]):.3f} s")
    times.append(client.seconds("DELETE", f"/users/u{deletions}"))
    time.sleep(0.5)
    done.set()
    started = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    process.wait()
    print(f"  a stop half a second after a DELETE: {time.perf_counter() - started:.3f} s")
    reader.join()
    print(f"  warnings and errors in the log: {worse or 'none'}", flush=True)


def _with_others(port: int, waits: dict[str, list[float]], work: Any) -> None:
    done = Event()
    thread = Thread(target=others, args=(port, done, waits))
    thread.start()
    try:
        work()
    finally:
        done.set()
        thread.join()


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=750, help="of kept lists")
    parser.add_argument("--deletions", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="coldstream-shown-") as name:
        measured(Path(name), args.megabytes, args.deletions)


if __name__ == "__main__":
    main()
