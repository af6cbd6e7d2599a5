"""How kernels are compiled."""

from typing import Any

import numpy as np

from coldstream.support.compiled import inlined, kernel, scan_kernel, unchecked_entry


def test_what_learns_is_exact_whoever_compiled_its_parts_first() -> None:
    @inlined
    def rounded_away(small: float, large: float) -> float:
        return (small + large) - large

    @scan_kernel
    def scans(small: float, large: float) -> float:
        return rounded_away(small, large)

    @kernel
    def learns(small: float, large: float) -> float:
        return rounded_away(small, large)

    scans(1e-20, 1.0)
    assert learns(1e-20, 1.0) == 0.0


def test_a_kernel_called_from_a_scan_stays_exact() -> None:
    @kernel
    def rounded_away(small: float, large: float) -> float:
        return (small + large) - large

    @scan_kernel
    def scans(small: float, large: float) -> float:
        return rounded_away(small, large)

    scans(1e-20, 1.0)
    assert rounded_away(1e-20, 1.0) == 0.0


class Counted:
    """A kernel, and how often it was called by way of the types of its arguments."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.function(*args)

    @property
    def overloads(self) -> Any:
        return self.function.overloads


def test_an_unchecked_entry_asks_for_types_once_and_does_the_same() -> None:
    @kernel
    def add_up(group: tuple[tuple[np.ndarray, np.ndarray], int], factor: float, out: np.ndarray) -> float:
        (a, b), first = group
        for n in range(first, len(a)):
            out[n] += factor * a[n] * b[n]
        return out.sum()

    counted = Counted(add_up)
    entry = unchecked_entry(counted)
    rng = np.random.default_rng(1)
    for size in (3, 5, 0, 17, 4):
        group = ((rng.normal(size=size).astype(np.float32), rng.normal(size=size)), min(1, size))
        ours, theirs = np.ones(size), np.ones(size)
        assert entry(group, 0.5, ours) == add_up(group, 0.5, theirs)
        np.testing.assert_array_equal(ours, theirs)
    assert counted.calls == 1
    assert len(add_up.overloads) == 1


def test_a_kernel_of_several_types_is_entered_by_its_types() -> None:
    """Where there is a choice of machine code, somebody has to make it."""

    @kernel
    def halved(values: np.ndarray) -> np.ndarray:
        return values / values.dtype.type(2)

    halved(np.ones(2, np.float64))
    counted = Counted(halved)
    entry = unchecked_entry(counted)
    for dtype in (np.float32, np.float64, np.float32):
        found = entry(np.array([1, 3], dtype))
        assert found.dtype == dtype
        assert found.tolist() == [0.5, 1.5]
    assert counted.calls == 3


def test_what_is_not_compiled_has_an_unchecked_entry_too() -> None:
    entry = unchecked_entry(lambda a, b: a - b)
    assert [entry(n, 1) for n in range(3)] == [-1, 0, 1]
