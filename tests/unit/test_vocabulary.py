"""The vocabulary grows only when asked to, and can take back what it admitted."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream.features.vocabulary import Vocabulary

ADMIT, NEAR, RELEASE = "admit", "near", "release"
operations = st.lists(st.tuples(st.sampled_from([ADMIT, NEAR, RELEASE]), st.integers(0, 12), st.integers(0, 2)), max_size=40)


def apply(vocabulary: Vocabulary, operation: tuple[str, int, int]) -> None:
    kind, value, place = operation
    if kind == ADMIT:
        vocabulary.admit(0, f"v{value}")
    elif kind == NEAR:
        vocabulary.admit_near(1, f"v{value}", place)
    elif vocabulary.find(1, f"v{value}") is not None:
        vocabulary.release_near(1, f"v{value}", place)
    elif vocabulary.find(0, f"v{value}") is not None:
        vocabulary.release(0, f"v{value}")


def fresh() -> Vocabulary:
    vocabulary = Vocabulary()
    vocabulary.admit_field("a")
    vocabulary.admit_field("b")
    return vocabulary


@given(operations)
def test_columns_are_unique_and_their_owners_known(stream: list) -> None:
    vocabulary = fresh()
    for operation in stream:
        apply(vocabulary, operation)
        vocabulary.commit()
        known = {(f, v): vocabulary.find(f, v) for f in (0, 1) for v in map("v{}".format, range(13))}
        columns = [column for column in known.values() if column is not None]
        assert len(columns) == len(set(columns))
        assert all(column < len(vocabulary) for column in columns)
        for (field, value), column in known.items():
            if column is not None:
                assert vocabulary.owner(column) == ("ab"[field], value)


@given(before=operations, after=st.lists(st.tuples(st.sampled_from([ADMIT, NEAR]), st.integers(0, 20), st.integers(0, 2))))
def test_rollback_leaves_nothing(before: list, after: list) -> None:
    vocabulary = fresh()
    for operation in before:
        apply(vocabulary, operation)
    vocabulary.commit()
    document = json.dumps(vocabulary.document())
    for operation in after:
        apply(vocabulary, operation)
    vocabulary.admit(vocabulary.admit_field("c"), "new")
    vocabulary.rollback()
    assert json.dumps(vocabulary.document()) == document
    assert vocabulary.fields == ["a", "b"]


@given(before=operations, after=operations)
def test_a_document_goes_on_alike(before: list, after: list) -> None:
    vocabulary = fresh()
    for operation in before:
        apply(vocabulary, operation)
    vocabulary.commit()
    copy = Vocabulary.from_document(json.loads(json.dumps(vocabulary.document())))
    for operation in after:
        apply(vocabulary, operation)
        apply(copy, operation)
    assert copy.document() == vocabulary.document()


def test_columns_are_reused_so_churn_does_not_grow() -> None:
    vocabulary = fresh()
    for n in range(1000):
        vocabulary.admit(0, f"user {n}")
        vocabulary.admit_near(1, f"item {n}", n % 3)
        if n >= 10:
            vocabulary.release(0, f"user {n - 10}")
            vocabulary.release_near(1, f"item {n - 10}", (n - 10) % 3)
    assert len(vocabulary) < 40


def test_neighbours_share_runs() -> None:
    vocabulary = fresh()
    for n in range(400):
        vocabulary.admit_near(1, f"v{n}", n % 4)
    columns = [sorted(vocabulary.find(1, f"v{n}") or 0 for n in range(place, 400, 4)) for place in range(4)]
    for run in columns:
        assert sum(b - a == 1 for a, b in pairwise(run)) > 80


def test_a_gap_has_no_owner() -> None:
    vocabulary = fresh()
    column = vocabulary.admit(0, "x")
    vocabulary.release(0, "x")
    with pytest.raises(IndexError):
        vocabulary.owner(column)
