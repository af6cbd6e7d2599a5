"""Work that takes long, in steps: between two of them others get their turn."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

from coldstream.lists.inspection import Answer, Steps

SLICE = 0.001
"""Seconds on the event loop after which others get their turn."""

_next_turn = partial(asyncio.sleep, 0)


async def in_turns(steps: Steps[Answer], pause: Callable[[], Awaitable[None]] = _next_turn) -> Answer:
    """The answer of work in steps, on the event loop, where nothing changes during a step; after each comes a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        await pause()


async def in_slices(steps: Steps[Answer], pause: Callable[[], Awaitable[None]] = _next_turn) -> Answer:
    """The same with a pause only where the steps since the last one have taken a slice."""
    since = perf_counter()

    async def now_and_then() -> None:
        nonlocal since
        if perf_counter() - since > SLICE:
            await pause()
            since = perf_counter()

    return await in_turns(steps, now_and_then)
