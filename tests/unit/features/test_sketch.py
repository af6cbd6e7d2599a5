"""The sketch beside a twin that counts by its definition; what it takes back, and when it counts everything half."""

import hashlib

import numpy as np
import pytest

from coldstream.features.sketch import DEPTH, WIDTH, Sketch


class Twin:
    """One counter of each row for a value, by its digest; an occurrence raises the least of them."""

    def __init__(self, name: str) -> None:
        self.key = hashlib.blake2b(name.encode(), digest_size=16).digest()
        self.rows = [dict[int, int]() for _ in range(4)]

    def count(self, value: str) -> int:
        digest = hashlib.blake2b(value.encode(), key=self.key, digest_size=8).digest()
        places = [digest[2 * row] + 256 * digest[2 * row + 1] for row in range(4)]
        held = [row.get(place, 0) for row, place in zip(self.rows, places, strict=True)]
        if min(held) < 255:
            for row, place, own in zip(self.rows, places, held, strict=True):
                if own == min(held):
                    row[place] = own + 1
        return min(min(held) + 1, 255)


def test_it_counts_what_the_twin_counts() -> None:
    sketch, twin, draws = Sketch("context.tag"), Twin("context.tag"), np.random.default_rng(5)
    for value in draws.geometric(0.01, 3000).tolist():
        assert sketch.count(f"v{value}") == twin.count(f"v{value}")
    assert (DEPTH, WIDTH) == (4, 2**16)
    for row, own in enumerate(twin.rows):
        assert {place: int(sketch.counters[row, place]) for place in np.flatnonzero(sketch.counters[row])} == own


def test_it_counts_so_far_and_no_farther() -> None:
    sketch = Sketch("x")
    assert [sketch.count("often") for _ in range(300)] == [min(n, 255) for n in range(1, 301)]
    assert sketch.counters.max() == 255


def test_what_was_not_committed_is_taken_back() -> None:
    sketch = Sketch("x")
    assert not sketch.uncommitted
    for _ in range(3):
        sketch.count("a")
    sketch.commit()
    assert (sketch.occurrences, sketch.uncommitted) == (3, False)
    before = sketch.counters.copy()
    assert [sketch.count(value) for value in ("a", "b", "a", "a")] == [4, 1, 5, 6]
    assert sketch.uncommitted
    sketch.rollback()
    assert np.array_equal(sketch.counters, before)
    assert (sketch.occurrences, sketch.uncommitted) == (3, False)
    assert (sketch.count("a"), sketch.count("b")) == (4, 1)


def test_everything_counts_half_after_as_many_occurrences_as_there_are_counters_in_a_row() -> None:
    sketch, counters = Sketch("x"), np.zeros((DEPTH, WIDTH), np.uint8)
    counters[0, :3] = 255, 7, 1
    sketch.restore(counters, WIDTH - 2)
    sketch.count("a")
    sketch.commit()
    assert sketch.occurrences == WIDTH - 1
    assert sketch.counters[0, :3].tolist() == [255, 7, 1]
    sketch.count("a")
    sketch.commit()
    assert sketch.occurrences == 0
    assert sketch.counters[0, :3].tolist() == [127, 3, 0]
    assert sketch.count("a") == 2, "of two, one is left"


def test_counters_of_another_shape_are_refused() -> None:
    sketch, counters = Sketch("x"), np.zeros((DEPTH, WIDTH), np.uint8)
    for occurrences in (0, WIDTH - 1):
        sketch.restore(counters, occurrences)
        assert sketch.occurrences == occurrences
    for bad, occurrences in ((counters, WIDTH), (counters, -1), (counters[1:], 0), (counters.astype(np.int8), 0)):
        with pytest.raises(ValueError, match="a sketch has type"):
            sketch.restore(bad, occurrences)
