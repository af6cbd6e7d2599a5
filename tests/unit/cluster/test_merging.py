"""The merge rule, against its definition, and its kernel against what it is made of."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from coldstream.cluster.merging import merge_rows, merged_penalties, merged_surprise
from coldstream.model.shapes import PAPER, PER_FIELD

Given = list[tuple[NDArray[np.int64], NDArray[np.float32]]]
"""Of every learner, at which rows it has which values."""

POWERS = {"w": 0.5, "V": 0.5, "Gw": 0.0, "GV": 0.0, "Sw": 1.0, "SV": 1.0}


def defined(name: str, before: float, touched: list[float]) -> float:
    if len(touched) == 1:
        return touched[0]
    if name in ("Gw", "GV") and any(value < 0.5 * before for value in touched):
        return math.fsum(value if value < 0.5 * before else value - before for value in touched)
    return before + math.fsum(value - before for value in touched) / len(touched) ** POWERS[name]


def merged_rows(name: str, before: NDArray[np.float32], given: Given) -> NDArray[np.float32]:
    """What the kernel makes of rows as they were; it leaves the same in both places."""
    source, first = np.full((len(before), len(given)), -1, np.int32), 0
    for learner, (at, _) in enumerate(given):
        source[at, learner] = np.arange(first, first + len(at))
        first += len(at)
    touched = np.flatnonzero((source >= 0).any(axis=1)).astype(np.int32)
    rows, base = np.full_like(before, 77.0), before.copy()
    merge_rows(name, rows, base, touched, source[touched], [values for _, values in given])
    np.testing.assert_array_equal(rows[touched], base[touched])
    assert (np.delete(rows, touched, axis=0) == 77.0).all()
    return base


def twin(name: str, before: NDArray[np.float32], given: Given) -> NDArray[np.float32]:
    """The same by whole arrays, one step of the rule after the other."""
    count, total = np.zeros(len(before), np.int32), np.zeros_like(before)
    for at, values in given:
        count[at] += 1
        total[at] += values - before[at]
    share = np.maximum(count, 1).astype(np.float32) ** np.float32(POWERS[name])
    merged = before + total / share[:, None]
    if name in ("Gw", "GV"):
        begun, anew = np.zeros(before.shape, np.bool_), np.zeros_like(before)
        for at, values in given:
            fallen = values < np.float32(0.5) * before[at]
            begun[at] |= fallen
            anew[at] += np.where(fallen, values, values - before[at])
        merged = np.maximum(np.where(begun, anew, merged), np.float32(0.0))
    merged[count == 0] = before[count == 0]
    for at, values in given:
        alone = count[at] == 1
        merged[at[alone]] = values[alone]
    return merged


@given(st.sampled_from(sorted(POWERS)), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_kernel_has_the_bits_of_its_twin(name, learners, seed) -> None:
    rng = np.random.default_rng(seed)
    before = rng.gamma(0.5, 4.0, (12, 7)).astype(np.float32)
    given = []
    for _ in range(learners):
        at = np.flatnonzero(rng.random(12) < 0.6)
        moved = before[at] + rng.normal(0.0, 1.0, (len(at), 7)).astype(np.float32)
        again = (rng.random((len(at), 7)) < 0.1) & (name in ("Gw", "GV"))
        given.append((at, np.where(again, moved / np.float32(9.0), moved).astype(np.float32)))
    assert merged_rows(name, before, given).tobytes() == twin(name, before, given).tobytes()


@given(
    st.sampled_from(["w", "Sw"]),
    st.lists(st.floats(-8, 8, width=32), min_size=1, max_size=6),
    st.lists(st.lists(st.one_of(st.none(), st.floats(-8, 8, width=32)), min_size=6, max_size=6), min_size=1, max_size=5),
)
def test_rows(name, before, learners) -> None:
    rows = len(before)
    touched = [[own[row] for own in learners if own[row] is not None] for row in range(rows)]
    given = []
    for own in learners:
        at = np.array([row for row in range(rows) if own[row] is not None], np.int64)
        given.append((at, np.array([own[row] for row in at], np.float32)))
    merged = merged_rows(name, np.array(before, np.float32), given)
    for row in range(rows):
        if not touched[row]:
            assert merged[row] == np.float32(before[row])
        elif len(touched[row]) == 1:
            assert merged[row] == np.float32(touched[row][0])
        else:
            np.testing.assert_allclose(merged[row], defined(name, before[row], touched[row]), rtol=1e-5, atol=1e-5)


def test_rows_of_vectors_are_merged_coordinate_by_coordinate() -> None:
    before = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    given = [
        (np.array([0, 1]), np.array([[2.0, 2.0], [9.0, 9.0]], np.float32)),
        (np.array([0]), np.array([[4.0, 1.0]], np.float32)),
    ]
    merged = merged_rows("V", before, given)
    np.testing.assert_allclose(merged, [[1 + 4 / math.sqrt(2), 2 - 1 / math.sqrt(2)], [9, 9]], rtol=1e-6)


def test_the_log_of_a_penalty_per_field_moves_as_parameters_do() -> None:
    before = np.array([0.02, 0.5, 0.1])
    given = [np.array([0.04, 0.5, 0.1]), np.array([0.08, 0.25, 0.1])]
    merged = merged_penalties("lambda_w", before, given, PER_FIELD)
    np.testing.assert_allclose(merged, [0.02 * 8 ** (1 / math.sqrt(2)), 0.25, 0.1])
    assert merged[1] == 0.25
    assert merged[2] == 0.1


def test_the_papers_penalties_move_by_summands_and_are_never_negative() -> None:
    merged = merged_penalties("lambda_w", np.array([1.0]), [np.array([0.0]), np.array([0.1])], PAPER)
    np.testing.assert_allclose(merged, [0.0])
    merged = merged_penalties("lambda0", np.array([2.0]), [np.array([3.0]), np.array([4.0])], PAPER)
    np.testing.assert_allclose(merged, [2 + 3 / math.sqrt(2)])


@given(st.lists(st.floats(1e-3, 10.0), min_size=2, max_size=5))
def test_scales_are_averaged_over_those_who_moved_them(values) -> None:
    before = np.array([20.0])
    given = [np.array([value]) for value in values]
    merged = merged_penalties("penalty_mean_square", before, [*given, before], PER_FIELD)
    np.testing.assert_allclose(merged, [np.mean(values)], rtol=1e-6)


def test_sums_that_began_anew_count_without_what_was_before() -> None:
    before = np.array([100.0, 100.0, 100.0], np.float32)
    given = [
        (np.arange(3), np.array([2.0, 2.0, 110.0], np.float32)),
        (np.arange(3), np.array([3.0, 104.0, 105.0], np.float32)),
    ]
    merged = merged_rows("Gw", before, given)
    np.testing.assert_allclose(merged, [5.0, 6.0, 115.0])


def test_surprises_are_counted_together_and_who_begins_anew_takes_all_along() -> None:
    before = np.array([0.5, 100.0, 2.0, 3.0, 0.0])
    given = [np.array([0.7, 110.0, 2.2, 3.1, 0.0]), np.array([0.9, 120.0, 1.9, 3.0, 0.0])]
    np.testing.assert_allclose(merged_surprise(before, given), [0.9, 130.0, 2.1, 3.1, 0.0])
    assert merged_surprise(before, [given[0], before]) is given[0]
    given[0][[1, 4]] = 0.0, 77.0
    merged = merged_surprise(before, given)
    assert (merged[1], merged[4]) == (0.0, 77.0)
