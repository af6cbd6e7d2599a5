"""Columns that come and go are read in ascending order, each once, whenever one looks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coldstream.features import sorted_columns
from coldstream.features.sorted_columns import SortedColumns

_COLUMN = st.integers(0, 30)


@given(st.sets(_COLUMN), st.lists(st.one_of(_COLUMN, st.lists(_COLUMN, unique=True), st.none())))
def test_they_are_the_set_that_was_left(before: set[int], steps: list[int | list[int] | None]) -> None:
    """A number comes or goes, whichever it can; a list goes as far as it is there; at None somebody looks."""
    there, own = set(before), SortedColumns(np.array(sorted(before), np.int32))
    for step in steps:
        if step is None:
            assert own.all().tolist() == sorted(there)
        elif isinstance(step, list):
            gone = [column for column in step if column in there]
            own.remove_all(gone)
            there -= set(gone)
        elif step in there:
            own.remove(step)
            there.remove(step)
        else:
            own.add(step)
            there.add(step)
    assert list(own.since(7)) == [column for column in sorted(there) if column >= 7]
    assert own.all().tolist() == sorted(there)
    assert own.all().dtype == np.int32


def test_what_waits_for_somebody_who_looks_is_bounded() -> None:
    own, least = SortedColumns(np.zeros(0, np.int32)), sorted_columns.FEWEST_WAITING
    for column in range(4 * least):
        own.add(column)
        assert len(own._waiting) <= least
    for column in range(2 * least):
        own.remove(column)
        assert len(own._waiting) <= least
    own.remove_all(range(2 * least, 4 * least))
    assert not own._waiting
    assert not len(own.all())


def test_a_long_list_lets_more_wait() -> None:
    own = SortedColumns(np.arange(0, 200_000, 2, dtype=np.int32))
    for column in range(1, 10_001, 2):
        own.add(column)
    assert len(own._waiting) == 5000
    assert own.all()[:4].tolist() == [0, 1, 2, 3]
    assert not own._waiting


def test_an_iterator_stays_as_it_was_while_others_come() -> None:
    own = SortedColumns(np.array([1, 5], np.int32))
    looking = own.since(0)
    assert next(looking) == 1
    own.add(3)
    assert list(looking) == [5]
    assert list(own.since(0)) == [1, 3, 5]
