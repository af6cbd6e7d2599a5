"""A way for requests to wait until a line of the log is learned."""

import asyncio
from heapq import heappop, heappush
from itertools import count


class Progress:
    """The queue of callers that wait until the log is learned up to a position."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()

    def reached(self, position: int) -> None:
        """Wake all callers that wait for a position up to this one."""
        while self._waiting and self._waiting[0][0] <= position:
            _, _, waiting = heappop(self._waiting)
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self, position: int, seconds: float) -> bool:
        """Wait until a position beyond the present one is reached, and return whether it was within `seconds`."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (position, next(self._numbers), waiting))
        done, _ = await asyncio.wait({waiting}, timeout=seconds)
        waiting.cancel()
        return bool(done)
