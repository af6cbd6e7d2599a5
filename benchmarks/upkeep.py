"""What deleting costs: how long `DELETE /users/{id}` takes as people grow in number, and what those notice who write while
people are erased from log and snapshots, and while old lines are deleted.

python benchmarks/upkeep.py [--users 10000,100000] [--events 2]

The writer runs in this process, over a real store in SQLite, so what is measured is everything but HTTP. Ratios are between
figures of one run.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from coldstream import Category, Id, Schema
from coldstream.config import Hyperparameters
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import Interaction, ItemPut, Record, UserPut
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.writing.writer import Writer
from coldstream.storage.sqlite.store import SqliteStore

SCHEMA = Schema(user=[Id(), Category("country")], item=[Id(), Category("brand")], context=[Category("device")])
DELETIONS = 30
AT_ONCE = 2000


def line(what: str, value: str) -> None:
    """One row of the report."""
    print(f"  {what:<72}{value:>22}", flush=True)


async def filled(writer: Writer, users: int, events: int) -> None:
    """Items, users and events: a fifth as many items as users."""
    items = users // 5
    records: list[Record] = [ItemPut(f"i{n}", {"brand": f"b{n % 500}"}) for n in range(items)]
    records += [UserPut(f"u{n}", {"country": f"c{n % 200}"}) for n in range(users)]
    records += [
        Interaction(f"u{n * 7919 % users}", f"i{n * n % items}", float(n), {"device": f"d{n % 5}"}, f"e{n}")
        for n in range(users * events)
    ]
    for first in range(0, len(records), AT_ONCE):
        await writer.write(records[first : first + AT_ONCE])


async def waits(writer: Writer, work: Awaitable[None]) -> list[float]:
    """How long single events wait for their answer while something goes on in the background, in seconds."""
    found, done = list[float](), asyncio.ensure_future(work)
    while not done.done():
        started = time.perf_counter()
        await writer.write([Interaction("u1", "i1", 0.0, {"device": "d1"})])
        found.append(time.perf_counter() - started)
        await asyncio.sleep(0.01)
    await done
    return found


async def until(holds: Callable[[], bool]) -> None:
    """Come back when something holds."""
    while not holds():
        await asyncio.sleep(0.02)


def shown(found: list[float]) -> str:
    """The median and the longest."""
    return f"{1e3 * statistics.median(found):.1f} / {1e3 * max(found):.0f} ms"


async def measured(users: int, events: int, folder: Path) -> float:
    """One size; the median of the deletions' times."""
    store = SqliteStore(folder / "data")
    learner = recovered(store, RequestedModel(SCHEMA, Hyperparameters(factors=8, negatives=5), 0))
    never = WriterLimits(snapshot_lines=0, snapshot_seconds=0, erase_seconds=1e9, evaluation_share=0.0)
    writer = Writer(store, learner, never, folder)
    await writer.start(lambda: None)
    await filled(writer, users, events)
    print(f"{users:,} users, {users // 5:,} items, {learner.position:,} lines")
    quiet = await waits(writer, asyncio.sleep(1.0))
    line("one event, nothing else going on: median / longest", shown(quiet))
    times = []
    for n in range(DELETIONS):
        started = time.perf_counter()
        await writer.forget(f"u{n * 31 + 2}")
        times.append(time.perf_counter() - started)
    line("a deletion: median / longest", shown(times))
    writer._upkeep._wait = 0.0  # now they have waited long enough
    started = time.perf_counter()
    during = await waits(writer, until(lambda: not writer.erasures.pending))
    line("all of them erased from log and snapshots", f"{time.perf_counter() - started:.1f} s")
    line("one event meanwhile: median / longest", shown(during))
    size, lines = _bytes(folder), learner.position
    await writer.snapshot()
    room = store.size()
    log = room - sum(path.stat().st_size for path in (folder / "data" / "snapshots").iterdir())
    writer.compaction._disk, writer.compaction._look_at = room - log // 2, 0.0
    started = time.perf_counter()
    during = await waits(
        writer, until(lambda: store.cut() > 0 and (writer.compaction.size or 1e18) <= writer.compaction._disk)
    )
    seconds = time.perf_counter() - started
    line("half of the log deleted: lines a second", f"{store.cut() / seconds:,.0f}")
    line("one event meanwhile: median / longest", shown(during))
    await writer.stop()
    line("bytes on disk before and after", f"{size / 2**20:,.0f} → {_bytes(folder) / 2**20:,.0f} MiB")
    line("lines that are left of all", f"{(lines - writer.compaction.cut) / lines:.0%}")
    return statistics.median(times)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """All sizes, and how a deletion grows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", default="10000,100000", help="sizes, joined by commas")
    parser.add_argument("--events", type=int, default=2, help="events of each user")
    args = parser.parse_args()
    found = {}
    for users in map(int, args.users.split(",")):
        with tempfile.TemporaryDirectory(prefix="coldstream-upkeep-") as name:
            found[users] = asyncio.run(measured(users, args.events, Path(name)))
    first = min(found)
    for users, seconds in found.items():
        line(f"a deletion at {users:,} users ÷ at {first:,}", f"{seconds / found[first]:.2f}")


if __name__ == "__main__":
    main()
