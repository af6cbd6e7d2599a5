"""Arrays that grow: what is in them stays, whatever room there is behind it."""

from typing import Any

import numpy as np
import pytest

from coldstream import FactorizationMachine
from coldstream.bounds import usage
from coldstream.bounds.usage import Usage
from coldstream.model import parameters
from coldstream.support import arrays
from coldstream.support.arrays import FEW_ROWS, grown, grown_up_to


@pytest.fixture(autouse=True)
def addresses_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make mutants` limits them."""
    monkeypatch.setattr(arrays, "addresses_are_limited", lambda: False)


def test_an_array_doubles_and_what_is_in_it_stays() -> None:
    larger = grown(np.arange(20), 21, -1)
    assert len(larger) == 40
    assert larger.tolist() == [*range(20), *[-1] * 20]
    assert grown(larger, 40) is larger


def test_while_it_is_small_it_doubles_and_then_there_is_room_for_all() -> None:
    few = np.ones((FEW_ROWS // 2, 3), np.float32)
    assert len(grown_up_to(10**6, few, len(few) + 1)) == FEW_ROWS
    many = np.ones((FEW_ROWS, 3), np.float32)
    larger = grown_up_to(10**6, many, FEW_ROWS + 1)
    assert larger.shape == (10**6, 3)
    assert larger.dtype == np.float32
    assert larger[:FEW_ROWS].all()
    assert not larger[FEW_ROWS:].any()
    assert grown_up_to(10**6, larger, 10**6) is larger


def test_more_than_was_expected_may_come() -> None:
    many = np.ones(FEW_ROWS, np.float32)
    assert len(grown_up_to(0, many, FEW_ROWS + 1)) == 2 * FEW_ROWS
    assert len(grown_up_to(FEW_ROWS + 5, many, FEW_ROWS + 1)) == 2 * FEW_ROWS
    assert len(grown_up_to(FEW_ROWS + 5, many, 3 * FEW_ROWS)) == 3 * FEW_ROWS


@pytest.mark.parametrize("error", [MemoryError, OverflowError, ValueError])
def test_where_there_is_no_room_for_all_it_doubles(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(array: np.ndarray, rows: int, fill: float = 0) -> np.ndarray:
        if rows == 10**6:
            raise error
        return grown(array, rows, fill)

    monkeypatch.setattr(arrays, "grown", refused)
    larger = grown_up_to(10**6, np.ones(FEW_ROWS), FEW_ROWS + 1)
    assert len(larger) == 2 * FEW_ROWS
    assert larger.sum() == FEW_ROWS


def test_a_machine_that_runs_out_of_memory_while_it_grows_grows_all_the_same_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels trust that all arrays of rows have as many as there are columns."""
    machine = FactorizationMachine("predictor", factors=3)
    calls = 0

    def short_of_memory(*arguments: Any) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise MemoryError
        return grown_up_to(*arguments)

    monkeypatch.setattr(parameters, "grown_up_to", short_of_memory)
    with pytest.raises(MemoryError):
        machine.grow(50)
    machine.grow(50)
    rows = machine.parameters.rows._asdict()
    assert all(len(rows[name]) >= 50 for name in machine.parameters.used)
    assert machine.parameters.columns == 50


def test_so_does_what_counts_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Usage()

    def without_memory(*arguments: Any) -> np.ndarray:
        raise MemoryError

    own.worth = np.zeros(100)  # the others did not get as much
    monkeypatch.setattr(usage, "grown_up_to", without_memory)
    with pytest.raises(MemoryError):
        own.make_room(50)
    monkeypatch.undo()
    own.make_room(50)
    assert min(map(len, (own.worth, own.used_at, own.used_time))) >= 50
