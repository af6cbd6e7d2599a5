"""The vocabulary grows only when asked to, and can take back what it admitted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream.features.vocabulary import Vocabulary

ADMIT, RELEASE = "admit", "release"
operations = st.lists(st.tuples(st.sampled_from([ADMIT, RELEASE]), st.integers(0, 1), st.integers(0, 12)), max_size=40)


def apply(vocabulary: Vocabulary, operation: tuple[str, int, int]) -> None:
    kind, field, value = operation
    if kind == ADMIT:
        vocabulary.admit(field, f"v{value}")
    elif vocabulary.find(field, f"v{value}") is not None:
        vocabulary.release(field, f"v{value}")


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
        assert len(columns) == len(set(columns)) == vocabulary.features()
        assert all(column < len(vocabulary) for column in columns)
        for (field, value), column in known.items():
            if column is not None:
                assert vocabulary.owner(column) == ("ab"[field], value)
        for field in (0, 1):
            own = sorted(column for (f, _), column in known.items() if f == field and column is not None)
            assert list(vocabulary.columns(field)) == own
            assert list(vocabulary.columns(field, 3)) == [column for column in own if column >= 3]
            assert vocabulary.count(field) == len(own)


@given(before=operations, after=st.lists(st.tuples(st.just(ADMIT), st.integers(0, 1), st.integers(0, 20))))
def test_rollback_leaves_nothing(before: list, after: list) -> None:
    vocabulary = fresh()
    for operation in before:
        apply(vocabulary, operation)
    vocabulary.commit()
    document = json.dumps(vocabulary.document())
    for operation in after:
        apply(vocabulary, operation)
    new = vocabulary.admit(vocabulary.admit_field("c"), "new")
    admitted = [one.column for one in vocabulary.unstarted()]
    assert admitted[-1] == new
    assert sorted(vocabulary.rollback()) == sorted(admitted)
    assert json.dumps(vocabulary.document()) == document
    assert vocabulary.fields == ["a", "b"]
    assert not vocabulary.uncommitted
    assert vocabulary.unstarted() == []


@given(before=operations, undone=operations, after=operations)
def test_a_document_goes_on_alike(before: list, undone: list, after: list) -> None:
    """Whatever was admitted and taken back in between."""
    vocabulary = fresh()
    for operation in before:
        apply(vocabulary, operation)
    vocabulary.commit()
    copy = Vocabulary.from_document(json.loads(json.dumps(vocabulary.document())))
    for operation in undone:
        if operation[0] == ADMIT:
            apply(vocabulary, operation)
    vocabulary.rollback()
    for operation in after:
        apply(vocabulary, operation)
        apply(copy, operation)
    assert copy.document() == vocabulary.document()
    assert [list(copy.columns(field)) for field in (0, 1)] == [list(vocabulary.columns(field)) for field in (0, 1)]


def test_columns_are_reused_so_churn_does_not_grow() -> None:
    vocabulary = fresh()
    for n in range(1000):
        vocabulary.admit(0, f"user {n}")
        vocabulary.admit(1, f"item {n}")
        if n >= 10:
            vocabulary.release(0, f"user {n - 10}")
            vocabulary.release(1, f"item {n - 10}")
    assert len(vocabulary) <= 22


def test_the_lowest_gap_is_filled_first() -> None:
    vocabulary = fresh()
    for n in range(6):
        vocabulary.admit(0, f"v{n}")
    for n in (4, 1, 3):
        vocabulary.release(0, f"v{n}")
    assert [vocabulary.admit(1, f"w{n}") for n in range(5)] == [1, 3, 4, 6, 7]


def test_what_is_new_is_told_once() -> None:
    vocabulary = fresh()
    assert vocabulary.uncommitted  # two fields
    vocabulary.commit()
    assert not vocabulary.uncommitted
    vocabulary.admit(0, "x")
    assert vocabulary.uncommitted
    assert [(one.column, one.field, one.value) for one in vocabulary.unstarted()] == [(0, 0, "x")]
    vocabulary.admit(1, "y")
    vocabulary.admit(0, "x")
    assert [(one.column, one.field, one.value) for one in vocabulary.unstarted()] == [(1, 1, "y")]
    assert vocabulary.unstarted() == []
    vocabulary.commit()
    vocabulary.admit(1, "z")
    assert [one.value for one in vocabulary.unstarted()] == ["z"]


def test_columns_once_found_hold_until_one_is_released() -> None:
    vocabulary = fresh()
    vocabulary.admit(0, "x")
    vocabulary.commit()
    before = vocabulary.release_count
    vocabulary.admit(0, "y")
    assert vocabulary.release_count == before
    vocabulary.rollback()
    taken_back = vocabulary.release_count
    assert taken_back > before
    vocabulary.release(0, "x")
    assert vocabulary.release_count > taken_back


def test_a_gap_has_no_owner() -> None:
    vocabulary = fresh()
    column = vocabulary.admit(0, "x")
    vocabulary.release(0, "x")
    assert vocabulary.owner_or_none(column) is None
    with pytest.raises(IndexError):
        vocabulary.owner(column)


def apart() -> Vocabulary:
    """A city, two genres and a user, of which all but one genre went, where items are kept apart."""
    vocabulary = Vocabulary()
    city, genre, user = (vocabulary.admit_field(name) for name in ("user.city", "item.genre", "user.id"))
    for field, value in ((city, "Bern"), (genre, "drama"), (genre, "crime"), (user, "u1")):
        vocabulary.admit(field, value)
    vocabulary.commit()
    vocabulary.keep_items_apart()
    for field, value in ((city, "Bern"), (genre, "drama"), (user, "u1")):
        vocabulary.release(field, value)
    return vocabulary


def test_features_of_items_fill_the_gaps_of_items_where_these_are_kept_apart() -> None:
    for vocabulary in (apart(), Vocabulary.from_document(apart().document())):
        assert vocabulary.document()["column_field"] == [-1, -2, 1, -1]
        assert vocabulary.admit(1, "comedy") == 1
        assert vocabulary.admit(1, "noir") == 4
        assert [vocabulary.admit(2, user) for user in ("u2", "u3", "u4")] == [0, 3, 5]


def test_what_was_admitted_to_a_gap_of_items_is_taken_back() -> None:
    vocabulary = apart()
    vocabulary.commit()
    before = vocabulary.document()
    vocabulary.admit(1, "comedy")
    vocabulary.admit(2, "u2")
    vocabulary.release_all(1, [2])
    vocabulary.rollback()
    assert vocabulary.document() == before
    assert vocabulary.admit(1, "comedy") == 1


def test_any_gap_is_filled_again_once_items_are_no_longer_apart() -> None:
    vocabulary = apart()
    vocabulary.fill_any_gap()
    assert vocabulary.document()["column_field"] == [-1, -1, 1, -1]
    assert [vocabulary.admit(2, user) for user in ("u2", "u3", "u4", "u5")] == [0, 1, 3, 4]


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ([0, 0], ["a", "a"]),  # a value with two columns
        ([0, 2], ["a", "b"]),  # a field that is not there
        ([0, -3], ["a", None]),
        ([0, -1], ["a", "b"]),  # a gap with a value
        ([0, 1], ["a", None]),  # a value that is missing
        ([0, 1], ["a", 7]),
        ([0], ["a", "b"]),
    ],
)
def test_a_document_that_is_not_one_is_refused(fields: list[int], values: list[object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Vocabulary.from_document({"fields": ["f", "g"], "column_field": fields, "column_value": values})


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_what_is_new_is_told_once_and_from_the_beginning_after_an_end(end: str) -> None:
    vocabulary = Vocabulary()
    field = vocabulary.admit_field("item.genre")
    vocabulary.commit()
    for round_ in range(2):
        for several in (["a", "b"], ["c"], []):
            for value in several:
                vocabulary.admit(field, f"{value}{round_}")
            assert [one.value for one in vocabulary.unstarted()] == [f"{value}{round_}" for value in several]
        assert vocabulary.uncommitted
        getattr(vocabulary, end)()
        assert not vocabulary.uncommitted
        assert vocabulary.count(field) == (3 * (round_ + 1) if end == "commit" else 0)
