"""Kills while old lines are deleted, and while a backup is written: nothing is lost, and no bit differs."""

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from customers import Customer, busy, check_promises, event_ids
from forked import Nursery, NurseryHome
from served import Home
from test_checksums import Raw
from test_durability import check_snapshots
from twin import Twin

from coldstream.cli import main
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.verification import verified
from coldstream.storage import stores
from conftest import bits

CUSTOMERS = 3
RETAIN = 8.0
"""Seconds that lines are kept: longer than a round takes, so that every line is seen and every id known when it counts."""
PATIENCE = 240.0
"""Seconds for a first deletion, or a whole backup, where services are killed before they get to it."""
SETTINGS = ("--snapshot-events", 50, "--retain", f"{RETAIN:g}s")

SAME = RequestedModel(None, None, None)


class Outcome(NamedTuple):
    """What rounds of kills came to."""

    rounds: int
    interrupted: int
    """Kills that came before something was finished."""
    deleted: int
    """Lines that were deleted in the end, or backups that were whole."""
    seconds: float


class Witness:
    """Knows every line that there ever was, and what they lead to."""

    def __init__(self, home: Home) -> None:
        self.home, self.twin = home, Twin()
        self.lines: dict[int, dict[str, Any]] = {}
        self.customers = [Customer(f"customer{n}") for n in range(CUSTOMERS)]

    @property
    def known(self) -> set[str]:
        return set(event_ids(self.lines))

    def look(self) -> int:
        """See what is new, and that nothing is missing; up to where lines are deleted."""
        self.home.rest()
        found = self.home.lines()
        with self.home.look() as store:
            cut, last = store.cut(), store.last()
        assert cut <= max(self.lines, default=1), "a round took longer than lines are kept: the machine is too busy"
        assert sorted(found) == list(range(cut + 1, last + 1))
        assert all(self.lines[position] == line for position, line in found.items() if position in self.lines)
        self.lines |= found
        check_promises(self.customers, self.lines)
        return cut

    def check_started(self, server: Any) -> None:
        """A started server knows every line there ever was, and learned every event once."""
        client = server.ready().client()
        assert client.done("GET", "/ready") == {"position": max(self.lines, default=1)}
        assert client.done("GET", "/evaluation")["events"] == len(event_ids(self.lines))


def survive_compaction(home: Home, chance: random.Random, rounds: int) -> Outcome:
    """Kill a service so often that deletes old lines all the time."""
    started, witness, interrupted, cut = time.monotonic(), Witness(home), 0, 0
    for number in range(rounds):
        with home.serve(*SETTINGS) as server:
            witness.check_started(server)
            if not cut and number >= rounds // 2:  # nobody posts meanwhile: lines that were never seen must not become old
                _wait_for_a_deletion(home, cut, PATIENCE, chance)
            with busy(witness.customers, server, witness.known):
                _wait_for_a_deletion(home, cut, chance.uniform(0.3, 1.0), chance)
                assert server.runs()
                server.kill()
        cut = witness.look()
        interrupted += _left_to_delete(home)
        check_snapshots(home, witness.twin, witness.lines)
    _end(home, witness)
    return Outcome(rounds, interrupted, cut, time.monotonic() - started)


def survive_backups(home: NurseryHome, chance: random.Random, rounds: int, new_url: Callable[[], str]) -> Outcome:
    """Kill the backup or the service so often while a backup is written; whatever is whole is restored and compared."""
    started, witness, interrupted, whole = time.monotonic(), Witness(home), 0, 0
    for number in range(rounds):
        file = home.folder / f"backup{number}"
        with home.serve(*SETTINGS) as server:
            witness.check_started(server)
            assert home.nursery is not None
            with busy(witness.customers, server, witness.known):
                time.sleep(chance.uniform(0.05, 0.3))
                pid, log = home.nursery.forked(("backup", file, *home.flags), home.folder)
                if whole or number < rounds - 1:
                    time.sleep(chance.uniform(0, 0.25))
                else:  # on a busy machine none may have become whole so far
                    home.nursery.death(pid)
                if number % 2:
                    _kill(pid)
                server.kill()
                home.nursery.death(pid)
                log.close()
        witness.look()
        if file.exists():
            whole += 1
            _check_restored(file, witness, new_url())
            file.unlink()
        else:
            interrupted += 1
        for left in home.folder.glob(".*.writing"):
            left.unlink()
        check_snapshots(home, witness.twin, witness.lines)
    _end(home, witness)
    return Outcome(rounds, interrupted, whole, time.monotonic() - started)


def campaign(
    url: Callable[[Path], str], rounds: int, seed: int, say: Callable[[str], None], kind: str
) -> tuple[Outcome, Outcome]:
    """Both, on stores of one kind."""
    with tempfile.TemporaryDirectory(prefix="coldstream-upkeep-") as name:
        outcomes, nursery = list[Outcome](), None
        for number in range(2):
            folder = Path(name) / str(number)
            folder.mkdir()
            home = NurseryHome(folder, url(folder), nursery)
            if nursery is None:
                nursery = home.nursery = Nursery(home.schema)
            chance, fresh = random.Random(seed + number), _fresh(folder, url)
            outcomes.append(
                survive_backups(home, chance, rounds, fresh) if number else survive_compaction(home, chance, rounds)
            )
            say(f"  {kind}: {'backups' if number else 'deletion of old lines'}: {outcomes[-1]}")
        assert nursery is not None
        nursery.close()
    return outcomes[0], outcomes[1]


def _fresh(folder: Path, url: Callable[[Path], str]) -> Callable[[], str]:
    def new_url() -> str:
        place = Path(tempfile.mkdtemp(dir=folder))
        return url(place)

    return new_url


def _wait_for_a_deletion(home: Home, before: int, seconds: float, chance: random.Random) -> None:
    """The moment at which more lines begin to be deleted, and a little more; or so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with home.look() as store:
            if store.cut() > before:
                time.sleep(chance.uniform(0, 0.02))
                return
        time.sleep(0.002)


def _left_to_delete(home: Home) -> bool:
    """Whether lines are there that were to be deleted."""
    with home.look() as store:
        cut = store.cut()
    with closing(Raw(home.url)) as raw:
        ((first,),) = raw.do("SELECT min(position) FROM {}log")
    return bool(cut and first < cut - 10)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it was done before
        os.kill(pid, signal.SIGKILL)


def _check_restored(file: Path, witness: Witness, url: str) -> None:
    """What was restored has the lines of its moment, and leads to the bits of an uninterrupted run at its last."""
    flags = ("--data", url.removeprefix("sqlite:")) if url.startswith("sqlite:") else ("--store", url)
    assert main(["restore", str(file), *flags]) == 0
    with closing(stores.inspected(url)) as view:
        assert verified(view, False, lambda _: None).different == []
        own = {entry.position for entry in view.read(0)}
        assert own <= set(witness.lines)
        last = view.last()
    with closing(stores.opened(url)) as store:
        assert bits(recovered(store, SAME).recommender) == bits(witness.twin.follow(witness.lines, last).recommender)


def _end(home: Home, witness: Witness) -> None:
    with home.serve(*SETTINGS) as server:
        witness.check_started(server)
        client, known = server.client(), witness.known
        for customer in witness.customers:
            customer.settle(client, known)
        assert server.terminate() == 0
    witness.look()
    with home.look() as store:
        newest, *others = store.snapshots()
        assert others
        assert witness.twin.follow(witness.lines, newest.position).is_like(store, newest)
    assert "the same, bit by bit" in home.verify()
