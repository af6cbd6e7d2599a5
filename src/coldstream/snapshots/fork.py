"""Snapshots written by a fork: the child sees the state at one moment, while its parent goes on.

The child only reads Python's objects and arrays, writes a file and exits. It has a single thread, touches neither the event
loop nor the store, and closes every inherited descriptor at once: locks, connections and the port stay with the parent.
"""

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from coldstream.errors import StoreUnavailable
from coldstream.snapshots.archive import write_snapshot
from coldstream.snapshots.increments import BASE, Fingerprint, State, fingerprint, increment

LONGEST = 600.0
"""Seconds after which a child is killed."""

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


class Fork:
    """A child process at work. At most one exists at a time."""

    def __init__(self, work: Callable[[], dict[str, Any]]) -> None:
        started = perf_counter()
        self._reading, writing = os.pipe()
        parent, every = os.getpid(), signal.valid_signals()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, every)  # none of the parent's signal handlers may run in the child
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # on forking with threads: the child uses none of them
                self._pid = os.fork()
            if not self._pid:
                _work(work, writing, parent)
        except OSError as error:  # memory may be too short for a fork
            os.close(self._reading)
            os.close(writing)
            raise StoreUnavailable(
                f"the snapshot cannot be written, because a fork failed ({error}); free memory"
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writing)
        self._ended = False
        self.pause = perf_counter() - started
        """Seconds for which the fork paused the process."""

    async def answer(self, longest: float = LONGEST) -> dict[str, Any]:
        """Wait for the result of the work; raise `StoreUnavailable` if it failed, was killed or took too long."""
        said = asyncio.ensure_future(asyncio.to_thread(self._heard))
        try:
            done, _ = await asyncio.wait({said}, timeout=longest)
        finally:
            if not said.done():
                self.kill()
                await asyncio.shield(said)
        text, status = await said
        if not done:
            raise StoreUnavailable(f"the snapshot was not written in {longest:g} seconds; it is tried again")
        answer: dict[str, Any] = json.loads(text) if text else {}
        if status or "failed" in answer or not answer:
            reason = answer.get("failed", f"its process ended with status {status}")
            raise StoreUnavailable(f"the snapshot cannot be written ({reason}); make room, and it is tried again")
        return answer

    def kill(self) -> None:
        """Kill the child now; a pending `answer` then raises `StoreUnavailable`."""
        if not self._ended:
            os.kill(self._pid, signal.SIGKILL)

    def _heard(self) -> tuple[bytes, int]:
        """Read the child's output until it exits, and return it with the exit status."""
        with os.fdopen(self._reading, "rb") as pipe:
            text = pipe.read()
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        self._ended = True  # set before the process id can be reused
        _, status = os.waitpid(self._pid, 0)
        return text, os.waitstatus_to_exitcode(status)


def _work(work: Callable[[], dict[str, Any]], writing: int, parent: int) -> None:
    """Run the work in the child, send its result, and exit."""
    status = 70
    try:
        _let_go(writing, parent)
        gc.freeze()  # garbage collection would copy all memory shared with the parent
        gc.disable()
        try:
            answer = work()
        except Exception as error:
            answer = {"failed": str(error) or repr(error)}
        os.write(writing, json.dumps(answer).encode())
        status = 0
    finally:
        os._exit(status)


def _let_go(writing: int, parent: int) -> None:
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent was killed before the call above took effect
        os._exit(0)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # these signals are meant for the parent, which ends its child itself
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.closerange(3, writing)
    os.closerange(writing + 1, 2**20)


_numbers = count(1)


class Base(NamedTuple):
    """The snapshot that an increment builds on."""

    position: int
    fingerprint: Fingerprint


class WrittenFile(NamedTuple):
    """A finished file, ready for a store to take over."""

    file: Path
    size: int
    position: int
    """Log position of the last line that the state includes."""
    fingerprint: Fingerprint


class Cut:
    """A snapshot of the present state in a fork that writes it. Creating a `Cut` takes no longer than the fork."""

    def __init__(self, view: Callable[[], State], position: int, folder: Path, base: Base | None) -> None:
        self._position = position
        # The name is unique: should a killed process leave a child behind for a moment, that child writes to another file.
        kind = "full" if base is None else "increment"
        self._file = folder / f".{kind}-{os.getpid()}-{next(_numbers)}.taking.snapshot"
        self._digests = self._file.with_name(f"{self._file.name}.digests.npz")
        self._fork = Fork(partial(_write, view, self._file, self._digests, base))
        self.pause = self._fork.pause
        """Seconds for which the fork paused the process."""
        self.end: Callable[[], None] = self._fork.kill
        """Abandons the snapshot; a pending `written` then raises `StoreUnavailable`."""

    async def written(self, longest: float) -> WrittenFile:
        """Wait until the file is complete, and return it."""
        try:
            answer = await self._fork.answer(longest)
            digests = await asyncio.to_thread(_loaded, self._digests)
        except BaseException:
            for left in self._file.parent.glob(f"*{self._file.name}*"):
                left.unlink(missing_ok=True)
            raise
        finally:
            self._digests.unlink(missing_ok=True)
        size = self._file.stat().st_size
        return WrittenFile(self._file, size, self._position, Fingerprint(answer["seal"], digests))


def _write(view: Callable[[], State], file: Path, digests: Path, base: Base | None) -> dict[str, Any]:
    """Write, in the child, a full snapshot or the increment to another."""
    state = view()
    if base is None:
        known = fingerprint(state)
    else:
        (document, arrays), known = increment(state, base.fingerprint)
        state = ({**document, BASE: base.position}, arrays)
    write_snapshot(file, *state)
    digests.touch(mode=0o600)
    np.savez(digests, allow_pickle=False, **known.digests)
    return {"seal": known.seal}


def _loaded(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)
