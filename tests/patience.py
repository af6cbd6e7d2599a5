"""Waiting for what is about to happen: for a condition, with a limit that no machine is too busy for."""

import asyncio
import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds until a test gives up on what should take one."""


async def until(holds: Callable[[], object]) -> None:
    """Return as soon as a condition holds; fail after `PATIENCE` seconds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.005)
