"""The process that clients live in: what they do after it was forked, and before it ends."""

import atexit
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.util import Finalize
from time import monotonic
from typing import Any
from weakref import WeakMethod

AT_END = 10.0
"""Seconds that a program waits at its end, for all together."""

_after_fork = set[WeakMethod[Callable[[], None]]]()
_at_end = set[WeakMethod[Callable[[float], Any]]]()


def after_fork(method: Callable[[], None]) -> None:
    """Have a method called in every child that this process forks, before anything else is; its object is not kept alive."""
    _after_fork.add(WeakMethod(method, _after_fork.discard))


def at_end(method: Callable[[float], Any]) -> None:
    """Have a method called when the program ends, with the seconds it has left; its object is not kept alive."""
    _at_end.add(WeakMethod(method, _at_end.discard))
    # The last to register is called first: events are sent before a connection is closed by a line of the caller's own.
    atexit.unregister(_end)
    atexit.register(_end)
    if multiprocessing.parent_process() is not None:
        Finalize(None, _end, exitpriority=0)  # a forked child of multiprocessing ends without what is registered above


def _end() -> None:
    end = monotonic() + AT_END
    for method in list(_at_end):
        if (call := method()) is not None:
            call(max(0.0, end - monotonic()))


def _begin() -> None:
    for method in list(_after_fork):
        if (call := method()) is not None:
            call()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing is forked
    os.register_at_fork(after_in_child=_begin)
