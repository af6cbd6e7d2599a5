"""Work that takes long, in steps: between two of them others get their turn."""

import asyncio

from coldstream.inspection import Answer, Steps


async def in_turns(steps: Steps[Answer]) -> Answer:
    """The answer of work in steps, on the event loop, where nothing changes during a step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        await asyncio.sleep(0)
