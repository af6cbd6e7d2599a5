"""Memory for the features that come next, asked of the system before they come.

Rows are reserved as addresses, and the system gives memory when the first of a page is written: a huge page of zeros takes
milliseconds where a host has to find it first. Who learns on an event loop would hold up everybody meanwhile. So a thread
asks for it, a few pages ahead of the last row. Where the system knows no such request, memory comes when it is written.
"""

import asyncio
import ctypes
import mmap
import sys
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from coldstream.runtime.learner import Learner

ROWS = 16_384
"""Rows that have memory beforehand, at least; twice as many at most."""

_MADV_POPULATE_WRITE = 23
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class RoomAhead:
    """Sees to it that rows have memory before they are written."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._until = 0
        self._task: asyncio.Task[None] | None = None

    def see_to_it(self) -> None:
        """Ask for more where little is left, beside the loop."""
        inspection = self._learner.recommender.inspection
        rows = inspection.rows
        if _libc is None or rows + ROWS <= self._until or (self._task is not None and not self._task.done()):
            return
        first = max(rows, self._until)
        pieces = inspection.rows_to_come(first, rows + 2 * ROWS)
        reserved = min(map(len, pieces))  # less than what was asked for where arrays have yet to grow
        if reserved:
            self._until = first + reserved
            self._task = asyncio.create_task(asyncio.to_thread(populate, pieces))


def populate(pieces: Iterable[NDArray[Any]]) -> None:
    """Have memory behind every page of some pieces of arrays. What is in them stays as it is."""
    for own in pieces:
        if _libc is not None and own.nbytes:
            first = own.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
            size = own.ctypes.data + own.nbytes - first
            _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), _MADV_POPULATE_WRITE)
