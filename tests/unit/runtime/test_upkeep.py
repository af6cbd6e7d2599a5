"""What is done in the background: begun when it is due, one at a time, and after a failure not at once again."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from coldstream.errors import Interrupted, StoreUnavailable
from coldstream.runtime.writing import upkeep as module
from coldstream.runtime.writing.upkeep import RETRY_AFTER, Upkeep

WAIT = 60.0
LEARNER: Any = object()


class Work:
    """Erasures and a compaction, as much of them as an upkeep asks for; what was done stands in a list."""

    def __init__(self, waiting: float | None = None, old_lines: bool = False) -> None:
        self.done: list[str] = []
        self.now = 1000.0
        self.fails: Exception | None = None
        self.erasures: Any = SimpleNamespace(
            pending={} if waiting is None else {"ann": 7}, oldest_seconds=waiting or 0.0, erase=self._erase
        )
        self.compaction: Any = SimpleNamespace(is_due=old_lines, compact=self._compact)
        self.upkeep = Upkeep(self.erasures, self.compaction, None, WAIT, None)  # type: ignore[arg-type]

    async def _erase(self, *_: object) -> None:
        await asyncio.sleep(0)
        if self.fails is not None:
            raise self.fails
        self.done.append("erased")
        self.erasures.pending = {}

    async def _compact(self, *_: object) -> None:
        self.done.append("deleted")

    async def look(self) -> int:
        """How much was done when it was looked for what is due, and that was waited for."""
        before = len(self.done)
        self.upkeep.begin_if_due(LEARNER)
        await self.upkeep.end()
        return len(self.done) - before


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


@pytest.mark.parametrize(
    ("waiting", "old_lines", "done"),
    [
        (None, False, []),
        (WAIT - 0.1, False, []),
        (WAIT, False, ["erased"]),
        (None, True, ["deleted"]),
        (WAIT, True, ["erased", "deleted"]),
        (WAIT - 0.1, True, []),  # lines of those who are to be erased stay until they are
    ],
)
def test_what_is_due_is_done(waiting: float | None, old_lines: bool, done: list[str]) -> None:
    async def work() -> None:
        own = Work(waiting, old_lines)
        await own.look()
        assert own.done == done

    run(work)


def test_nobody_is_erased_at_once_where_there_is_nobody() -> None:
    """Where nobody waits to be erased, `oldest_seconds` is 0, and so may be how long they are to wait."""

    async def work() -> None:
        own = Work()
        own.upkeep = Upkeep(own.erasures, own.compaction, None, 0.0, None)  # type: ignore[arg-type]
        await own.look()
        assert own.done == []

    run(work)


def test_one_thing_at_a_time_and_then_the_next() -> None:
    async def work() -> None:
        own = Work(old_lines=True)
        for _ in range(3):
            own.upkeep.begin_if_due(LEARNER)
        await own.upkeep.end()
        assert own.done == ["deleted"]
        assert await own.look() == 1

    run(work)


@pytest.mark.parametrize(
    ("error", "pause"),
    [(StoreUnavailable("the disk is full"), RETRY_AFTER), (ZeroDivisionError(), RETRY_AFTER), (Interrupted("a stop"), 0.0)],
)
def test_after_a_failure_it_is_left_alone_for_a_while(
    error: Exception, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        own = Work(WAIT)
        monkeypatch.setattr(module, "monotonic", lambda: own.now)
        own.fails = error
        await own.look()
        own.fails = None
        if pause:
            own.now += pause - 0.1
            assert await own.look() == 0
            own.now += 0.1
        assert await own.look() == 1

    run(work)
