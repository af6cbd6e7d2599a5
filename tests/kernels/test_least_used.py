"""The least useful of many rows, against the definition: a sort of all of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream.engine import eviction as module
from coldstream.engine.eviction import least_used

SHIFTS = [0.0, 1.0, math.nan, 0.25]


def by_definition(worth: list[float], group: list[int], count: int) -> list[int]:
    rows = [row for row, own in enumerate(group) if own >= 0 and not math.isnan(SHIFTS[own])]
    least = sorted(rows, key=lambda row: (worth[row] - SHIFTS[group[row]], group[row], row))[:count]
    return sorted(least, key=lambda row: (group[row], row))


ROWS = st.lists(
    st.tuples(st.sampled_from([-2.0, 0.0, 0.25, 0.5, 1.0, 1.25, 3.0]), st.integers(-1, len(SHIFTS) - 1)), max_size=60
)


@given(ROWS, st.integers(0, 70))
def test_they_are_the_first_of_a_stable_order(rows: list[tuple[float, int]], count: int) -> None:
    worth, group = [own for own, _ in rows], [own for _, own in rows]
    found = least_used(np.array(worth, np.float64), np.array(group, np.int32), np.array(SHIFTS), count)
    assert found.tolist() == by_definition(worth, group, count)


@given(st.integers(0, 2**32), st.integers(1, 300))
def test_it_does_not_matter_in_which_order_many_rows_stand(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    worth, group = rng.integers(0, 50, 700) / 7, rng.integers(-1, len(SHIFTS), 700).astype(np.int32)
    for own in (worth, np.sort(worth), np.sort(worth)[::-1].copy()):
        found = least_used(own, group, np.array(SHIFTS), count)
        assert found.tolist() == by_definition(own.tolist(), group.tolist(), count)


@given(ROWS, st.integers(0, 70), st.integers(1, 20), st.integers(1, 3))
def test_which_rows_are_found_does_not_depend_on_a_sample(
    rows: list[tuple[float, int]], count: int, sample: int, spare: int
) -> None:
    worth, group = [own for own, _ in rows], [own for _, own in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SAMPLE", sample)
        patch.setattr(module, "SPARE", spare)
        found = least_used(np.array(worth, np.float64), np.array(group, np.int32), np.array(SHIFTS), count)
    assert found.tolist() == by_definition(worth, group, count)


@pytest.mark.parametrize("seen", [5.0, -5.0])
def test_a_sample_that_misleads_costs_time_and_nothing_else(seen: float) -> None:
    """Rows that the sample sees are all worth much more, or much less, than the others."""
    count, step = 300, 3
    worth, group = np.zeros(step * module.SAMPLE), np.zeros(step * module.SAMPLE, np.int32)
    worth[:] = np.arange(len(worth)) % 7
    worth[::step] += seen
    found = least_used(worth, group, np.zeros(1), count)
    assert found.tolist() == np.sort(np.lexsort((np.arange(len(worth)), worth))[:count]).tolist()


def test_few_of_many_rows_are_looked_at_closely() -> None:
    worth, group = np.random.default_rng(1).random(100_000), np.zeros(100_000, np.int32)
    mark = module._mark(worth, group, np.zeros(1), 400)
    assert 400 <= (worth <= mark).sum() <= 2000


def test_rows_that_only_one_of_the_arrays_has_are_passed_over() -> None:
    group = np.array([0, 0, 0, 0], np.int32)
    assert least_used(np.array([3.0, 1.0]), group, np.zeros(1), 3).tolist() == [0, 1]
    assert least_used(np.array([3.0, 1.0, 0.0]), group[:2], np.zeros(1), 1).tolist() == [1]
