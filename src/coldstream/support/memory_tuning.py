"""Memory tuning of a process: huge pages, memory populated ahead of learning, and pauses of Python's garbage collector.

Nothing that is learned depends on it. It is one module with one switch, `ENABLED`, so that a benchmark can run the same
service with and without it: docs/decisions/memory-and-pauses.md has the figures.

- A fork copies the page table, so a snapshot holds up requests for as long as there are pages. NumPy asks for huge pages
  for large arrays. Python's allocator does not, so a thread collapses its memory into huge pages after the start and after
  each fork, which splits every huge page that is written to meanwhile.
- Rows of parameters are reserved as addresses, and the kernel provides a page when it is first written. Zeroing a huge page
  takes milliseconds, so a thread populates the rows to come before the event loop writes to them.
- A full garbage collection looks at every object there is, and we make no reference cycles.
"""

import asyncio
import ctypes
import gc
import mmap
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, Protocol

from numpy.typing import NDArray

ENABLED = os.environ.get("COLDSTREAM_MEMORY_TUNING") != "0"
"""Whether memory tuning is on; the environment variable COLDSTREAM_MEMORY_TUNING=0 turns it off."""

HUGE = 2**21
"""Size of a huge page in bytes."""

WORTHWHILE = 128 * 2**20
"""Minimum memory in small pages, in bytes, at which a fork takes milliseconds and collapsing is worthwhile."""

LARGE = 4 * 2**20
"""Minimum size of a mapping to collapse, in bytes. Less of a thread's stack is in use."""

REST = 0.005
"""Pause between two huge pages while requests are served, in seconds. Collapsing one takes about two milliseconds."""

LONGEST_BESIDE = 60.0
"""Maximum duration of collapsing while requests are served, in seconds; at this pace it covers 16 GB."""

ROWS = 16_384
"""Minimum number of rows that are populated ahead; the maximum is twice as many."""

_MADV_POPULATE_WRITE, _MADV_COLLAPSE = 23, 25
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\])?$")
_FIGURE = re.compile(r"^(Anonymous|AnonHugePages): +(\d+) kB$")


# The garbage collector


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the garbage collector: every collection looks at all objects, and a million new ones cause many.

    Reference counts free objects all the same. Two threads may end the pause for each other, which costs only time.
    """
    if not (ENABLED and gc.isenabled()):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def freeze_objects() -> None:
    """Exempt all present objects from garbage collection, and make collections rare and short from now on.

    New objects are examined twice, in portions that take less than a millisecond; those that survive, hardly ever.
    """
    if ENABLED:
        gc.collect()
        gc.freeze()
        gc.set_threshold(1_000, 1, 100_000)


# Huge pages


def _at_once() -> bool:
    return False


def collapse(longest: float, is_over: Callable[[], bool] = _at_once) -> int:
    """Collapse small pages into huge ones for at most `longest` seconds; return how many pages are huge now.

    `is_over` is called before each page; it may wait, to give other work time, and returns true to stop.
    """
    if not ENABLED or _libc is None or small_bytes() < WORTHWHILE:
        return 0
    made, until = 0, monotonic() + longest
    for first, last in list(_scattered()):
        for address in range(-(-first // HUGE) * HUGE, last - HUGE + 1, HUGE):
            if monotonic() > until or is_over():
                return made
            # Ranges that are huge pages already, or that cannot be collapsed, stay as they are.
            made += _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(HUGE), _MADV_COLLAPSE) == 0
    return made


class Collapsing:
    """Collapses memory into huge pages in a thread beside the event loop, until it is told to stop."""

    def __init__(self) -> None:
        self._over = Event()
        self._task: asyncio.Task[int] | None = None

    def begin(self) -> None:
        """Start collapsing, unless it is under way or was ended."""
        if not self._over.is_set() and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(asyncio.to_thread(collapse, LONGEST_BESIDE, lambda: self._over.wait(REST)))

    async def end(self) -> None:
        """Stop collapsing for good."""
        self._over.set()
        if self._task is not None:
            await self._task


def small_bytes() -> int:
    """Return the bytes of this process in small pages, 0 if the system does not tell."""
    rollup = Path("/proc/self/smaps_rollup")
    found = dict(_figures(rollup.read_text().splitlines())) if rollup.exists() else {}
    return found.get("Anonymous", 0) - found.get("AnonHugePages", 0)


def _scattered() -> Iterator[tuple[int, int]]:
    """Yield large mappings with at least a huge page's size in small pages."""
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


# Memory for future rows


class ReservedRows(Protocol):
    """Rows of parameters, of which some are in use and others only reserved."""

    @property
    def rows(self) -> int:
        """Number of rows in use."""

    def rows_to_come(self, first: int, last: int) -> list[NDArray[Any]]:
        """Return the memory of the rows from `first` to `last`, as far as it is reserved."""


class RoomAhead:
    """Populates the memory of rows before they are written. `reserved` returns the present rows."""

    def __init__(self, reserved: Callable[[], ReservedRows]) -> None:
        self._reserved = reserved
        self._until = 0
        self._task: asyncio.Task[None] | None = None

    def see_to_it(self) -> None:
        """Start populating more rows in a thread if few are left."""
        reserved = self._reserved()
        rows = reserved.rows
        is_busy = self._task is not None and not self._task.done()
        if not ENABLED or _libc is None or rows + ROWS <= self._until or is_busy:
            return
        first = max(rows, self._until)
        pieces = reserved.rows_to_come(first, rows + 2 * ROWS)
        room = min(map(len, pieces))  # less than asked for if arrays have yet to grow
        if room:
            self._until = first + room
            self._task = asyncio.create_task(asyncio.to_thread(populate, pieces))


def populate(pieces: Iterable[NDArray[Any]]) -> None:
    """Populate every page of some arrays with memory. Their contents stay as they are."""
    for own in pieces:
        if _libc is not None and own.nbytes:
            first = own.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
            size = own.ctypes.data + own.nbytes - first
            _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), _MADV_POPULATE_WRITE)
