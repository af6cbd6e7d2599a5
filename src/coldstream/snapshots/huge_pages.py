"""Memory in huge pages: a fork copies the table of all pages, so it takes as long as there are pages.

Large arrays get huge pages from NumPy. What Python allocates, object by object, does not: after a start, beside those who
ask, Linux is told to move it together. While a fork lives, whatever is written to falls apart into small pages, and so it is
moved together again after each. Where Linux cannot, nothing is different but the time of a fork.
"""

import asyncio
import ctypes
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from time import monotonic

HUGE = 2**21
"""Bytes of a huge page."""

WORTHWHILE = 128 * 2**20
"""Bytes in small pages from which on a fork takes milliseconds."""

LARGE = 4 * 2**20
"""Bytes of a mapping that is looked at. Of the stack of a thread too little is used to be moved."""

_MADV_COLLAPSE = 25
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\])?$")
_FIGURE = re.compile(r"^(Anonymous|AnonHugePages): +(\d+) kB$")


REST = 0.005
"""Seconds between two huge pages while others work: to move one takes about two milliseconds, for which they may wait."""

LONGEST_BESIDE = 60.0
"""Seconds that it may take beside others; at this pace that is 16 GB."""


def _at_once() -> bool:
    return False


def collapse(longest: float, is_over: Callable[[], bool] = _at_once) -> int:
    """Ask for huge pages wherever much lies in small ones, for so many seconds at most; how many there are there now.

    Before each it is asked whether it is over, which may take the time that others need.
    """
    if _libc is None or small_bytes() < WORTHWHILE:
        return 0
    made, until = 0, monotonic() + longest
    for first, last in list(_scattered()):
        for address in range(-(-first // HUGE) * HUGE, last - HUGE + 1, HUGE):
            if monotonic() > until or is_over():
                return made
            # A range that is whole already is left alone, and so is one that cannot be moved.
            made += _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(HUGE), _MADV_COLLAPSE) == 0
    return made


class Collapsing:
    """Moves memory together in a thread, beside the event loop, and gives up when it is told to."""

    def __init__(self) -> None:
        self._over = Event()
        self._task: asyncio.Task[int] | None = None

    def begin(self) -> None:
        """Begin, unless it goes on already."""
        if not self._over.is_set() and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(asyncio.to_thread(collapse, LONGEST_BESIDE, lambda: self._over.wait(REST)))

    async def end(self) -> None:
        """Give up for good."""
        self._over.set()
        if self._task is not None:
            await self._task


def small_bytes() -> int:
    """Bytes of this process that lie in small pages, as far as one can tell."""
    rollup = Path("/proc/self/smaps_rollup")
    found = dict(_figures(rollup.read_text().splitlines())) if rollup.exists() else {}
    return found.get("Anonymous", 0) - found.get("AnonHugePages", 0)


def _scattered() -> Iterator[tuple[int, int]]:
    """Large mappings of which much lies in small pages."""
    span, held = (0, 0), {"Anonymous": 0}
    for text in Path("/proc/self/smaps").read_text().splitlines():
        if mapping := _MAPPING.match(text):
            span = int(mapping[1], 16), int(mapping[2], 16)
        elif "-" in text.partition(" ")[0]:
            span = (0, 0)
        for name, size in _figures([text]):
            held[name] = size
            if name == "AnonHugePages" and span[1] - span[0] >= LARGE and held["Anonymous"] - size >= HUGE:
                yield span


def _figures(lines: list[str]) -> Iterator[tuple[str, int]]:
    for text in lines:
        if figure := _FIGURE.match(text):
            yield figure[1], 1024 * int(figure[2])
