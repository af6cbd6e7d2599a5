"""Campaigns of kills: a service with busy customers is killed at any moment, again and again, on one store."""

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from forked import Nursery, NurseryHome
from test_durability import KINDS, SETTINGS, survive, survive_writing

ROUNDS = 50
"""Kills of one campaign. Then another store begins, because every round reads its whole log."""


class Survived(NamedTuple):
    """What campaigns came to."""

    kills: int
    events: int
    """Acknowledged, and found again."""
    seconds: float


def while_writing(kind: str, kills: int, seed: int, url: Callable[[Path], str], say: Callable[[str], None]) -> Survived:
    """Kill so often while a full snapshot is written, and as often while an increment is, on stores of one kind."""
    started, events, nursery = time.monotonic(), 0, None
    with tempfile.TemporaryDirectory(prefix="coldstream-torture-") as name:
        for number, file in enumerate(KINDS):
            folder = Path(name) / file
            folder.mkdir()
            home = NurseryHome(folder, url(folder), nursery)
            if nursery is None:
                nursery = home.nursery = Nursery(home.schema)
            customers = survive_writing(home, random.Random(seed + number), file, kills)
            events += sum(len(customer.acknowledged) for customer in customers)
            say(f"  {kind}: {kills:,} kills survived while a file was written that was {file}")
        if nursery is not None:
            nursery.close()
    return Survived(len(KINDS) * kills, events, time.monotonic() - started)


def campaign(
    kind: str,
    kills: int,
    seed: int,
    url: Callable[[Path], str],
    say: Callable[[str], None],
    settings: tuple[Any, ...] = SETTINGS,
) -> Survived:
    """Kill so often on stores of one kind; whatever is lost, learned twice or different raises."""
    started, events, done = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="coldstream-torture-") as name:
        nursery: Nursery | None = None
        while done < kills:
            folder = Path(name) / str(done)
            folder.mkdir()
            rounds = min(ROUNDS, kills - done)
            home = NurseryHome(folder, url(folder), nursery)
            if nursery is None:
                nursery = home.nursery = Nursery(home.schema)
            customers = survive(home, random.Random(seed + done), rounds, settings)
            events += sum(len(customer.acknowledged) for customer in customers)
            done += rounds
            say(f"  {kind}: {done:,} of {kills:,} kills survived, {events:,} events acknowledged and found")
        if nursery is not None:
            nursery.close()
    return Survived(done, events, time.monotonic() - started)
