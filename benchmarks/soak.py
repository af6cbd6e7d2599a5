"""A stream that never ends, in memory that does: new users, items and values all the time, under a budget.

    python benchmarks/soak.py --events 10000000                  # the library, beside a twin without bounds
    python benchmarks/soak.py --twin --events 10000000           # the twin alone, to be compared with a table of before
    python benchmarks/soak.py --service --events 1000000         # the service, by HTTP

A table by tenths of the stream: resident memory, what the budget counts, p99 of `learn` and of `recommend`, and recall@10.
With `--service` events go in batches of 100. After the first fifth memory has to be flat within 5 %, p99 within 1.5 times,
and recall within .005 of the twin's; what is not is said at the end, and by the exit status.

An hour of a shared machine is not like the next. So a small recommender that stays as it is learns the same event again and
again in between: by how much its p99 changes, the machine did. The table has p99 as a multiple of it too, and flat is what
is flat as that multiple.
"""

import argparse
import http.client
import json
import math
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from coldstream import Bounds, Category, Event, Id, Recommender, Schema

TENTHS, TOP, GROUPS = 10, 10, 20
USERS, ITEMS = 20_000, 5_000
"""Who is there at once: one user in ten events is new and another never comes again, one item in fifty."""
SAME_WORK = "the same small piece of work"
EVERY = 20
"""Every so many-th event is ranked first, and its list timed."""
SCHEMA = Schema(user=[Id()], item=[Id(), Category("group")], context=[Category("campaign", most=50_000)], exclude_seen=False)


class Row(NamedTuple):
    """One tenth of the stream."""

    events: int
    resident: float
    counted: float
    learn: float
    recommend: float
    recall: float
    machine: float
    """p99 of the same piece of work throughout, in µs."""


class Gauge:
    """How fast the machine is meanwhile: a recommender that stays small learns one event of one user, over and over."""

    def __init__(self) -> None:
        self._recommender = Recommender(SCHEMA, seed=1)
        self._recommender.put_items((f"i{n}", group_of(f"i{n}")) for n in range(1000))
        self._event = Event("u", "i1", context={"campaign": "c"})
        self._seconds = list[float]()

    def look(self) -> None:
        """Do it once more."""
        start = time.perf_counter()
        self._recommender.learn(self._event)
        self._seconds.append(time.perf_counter() - start)

    def p99(self) -> float:
        """Of the times since this was asked last, in µs."""
        seconds, self._seconds = self._seconds, []
        return _p99(seconds)


def stream(count: int, seed: int = 1) -> Iterator[tuple[Event, str | None, str | None]]:
    """Events, each with an item that has just come and one that has just gone, where there are any."""
    rng = np.random.default_rng(seed)
    for first in range(0, count, 10_000):
        draws = rng.random((10_000, 5))
        for t, (a, b, c, d, e) in zip(range(first, min(first + 10_000, count)), draws.tolist(), strict=False):
            user, newest = t // 10 + int(a * a * USERS), t // 50 + ITEMS - 1
            item = newest - int(b * b * ITEMS)
            if c < 0.8:  # a user has a group of items, which is found again in a newcomer's first events
                item -= (item - user) % GROUPS
            campaign = f"c{t // 500}" if d < 0.7 else f"once-{t}-{e:.3f}"
            comes, goes = (f"i{newest}", f"i{newest - ITEMS - GROUPS}") if t % 50 == 0 else (None, None)
            yield Event(f"u{user}", f"i{item}", float(t), {"campaign": campaign}), comes, goes


def resident(process: int | str = "self") -> float:
    """MiB that a process holds."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def group_of(item: str) -> dict[str, str]:
    """What a shop says of an item."""
    return {"group": f"g{int(item[1:]) % GROUPS}"}


def in_library(events: int, memory: str, seed: int) -> list[Row]:
    """The stream through one recommender under a budget, event by event."""
    recommender, gauge = _begun(Bounds(memory=memory), seed), Gauge()
    rows, learned, listed, hits = list[Row](), list[float](), list[float](), 0
    for t, (event, comes, goes) in enumerate(stream(events), 1):
        _turn_over(recommender, comes, goes)
        if t % EVERY == 0:
            start = time.perf_counter()
            best = recommender.recommend(event.user, TOP, context=event.context, time=event.time)
            listed.append(time.perf_counter() - start)
            hits += event.item in [one.item for one in best]
            gauge.look()
        start = time.perf_counter()
        recommender.learn(event)
        learned.append(time.perf_counter() - start)
        if t % (events // TENTHS) == 0:
            used = recommender.memory.used / 2**20
            rows.append(Row(t, resident(), used, _p99(learned), _p99(listed), hits / len(listed), gauge.p99()))
            learned, listed, hits = [], [], 0
            show(rows[-1:])
    return rows


def without_bounds(events: int, seed: int) -> list[Row]:
    """The same through a twin that keeps everything. Nobody looks at its times, so it learns several at once: the same bits.

    It has a core and a session of its own, so as not to be in the way: Linux shares a core between sessions first.
    """
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[1:] or cores)
    os.setsid()
    return list(_rows_of_twin(events, seed))


def _rows_of_twin(events: int, seed: int) -> Iterator[Row]:
    recommender = _begun(Bounds.none(), seed)
    waiting, asked, hits = list[tuple[int, Event]](), 0, 0
    for t, (event, comes, goes) in enumerate(stream(events), 1):
        if comes is not None or t % EVERY == 0:
            recommender.engine.replay(waiting)
            waiting = []
            _turn_over(recommender, comes, goes)
        if t % EVERY == 0:
            best = recommender.recommend(event.user, TOP, context=event.context, time=event.time)
            asked, hits = asked + 1, hits + (event.item in [one.item for one in best])
        waiting.append((t, event))
        if t % (events // TENTHS) == 0:
            yield Row(t, resident(), recommender.memory.used / 2**20, math.nan, math.nan, hits / asked, math.nan)
            asked = hits = 0


def _begun(bounds: Bounds, seed: int) -> Recommender:
    recommender = Recommender(SCHEMA, seed=seed, bounds=bounds)
    recommender.put_items((f"i{n}", group_of(f"i{n}")) for n in range(ITEMS))
    return recommender


def _turn_over(recommender: Recommender, comes: str | None, goes: str | None) -> None:
    """An item comes, and another goes."""
    if comes is not None and not recommender.has_item(comes):
        recommender.put_item(comes, group_of(comes))
    if goes is not None and recommender.has_item(goes):
        recommender.remove_item(goes)


def _p99(seconds: Sequence[float]) -> float:
    return float(np.quantile(seconds, 0.99) * 1e6)


class _Client:
    """One connection to a service of our own."""

    def __init__(self, folder: Path, memory: str, port: int) -> None:
        schema = folder / "schema.toml"
        schema.write_text(SCHEMA.toml())
        command = [sys.executable, "-m", "coldstream", "serve", "--schema", str(schema), "--data", str(folder / "data")]
        command += ["--memory", memory, "--port", str(port), "--log-level", "error"]
        self.process = subprocess.Popen(command)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        while True:
            try:
                self.call("GET", "/ready")
                return
            except (OSError, RuntimeError):
                self._connection.close()
                time.sleep(0.2)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to a request."""
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, text, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:200]!r}")
        return json.loads(content)


def in_service(events: int, memory: str) -> list[Row]:
    """The stream through the service, in batches of 100; the figures of `learn` are those of a batch."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        client = _Client(Path(folder), memory, port)
        rows, learned, listed, hits, batch = list[Row](), list[float](), list[float](), 0, list[dict[str, Any]]()
        client.call("POST", "/items", [{"id": f"i{n}", "attributes": group_of(f"i{n}")} for n in range(1000)])
        for t, (event, comes, goes) in enumerate(stream(events), 1):
            if comes is not None:
                client.call("PUT", f"/items/{comes}", {"attributes": group_of(comes)})
            if goes is not None and int(goes[1:]) >= 0 and t > events // TENTHS:
                _leave(client, goes)
            batch.append({"user": event.user, "item": event.item, "time": event.time, "context": dict(event.context)})
            if t % 100 == 0:
                asked = {"user": event.user, "n": TOP, "context": dict(event.context), "time": event.time}
                start = time.perf_counter()
                best = client.call("POST", "/recommend", asked)["items"]
                listed.append(time.perf_counter() - start)
                hits += event.item in [one["item"] for one in best]
                start = time.perf_counter()
                client.call("POST", "/events", batch)
                learned.append(time.perf_counter() - start)
                batch = []
            if t % (events // TENTHS) == 0:
                used = sum(client.call("GET", "/live")["service"]["memory"]["parts"].values()) / 2**20
                held = resident(client.process.pid)
                rows.append(Row(t, held, used, _p99(learned), _p99(listed), hits / len(listed), math.nan))
                learned, listed, hits = [], [], 0
                show(rows[-1:])
        client.process.send_signal(signal.SIGTERM)
        client.process.wait()
    return rows


def _leave(client: _Client, item: str) -> None:
    with suppress(RuntimeError):  # nobody ever put or chose it
        client.call("DELETE", f"/items/{item}")


def show(rows: Sequence[Row]) -> None:
    """Rows of the table."""
    for row in rows:
        figures = f"{row.resident:>12.0f}{row.counted:>12.0f}{row.learn:>14.0f}{row.recommend:>16.0f}{row.recall:>11.4f}"
        multiples = f"{row.machine:>13.0f}{row.learn / row.machine:>9.2f}{row.recommend / row.machine:>12.2f}"
        print(f"{row.events:>12,}{figures}{'' if math.isnan(row.machine) else multiples}", flush=True)


def draw(path: Path, rows: Sequence[Row], twin: Sequence[Row]) -> None:
    """Memory, speed and recall over the stream, as a picture."""
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    for axes, title, names in zip(
        figure.subplots(1, 3),
        ("resident memory, MiB", "p99, µs", f"recall@{TOP}"),
        (("resident",), ("learn", "recommend", "machine"), ("recall",)),
        strict=True,
    ):
        for label, dash, shown in (("within the budget", "-", rows), ("without bounds", ":", twin)):
            for name in (own for own in names if shown and not math.isnan(getattr(shown[0], own))):
                text = label if len(names) == 1 else SAME_WORK if name == "machine" else name
                axes.plot([row.events / 1e6 for row in shown], [getattr(row, name) for row in shown], dash, label=text)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("million events", fontsize=8)
        axes.set_ylim(0, 1.25 * axes.get_ylim()[1])
        axes.tick_params(labelsize=8)
        axes.legend(fontsize=7, frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def complaints(rows: Sequence[Row], twin: Sequence[Row]) -> list[str]:
    """What is not as it should be after the first fifth."""
    first, rest = rows[1], rows[2:]
    found = []
    if max(row.resident for row in rest) > 1.05 * first.resident:
        found.append("memory grew by more than 5 % after the first fifth")
    for name in ("learn", "recommend"):
        # A service is a process of its own, and what another does meanwhile says little of it.
        measured = [getattr(row, name) / (1.0 if math.isnan(row.machine) else row.machine) for row in (first, *rest)]
        if max(measured[1:]) > 1.5 * measured[0]:
            found.append(f"p99 of {name} grew by more than half after the first fifth")
    lost = np.mean([own.recall for own in twin[2:]]) - np.mean([own.recall for own in rest]) if twin else 0.0
    if lost > 0.005:
        found.append(f"recall is {lost:.4f} below the twin's")
    return found


def main() -> int:
    """The table, and whether it is as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=10_000_000, help="of the stream")
    parser.add_argument("--memory", default="512 MiB", help="the budget")
    parser.add_argument("--service", action="store_true", help="through the service, by HTTP")
    parser.add_argument("--twin", action="store_true", help="without bounds, and nothing else")
    parser.add_argument("--plot", type=Path, help="a file for a picture")
    options = parser.parse_args()
    print(f"{'events':>12}{'MiB held':>12}{'counted':>12}{'learn p99 µs':>14}{'recommend p99':>16}{'recall@10':>11}", end="")
    print(f"{'machine p99':>13}{'learn ÷':>9}{'recommend ÷':>12}")
    if options.twin:
        for row in _rows_of_twin(options.events, 1):
            show([row])
        return 0
    twin = list[Row]()
    if options.service:
        rows = in_service(options.events, options.memory)
    else:
        with multiprocessing.Pool(1) as pool:
            beside = pool.apply_async(without_bounds, (options.events, 1))
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
            rows = in_library(options.events, options.memory, 1)
            twin = beside.get()
        print("without bounds")
        show(twin)
    if options.plot:
        draw(options.plot, rows, twin)
    found = complaints(rows, twin)
    print("\n".join(found) or "flat after the first fifth")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
