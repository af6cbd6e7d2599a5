"""How often values came that have no column: a counting sketch, small and the same on every machine.

It may count too much, where values share all their counters, and never too little. Counters are halved after as many
occurrences as there are counters in a row, so that it goes on telling the frequent from the rare for ever.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WIDTH, DEPTH = 2**16, 4
"""Counters in a row, and rows: 256 KiB."""
_LARGEST = 255


class Sketch:
    """Counters of occurrences. What was counted since the last `commit` can be taken back."""

    def __init__(self, name: str) -> None:
        self._key = hashlib.blake2b(name.encode(), digest_size=16).digest()
        self.counters: NDArray[np.uint8] = np.zeros((DEPTH, WIDTH), np.uint8)
        self.occurrences = 0
        """Since they were halved."""
        self._before: list[tuple[Sequence[int], Sequence[int]]] = []

    def count(self, value: str) -> int:
        """One more occurrence of a value; how many there were."""
        digest = hashlib.blake2b(value.encode(), key=self._key, digest_size=8).digest()
        places = [row * WIDTH + int.from_bytes(digest[2 * row : 2 * row + 2], "little") for row in range(DEPTH)]
        flat = self.counters.reshape(-1)
        held = flat[places].tolist()
        self._before.append((places, held))
        least: int = min(held)
        if least < _LARGEST:  # only the least of them, so that those that are shared count less too much
            flat[[place for place, own in zip(places, held, strict=True) if own == least]] = least + 1
        return min(least + 1, _LARGEST)

    @property
    def uncommitted(self) -> bool:
        """Whether anything was counted since the last commit."""
        return bool(self._before)

    def commit(self) -> None:
        """What was counted stays."""
        self.occurrences += len(self._before)
        self._before.clear()
        if self.occurrences >= WIDTH:
            self.counters >>= 1
            self.occurrences = 0

    def rollback(self) -> None:
        """Take back what was counted since the last commit."""
        flat = self.counters.reshape(-1)
        for places, held in reversed(self._before):
            flat[places] = held
        self._before.clear()

    def restore(self, counters: NDArray[np.uint8], occurrences: int) -> None:
        """Go on with the counters of another sketch of the same name."""
        if counters.dtype != np.uint8 or counters.shape != (DEPTH, WIDTH) or not 0 <= occurrences < WIDTH:
            raise ValueError(f"a sketch has type {counters.dtype}, shape {counters.shape} and {occurrences} occurrences")
        self.counters[:] = counters
        self.occurrences = occurrences
