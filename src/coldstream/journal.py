"""Which rows were written since somebody looked last, by their numbers."""

from collections.abc import Sequence

import numpy as np

from coldstream.arrays import Integers, Longs

_FEW = 2**16
"""Numbers that are kept before it is found out which of them are there twice."""

_NONE: Integers = np.zeros(0, np.int32)


class Journal:
    """Row numbers, for one who watches. Where nobody does, nothing is kept and a note costs one question.

    It is no part of what is known: it is not saved, and what is learned does not depend on it.
    """

    def __init__(self) -> None:
        self.watched = False
        """Whether somebody watches."""
        self._all = False
        self._noted: list[Integers] = []
        self._count, self._most = 0, _FEW

    def watch(self) -> None:
        """Begin to keep what is written; what was written before counts as written now."""
        self.watched = True
        self.note_all()

    def stop(self) -> None:
        """Keep nothing any more."""
        self.watched = False
        self._forget()

    def note(self, rows: Sequence[int] | Integers | Longs) -> None:
        """These rows were written, or may have been."""
        if not self.watched or self._all or not len(rows):
            return
        self._noted.append(np.array(rows, np.int32))
        self._count += len(rows)
        if self._count > self._most:
            self._noted = [np.unique(np.concatenate(self._noted))]
            self._count = len(self._noted[0])
            self._most = max(_FEW, 2 * self._count)

    def note_all(self) -> None:
        """All rows may have been written."""
        if self.watched:
            self._forget()
            self._all = True

    def taken(self) -> Integers | None:
        """The rows noted since the last call, each once and in ascending order; None for all there are."""
        noted, everything = self._noted, self._all
        if not noted and not everything:
            return _NONE
        self._forget()
        return None if everything else np.unique(np.concatenate(noted))

    def _forget(self) -> None:
        self._all, self._noted, self._count, self._most = False, [], 0, _FEW
