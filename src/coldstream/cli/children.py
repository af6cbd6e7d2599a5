"""Child processes that end together with their parent, however the parent ends."""

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
    """A signal asked this process to stop. Code that started children ends them while this propagates."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number
        """The exit status of a command stopped by this signal, by shell convention."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` in a block when SIGTERM or SIGHUP (a closed terminal) arrives, instead of ending the process at once.

    Only the first signal counts, so that a second one cannot prevent children from being ended. Signals that were ignored,
    as under `nohup`, stay ignored.
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
    """Start a child process, with pipes in text mode, in a session of its own, where Ctrl-C does not reach it."""
    return subprocess.Popen(command, text=True, start_new_session=True, preexec_fn=_end_with_parent(), **options)


def end_child(child: "subprocess.Popen[str]") -> None:
    """Terminate a child process and wait until it has ended."""
    child.terminate()
    child.wait()


def _end_with_parent() -> Callable[[], None] | None:
    """Return a function that the child runs first on Linux, else None.

    The function requests SIGTERM for the child when its parent dies, even by `kill -9`.
    """
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the request
            os._exit(1)

    return ask
