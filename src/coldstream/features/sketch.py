"""A count-min sketch: approximate counts of values that have no column yet, equal on every machine.

A count may be too high, where values share all their counters, and never too low until counters are halved. They are halved
after as many occurrences as a row has counters, so that the sketch tells frequent from rare values for ever.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WIDTH, DEPTH = 2**16, 4
"""Counters per row, and number of rows: 256 KiB."""
_LARGEST = 255


class Sketch:
    """Counters of occurrences. `rollback` undoes what was counted since the last `commit`."""

    def __init__(self, name: str) -> None:
        self._key = hashlib.blake2b(name.encode(), digest_size=16).digest()
        self.counters: NDArray[np.uint8] = np.zeros((DEPTH, WIDTH), np.uint8)
        self.occurrences = 0
        """Committed occurrences since the counters were last halved."""
        self._before: list[tuple[Sequence[int], Sequence[int]]] = []

    def count(self, value: str) -> int:
        """Count one more occurrence of a value, and return its estimated number of occurrences, at most 255."""
        digest = hashlib.blake2b(value.encode(), key=self._key, digest_size=8).digest()
        places = [row * WIDTH + int.from_bytes(digest[2 * row : 2 * row + 2], "little") for row in range(DEPTH)]
        flat = self.counters.reshape(-1)
        held = flat[places].tolist()
        self._before.append((places, held))
        least: int = min(held)
        if least < _LARGEST:  # Only the smallest is raised, so that shared counters overcount less.
            flat[[place for place, own in zip(places, held, strict=True) if own == least]] = least + 1
        return min(least + 1, _LARGEST)

    @property
    def uncommitted(self) -> bool:
        """Whether anything was counted since the last commit."""
        return bool(self._before)

    def commit(self) -> None:
        """Commit pending counts, and halve all counters if due."""
        self.occurrences += len(self._before)
        self._before.clear()
        if self.occurrences >= WIDTH:
            self.counters >>= 1
            self.occurrences = 0

    def rollback(self) -> None:
        """Undo what was counted since the last commit."""
        flat = self.counters.reshape(-1)
        for places, held in reversed(self._before):
            flat[places] = held
        self._before.clear()

    def restore(self, counters: NDArray[np.uint8], occurrences: int) -> None:
        """Replace the counters by those of another sketch of the same name.

        Raise `ValueError` if their type or shape is wrong.
        """
        if counters.dtype != np.uint8 or counters.shape != (DEPTH, WIDTH) or not 0 <= occurrences < WIDTH:
            raise ValueError(f"a sketch has type {counters.dtype}, shape {counters.shape} and {occurrences} occurrences")
        self.counters[:] = counters
        self.occurrences = occurrences
