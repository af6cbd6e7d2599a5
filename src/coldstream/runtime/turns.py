"""Work that takes long, in steps: between two of them others get their turn."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

from coldstream.support.steps import Answer, Steps

SLICE = 0.001
"""Seconds on the event loop after which others get their turn."""

TURNS = 4
"""Turns of the loop between two slices: a request that came meanwhile is read, handled, answered with others, and sent."""

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


class Slices:
    """The slices of a request whose work grows with what its client sends.

    Requests that share a `pausing` lock share the loop as one: of all of them together one slice is done, and then `TURNS`
    turns of the loop go to everybody else.
    """

    def __init__(self, pausing: asyncio.Lock) -> None:
        self._pausing, self._since = pausing, -math.inf

    async def pause_if_over(self) -> None:
        """Let others have their turns if the slice has lasted long enough."""
        if perf_counter() - self._since > SLICE:
            async with self._pausing:
                for _ in range(TURNS):
                    await asyncio.sleep(0)
            self._since = perf_counter()
