"""Hooks of clients for the life of their process: after a fork, and before the program ends."""

import atexit
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.util import Finalize
from time import monotonic
from typing import Any
from weakref import WeakMethod

AT_END = 10.0
"""Seconds that the end of the program may be delayed by all registered methods together."""

_after_fork = set[WeakMethod[Callable[[], None]]]()
_at_end = set[WeakMethod[Callable[[float], Any]]]()


def after_fork(method: Callable[[], None]) -> None:
    """Register a method to be called in every forked child, before other code. Its object is only weakly referenced."""
    _after_fork.add(WeakMethod(method, _after_fork.discard))


def at_end(method: Callable[[float], Any]) -> None:
    """Register a method to be called, with the seconds left, when the program ends. Its object is only weakly referenced."""
    _at_end.add(WeakMethod(method, _at_end.discard))
    # Handlers run in reverse order, so events are sent before an earlier handler of the caller closes the connection.
    atexit.unregister(_end)
    atexit.register(_end)
    if multiprocessing.parent_process() is not None:
        Finalize(None, _end, exitpriority=0)  # forked multiprocessing children skip atexit handlers


def _end() -> None:
    end = monotonic() + AT_END
    for method in list(_at_end):
        if (call := method()) is not None:
            call(max(0.0, end - monotonic()))


def _begin() -> None:
    for method in list(_after_fork):
        if (call := method()) is not None:
            call()


if hasattr(os, "register_at_fork"):  # missing on Windows, which has no fork
    os.register_at_fork(after_in_child=_begin)
