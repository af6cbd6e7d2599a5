"""Work that takes long, in steps: between two of them others get their turn."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from coldstream.inspection import Answer, Steps

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
