"""Signatures: the distinct sets of shared features that items have, and which of them a column is in."""

from collections.abc import Iterable

import numpy as np

from coldstream.arrays import Floats, Integers, grown
from coldstream.catalogue.shapes import Shared
from coldstream.features.sparse import Sparse

EMPTY = Sparse(np.zeros(0, np.int32), np.zeros(0, np.float32))


class Signatures:
    """A counted set of signatures in flat arrays. Numbers are reused; so is the room of those that nobody has any more."""

    def __init__(self) -> None:
        integers = np.zeros(0, np.int32)
        self.shared = Shared(integers, integers, integers, EMPTY.value, integers, integers, integers)
        self.count = 0
        """How many numbers are in use or free: the rows that arrays indexed by signature need."""
        self._numbers: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._holders: list[int] = []
        self._free: list[int] = []
        self._entries = 0
        self._wasted = 0

    def __len__(self) -> int:
        """How many signatures items have."""
        return len(self._numbers)

    def take(self, features: Sparse) -> int:
        """The number of an item's signature; one more item has it."""
        index, value = _ordered(features)
        key = index.tobytes() + value.tobytes()
        number = self._numbers.get(key)
        if number is not None:
            self._holders[number] += 1
            return number
        number = self._free.pop() if self._free else self._append()
        self._numbers[key] = number
        self._keys[number] = key
        self._holders[number] = 1
        self._write(number, index, value)
        return number

    def number(self, features: Sparse) -> int:
        """The number that `take` would answer."""
        index, value = _ordered(features)
        free = self._free[-1] if self._free else self.count
        return self._numbers.get(index.tobytes() + value.tobytes(), free)

    def free(self) -> list[int]:
        """The numbers that nobody has; the last one is given out first."""
        return list(self._free)

    def shrink(self, count: int) -> None:
        """Give up the numbers from `count` on, which nobody has."""
        self._free = [number for number in self._free if number < count]
        del self._keys[count:], self._holders[count:]
        self.count = count

    def restore(self, count: int, free: list[int], held: Iterable[tuple[int, Sparse]]) -> None:
        """Take up the numbers of items as they were: a number is also a neighbourhood, so it must not change."""
        while self.count < count:
            self._append()
        self._free = list(free)
        for number, features in held:
            if not 0 <= number < count:
                raise ValueError(f"there is no signature {number}")
            index, value = _ordered(features)
            key = index.tobytes() + value.tobytes()
            if key not in self._numbers:
                self._numbers[key], self._keys[number] = number, key
                self._write(number, index, value)
            self._holders[number] += 1

    def drop(self, number: int) -> None:
        """One item less has this signature."""
        self._holders[number] -= 1
        if not self._holders[number]:
            del self._numbers[self._keys[number]]
            self._free.append(number)
            self._wasted += int(self.shared.length[number])
            self.shared.length[number] = 0
            if self._wasted > 1024 and 2 * self._wasted > self._entries:
                self._compact()

    def view(self) -> Shared:
        """The arrays, with as many signatures as there are numbers."""
        return self.shared._replace(start=self.shared.start[: self.count], length=self.shared.length[: self.count])

    def features(self, number: int) -> Sparse:
        """The shared features of a signature."""
        own = slice(self.shared.start[number], self.shared.start[number] + self.shared.length[number])
        return Sparse(self.shared.column[own], self.shared.value[own])

    def _append(self) -> int:
        shared = self.shared
        self.count += 1
        self.shared = shared._replace(start=grown(shared.start, self.count), length=grown(shared.length, self.count))
        self._keys.append(b"")
        self._holders.append(0)
        return self.count - 1

    def _write(self, number: int, index: Integers, value: Floats) -> None:
        shared, first, size = self.shared, self._entries, len(index)
        self._entries += size
        columns = int(index.max()) + 1 if size else 0
        self.shared = shared = shared._replace(
            column=grown(shared.column, self._entries),
            value=grown(shared.value, self._entries),
            following=grown(shared.following, self._entries),
            owner=grown(shared.owner, self._entries),
            head=grown(shared.head, columns, -1),
        )
        shared.start[number], shared.length[number] = first, size
        entries = np.arange(first, first + size, dtype=np.int32)
        shared.column[entries], shared.value[entries], shared.owner[entries] = index, value, number
        shared.following[entries] = shared.head[index]
        shared.head[index] = entries

    def _compact(self) -> None:
        """Write the signatures in use again, without the waste between them."""
        held = {number: self.features(number) for number in sorted(self._numbers.values())}
        kept = [(number, x.column.copy(), x.value.copy()) for number, x in held.items()]
        self.shared.head[:] = -1
        self._entries = self._wasted = 0
        for number, index, value in kept:
            self._write(number, index, value)


def _ordered(features: Sparse) -> Sparse:
    order = np.argsort(features.column, kind="stable")
    return Sparse(features.column[order], features.value[order])
