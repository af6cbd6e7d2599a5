"""A cut: what is known at one moment, written to a file by a fork."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coldstream.runtime.chain import BASE, Chain
from coldstream.runtime.learner import Learner, save
from coldstream.snapshots.fork import Fork
from coldstream.snapshots.increments import Fingerprint, fingerprint, increment

_numbers = count(1)


class WrittenFile(NamedTuple):
    """A finished file, which a store can take over."""

    file: Path
    size: int
    position: int
    """Of the last line it knows."""
    fingerprint: Fingerprint


class Cut:
    """A file that is being written. Whoever makes one waits for the fork, and for nothing else."""

    def __init__(self, learner: Learner, folder: Path, base: Chain | None) -> None:
        self._position = learner.position
        # A name of its own: should a killed process leave a child behind for a moment, that one writes to another file.
        kind = "full" if base is None else "increment"
        self._file = folder / f".{kind}-{os.getpid()}-{next(_numbers)}.taking.snapshot"
        self._digests = self._file.with_name(f"{self._file.name}.digests.npz")
        self._fork = Fork(partial(_write, learner, self._file, self._digests, base))
        self.pause = self._fork.pause
        """Seconds for which everybody waited."""
        self.end: Callable[[], None] = self._fork.kill
        """Gives it up: whoever waits for the file hears that there is none."""

    async def written(self, longest: float) -> WrittenFile:
        """The file, once it is whole."""
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


def _write(learner: Learner, file: Path, digests: Path, base: Chain | None) -> dict[str, Any]:
    """What the child does: a full file, or what has changed since the newest of a chain."""
    state = learner.view()
    if base is None:
        known = fingerprint(state)
    else:
        (document, arrays), known = increment(state, base.fingerprint)
        state = ({**document, BASE: base.newest.position}, arrays)
    save(file, state)
    digests.touch(mode=0o600)
    np.savez(digests, allow_pickle=False, **known.digests)
    return {"seal": known.seal}


def _loaded(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)
