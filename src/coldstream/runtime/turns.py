"""Cooperative scheduling: run long work in steps on the event loop, so that other tasks run in between."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

from coldstream.support.steps import Answer, Steps

SLICE = 0.001
"""Seconds on the event loop after which a long task yields to others."""

TURNS = 4
"""Iterations of the event loop between two slices.

That many are needed to read a request that arrived meanwhile, handle it, answer it in a batch, and send the answer.
"""

_next_turn = partial(asyncio.sleep, 0)


async def in_turns(steps: Steps[Answer], pause: Callable[[], Awaitable[None]] = _next_turn) -> Answer:
    """Run work in steps on the event loop with a pause after each step, and return its answer.

    No other task runs during a step; state may change during a pause.
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        await pause()


async def in_slices(steps: Steps[Answer], pause: Callable[[], Awaitable[None]] = _next_turn) -> Answer:
    """Run work in steps on the event loop with a pause whenever `SLICE` seconds have passed, and return its answer."""
    since = perf_counter()

    async def now_and_then() -> None:
        nonlocal since
        if perf_counter() - since > SLICE:
            await pause()
            since = perf_counter()

    return await in_turns(steps, now_and_then)


class Slices:
    """Time slices of a request whose work grows with the size of its body.

    Requests with the same `pausing` lock share the loop as one task: after one slice of all of them together, `TURNS`
    iterations of the loop go to other tasks.
    """

    def __init__(self, pausing: asyncio.Lock) -> None:
        self._pausing, self._since = pausing, -math.inf

    async def pause_if_over(self) -> None:
        """Yield to other tasks if the current slice has lasted longer than `SLICE` seconds."""
        if perf_counter() - self._since > SLICE:
            async with self._pausing:
                for _ in range(TURNS):
                    await asyncio.sleep(0)
            self._since = perf_counter()
