"""A full state and increments lead to the state that was written at once, to the bit; and what does not fit is found."""

import copy
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coldstream.snapshots import increments
from coldstream.snapshots.increments import BLOCK, State, fingerprint, increment, is_increment, merged
from coldstream.support.ragged import joined


def state(rows: list[list[float]], flat: list[int], users: list[bytes | None], said: str = "") -> State:
    content, length = joined(users)
    arrays = {
        "model.V": np.array(rows, np.float32).reshape(len(rows), 20),
        "catalogue.level": np.array(flat, np.float64).reshape(2, -1) if len(flat) % 2 == 0 else np.zeros((2, 0)),
        "catalogue.choices": np.array(flat, np.int32),
        "users.user": content,
        "users.user_length": length,
    }
    return {"said": said, "events": len(flat)}, arrays


def same(one: State, other: State) -> None:
    assert one[0] == other[0]
    assert one[1].keys() == other[1].keys()
    for name, array in one[1].items():
        assert (array.dtype, array.shape) == (other[1][name].dtype, other[1][name].shape), name
        assert array.tobytes() == other[1][name].tobytes(), name


rows = st.lists(st.lists(st.floats(width=32, allow_nan=False), min_size=20, max_size=20), max_size=6)
flat = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=200)
users = st.lists(st.binary(max_size=6), max_size=8)
states = st.builds(state, rows, flat, users, st.text(st.characters(exclude_categories=["Cs"]), max_size=3))


@given(st.lists(states, min_size=2, max_size=5))
@settings(max_examples=200)
def test_any_state_can_follow_any_other(given_states: list[State]) -> None:
    first, *rest = copy.deepcopy(given_states)
    known, made_so_far = fingerprint(first), []
    for later in rest:
        made, known = increment(later, known)
        assert is_increment(made)
        made_so_far.append(made)
        found, seal = merged(first, made_so_far)
        same(found, later)
        assert seal.seal == known.seal
    same(first, given_states[0])


@given(st.lists(st.none() | st.binary(max_size=9), max_size=30), st.integers(1, 20))
def test_a_record_has_the_digest_of_its_definition(records: list[bytes | None], piece: int) -> None:
    """Files of older releases hold seals of these digests."""
    content, length = joined(records)
    factors = [int(own) for own in increments._factors(10)]
    with mock.patch.object(increments, "PIECE", piece):
        found = increments._of_records(content, length).tolist()
    for record, own in zip(records, found, strict=True):
        size, part = (-1, b"") if record is None else (len(record), record)
        assert own == ((size + 2) * factors[0] + sum(b * f for b, f in zip(part, factors[1:], strict=False))) % 2**64


def test_an_array_that_was_not_there_before_is_all_new() -> None:
    """Sessions and sketches come when somebody first asks for them."""
    first = state([[1.0] * 20], [1, 2], [b"a"])
    later = (first[0], {**first[1], "admissions.sketch7": np.arange(3, dtype=np.uint16)})
    made, _ = increment(later, fingerprint(first))
    same(merged(first, [made])[0], later)


def large() -> State:
    rng = np.random.default_rng(1)
    blobs: list[Any] = [rng.bytes(30 + n % 9) for n in range(500)]
    return state(rng.normal(size=(500, 20)).tolist(), rng.integers(9, size=4000).tolist(), blobs)


def test_an_increment_holds_what_has_changed_and_little_else() -> None:
    before, after = large(), large()
    after[1]["model.V"][[7, 400], 3] += 1
    after[1]["catalogue.choices"][-1] += 1
    (_, new), _ = increment(after, fingerprint(before))
    assert new["model.V@at"].tolist() == [7, 400]
    assert len(new["model.V@new"]) == 2 * 80
    assert new["catalogue.choices@at"].tolist() == [4 * 4000 // BLOCK]
    assert {name.partition("@")[0] for name in new} == {"model.V", "catalogue.choices"}


def test_a_user_who_changes_is_written_alone() -> None:
    before = large()
    after = state(before[1]["model.V"].tolist(), before[1]["catalogue.choices"].tolist(), [b"x"] * 500)
    blobs = [before[1]["users.user"][:30].tobytes(), *[b"x"] * 499]
    changed = state(before[1]["model.V"].tolist(), before[1]["catalogue.choices"].tolist(), [b"longer" * 9, *blobs[1:]])
    (_, new), _ = increment(changed, fingerprint(after))
    assert new["users.user@at"].tolist() == [0]
    assert new["users.user@new"].tobytes() == b"longer" * 9


@pytest.mark.parametrize("name", ["model.V", "catalogue.level", "catalogue.choices", "users.user"])
def test_every_single_bit_is_noticed(name: str) -> None:
    whole = large()
    seals = {fingerprint(whole).seal}
    rng = np.random.default_rng(2)
    for _ in range(40):
        damaged = {**whole[1], name: whole[1][name].copy()}
        own = damaged[name].reshape(-1).view(np.uint8)
        own[rng.integers(len(own))] ^= 1 << int(rng.integers(8))
        seals.add(fingerprint((whole[0], damaged)).seal)
    assert len(seals) >= 40, "each is another state, but for places that were drawn twice"
    assert fingerprint(({**whole[0], "said": "x"}, whole[1])).seal not in seals


@pytest.mark.parametrize("fault", ["another full", "left out", "another order", "damaged"])
def test_increments_of_something_else_are_refused(fault: str) -> None:
    full, middle, last = large(), large(), large()
    middle[1]["model.V"][3] += 1
    last[1]["model.V"][3] += 1
    last[1]["model.V"][9] += 1
    first, known = increment(middle, fingerprint(full))
    second, _ = increment(last, known)
    same(merged(full, [first, second])[0], last)
    chain = [first, second]
    if fault == "another full":
        full[1]["model.V"][50] += 1
    elif fault == "left out":
        chain = [second]
    elif fault == "another order":
        chain = [second, first]
    else:
        first[1]["model.V@new"][5] ^= 1
    with pytest.raises(ValueError, match="increment"):
        merged(full, chain)
