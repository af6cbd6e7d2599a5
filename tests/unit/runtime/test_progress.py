"""Waiting for a line of the log."""

import asyncio

from coldstream.runtime.replication.progress import Progress
from patience import PATIENCE


def test_everybody_is_told_who_waits_for_a_line_that_is_there() -> None:
    async def check() -> None:
        progress = Progress()
        waiting = [asyncio.create_task(progress.wait(position, PATIENCE)) for position in (7, 5, 9, 5)]
        await asyncio.sleep(0)
        progress.reached(6)
        await asyncio.wait_for(asyncio.gather(waiting[1], waiting[3]), PATIENCE)
        assert [task.done() for task in waiting] == [False, True, False, True]
        progress.reached(9)
        assert await asyncio.gather(*waiting) == [True] * 4

    asyncio.run(check())


def test_who_waits_too_long_is_told_so_and_forgotten() -> None:
    async def check() -> None:
        progress = Progress()
        assert not await progress.wait(3, 0.01)
        progress.reached(5)
        assert progress._waiting == []

    asyncio.run(check())
