"""Processes that end with the one that started them, however that ends."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

_STOPS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_PR_SET_PDEATHSIG = 1


class Stopped(BaseException):
    """A signal asks this process to stop: whoever has children is to end them on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number
        """What a shell expects of a command that a signal stopped."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` where SIGTERM or SIGHUP, the end of a terminal, would have ended this process and nothing else.

    Only the first one is heard: a second must not keep children from being ended. One that is ignored stays ignored, as
    `nohup` has it.
    """
    heard = [number for number in _STOPS if signal.getsignal(number) != signal.SIG_IGN]

    def stop(number: int, _: FrameType | None) -> None:
        for other in heard:
            signal.signal(other, signal.SIG_IGN)
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start_child(command: Sequence[str], **options: Any) -> "subprocess.Popen[str]":
    """Start a process in a session of its own, where Ctrl-C does not reach it, and text comes from it."""
    return subprocess.Popen(command, text=True, start_new_session=True, preexec_fn=_end_with_parent(), **options)


def end_child(child: "subprocess.Popen[str]") -> None:
    """Ask a process to stop, and wait until it has."""
    child.terminate()
    child.wait()


def _end_with_parent() -> Callable[[], None] | None:
    """What a child does first on Linux: ask for SIGTERM at the end of its parent, which `kill -9` gives no word to say."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # it has ended already
            os._exit(1)

    return ask
