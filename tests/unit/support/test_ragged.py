"""Ragged arrays give back what went in, whatever the characters; and what does not add up is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream.bounds.costs import ATTRIBUTE, attributes_cost, text_cost, texts_cost
from coldstream.support.ragged import (
    blobs,
    documents,
    joined,
    joined_documents,
    joined_texts,
    parted,
    parted_texts,
    taken,
    texts,
)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ascii_words = st.text(st.characters(max_codepoint=127), max_size=5)


@given(st.lists(st.none() | st.binary(max_size=5)))
def test_blobs_come_back_and_what_was_not_there_is_not(parts: list[bytes | None]) -> None:
    assert parted(*joined(parts)) == parts


@given(st.lists(st.none() | words) | st.lists(st.none() | ascii_words))
def test_texts_come_back_with_their_gaps(parts: list[str | None]) -> None:
    assert parted_texts(*joined_texts(parts)) == parts


@given(st.lists(words) | st.lists(ascii_words))
def test_texts_and_documents_come_back_where_none_is_missing(parts: list[str]) -> None:
    assert texts(*joined_texts(parts)) == parts
    assert documents(*joined_documents(parts)) == parts


@given(st.lists(words) | st.lists(ascii_words))
def test_many_texts_weigh_what_each_does(parts: list[str]) -> None:
    assert texts_cost(parts) == sum(map(text_cost, parts))
    assert attributes_cost({"a": parts, "b": tuple(parts)}) == 2 * (ATTRIBUTE * len(parts) + sum(map(text_cost, parts)))
    assert attributes_cost(dict(enumerate(parts))) == ATTRIBUTE * len(parts) + sum(map(text_cost, parts))
    mixed = [3, *parts, None, 2.5]
    assert attributes_cost({"a": mixed, "b": None}) == ATTRIBUTE * (len(mixed) + 1) + sum(map(text_cost, parts))


@pytest.mark.parametrize("read", [blobs, texts, documents])
def test_a_gap_is_refused_where_none_may_be(read: object) -> None:
    with pytest.raises(ValueError, match="a part of a ragged array is missing"):
        read(*joined([b"1", None]))


@pytest.mark.parametrize("length", [[1, 1], [2, 2], [-2, 3], [4]])
def test_lengths_that_do_not_add_up_are_refused(length: list[int]) -> None:
    with pytest.raises(ValueError, match="lengths do not add up to 3 bytes"):
        parted(np.zeros(3, np.uint8), np.array(length, np.int32))


@given(st.lists(st.none() | st.binary(max_size=5)), st.data())
def test_some_parts_are_taken_as_they_are_joined(parts: list[bytes | None], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(parts) - 1), unique=True).map(sorted) if parts else st.just([]))
    content, length = taken(*joined(parts), np.array(places, np.int32))
    expected = joined([parts[place] for place in places])
    assert (content.tobytes(), length.tolist()) == (expected[0].tobytes(), expected[1].tolist())
    assert (content.dtype, length.dtype) == (np.uint8, np.int32)


@given(st.lists(st.none() | words) | st.lists(st.none() | ascii_words))
def test_texts_are_joined_as_their_bytes_are(given_texts: list[str | None]) -> None:
    content, length = joined_texts(iter(given_texts))
    expected = joined([None if text is None else text.encode() for text in given_texts])
    assert (content.tobytes(), length.tolist()) == (expected[0].tobytes(), expected[1].tolist())
    assert (content.dtype, length.dtype) == (np.uint8, np.int32)
    assert parted_texts(content, length) == given_texts
