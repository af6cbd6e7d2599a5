"""All connections: their shared state, and the sweep that ends those whose clients are too slow."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any

from coldstream.service.http.connection import Connection
from coldstream.service.http.connection_limits import ConnectionLimits
from coldstream.service.http.turned_away import TurnedAway

log = logging.getLogger(__name__)


class Connections:
    """State shared by all connections: their limits, the bytes of bodies held, and counts of those turned away."""

    def __init__(self, limits: ConnectionLimits, count: Callable[[str], None]) -> None:
        self.limits = limits
        self.turned_away = TurnedAway(count)
        self.held = 0
        """Bytes of bodies of requests that are not answered yet."""

    def connection(self, *args: Any, **more: Any) -> Connection:
        """Make a connection, with the arguments of uvicorn's protocols."""
        return Connection(self, *args, **more)

    async def sweep(self, connections: Collection[Any]) -> None:
        """Look at every connection, at least once a second, and log those turned away. It runs until it is cancelled."""
        limits, loop = self.limits, asyncio.get_running_loop()
        every = min(1.0, limits.header_seconds / 2, limits.body_seconds / 2, limits.idle_seconds / 2)
        while True:
            await asyncio.sleep(every)
            now = loop.time()
            for connection in list(connections):
                try:
                    connection.look(now)
                except Exception as error:  # an error of one connection must not stop the sweep
                    log.error("a connection could not be ended", exc_info=error)
            self.turned_away.log(now)
