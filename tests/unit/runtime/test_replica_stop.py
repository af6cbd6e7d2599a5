"""What a replica does when it stops: a follower stops to follow, and learns the rest first where nobody else goes on."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from coldstream.runtime.replica import Replica
from coldstream.storage.sharing import News


class Following:
    """A follower that notes what it is asked for."""

    def __init__(self, *, stopped: bool = False, failed: Exception | None = None) -> None:
        self.asked: list[str] = []
        self.stopped, self.failed = stopped, failed

    async def finish(self) -> None:
        self.asked.append("finish")

    async def stop(self) -> None:
        self.asked.append("stop")


def asked_of(follower: Following, *, held: bool | None) -> list[str]:
    async def run() -> None:
        unused = cast(Any, None)
        replica = Replica(unused, unused, unused, Path(), unused, 1.0, unused)
        replica.current = cast(Any, follower)
        replica.news = None if held is None else News(1, 2, 0, None, 0, held, followed=False)
        await replica.stop()

    asyncio.run(run())
    return follower.asked


@pytest.mark.parametrize(
    ("held", "follower", "asked"),
    [
        (True, Following(), ["stop"]),
        (None, Following(), ["stop"]),
        (False, Following(), ["finish", "stop"]),
        (False, Following(failed=ValueError("no more")), ["stop"]),
        (False, Following(stopped=True), []),
    ],
    ids=["another writes", "nothing is known", "nobody writes", "it failed", "it stopped before"],
)
def test_a_follower_is_stopped(held: bool | None, follower: Following, asked: list[str]) -> None:
    assert asked_of(follower, held=held) == asked
