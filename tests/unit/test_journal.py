"""A journal has what was written since somebody looked, each row once, and weighs nothing where nobody does."""

import numpy as np
import pytest

from coldstream import journal
from coldstream.journal import Journal


def test_where_nobody_watches_nothing_is_kept() -> None:
    own = Journal()
    own.note([1, 2])
    own.note_all()
    assert own.taken() is not None
    assert len(own.taken()) == 0  # type: ignore[arg-type]


def test_whoever_begins_to_watch_has_seen_nothing_yet() -> None:
    own = Journal()
    own.watch()
    own.note([3])
    assert own.taken() is None
    own.note([3, 1])
    own.note(np.array([3, 2], np.int64))
    own.note([])
    assert own.taken().tolist() == [1, 2, 3]  # type: ignore[union-attr]
    assert own.taken().tolist() == []  # type: ignore[union-attr]
    own.note([5])
    own.note_all()
    own.note([6])
    assert own.taken() is None
    own.stop()
    own.note([7])
    assert own.taken().tolist() == []  # type: ignore[union-attr]


def test_rows_that_are_written_again_and_again_weigh_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_FEW", 10)
    own = Journal()
    own.watch()
    own.taken()
    for n in range(1000):
        own.note([n % 4, 7])
        assert sum(map(len, own._noted)) <= 12
    assert own.taken().tolist() == [0, 1, 2, 3, 7]  # type: ignore[union-attr]


def test_what_was_noted_is_a_copy() -> None:
    own, rows = Journal(), np.array([1, 2], np.int32)
    own.watch()
    own.taken()
    own.note(rows)
    rows[:] = 9
    assert own.taken().tolist() == [1, 2]  # type: ignore[union-attr]
