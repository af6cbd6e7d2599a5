"""A user in a few bytes is the same user, and what is not one is refused."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream import Categories, Category, Event, Id, LastAttribute, LastTimePart, Number, Recommender, Schema
from coldstream.bounds.costs import attributes_cost
from coldstream.support.ragged import joined
from coldstream.users.packed import NOTHING, UserParts, check_all, packed, unpacked
from conftest import bits

slots = st.integers(0, 2**31 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
numbers = st.floats(allow_nan=False, allow_infinity=False)
values = st.one_of(texts, numbers, st.booleans(), st.integers(-(2**70), 2**70), st.lists(texts, max_size=3).map(tuple))
notes = st.lists(st.tuples(st.integers(0, 99), texts, numbers), max_size=3).map(tuple)


def parts(
    chosen: list[int] | dict[int, int],
    recent: list[int],
    time: float | None,
    note: Any,
    attributes: dict[str, Any],
    as_of: int = 0,
    tried: dict[int, int] | None = None,
) -> UserParts:
    often = chosen if isinstance(chosen, dict) else dict.fromkeys(chosen, 1)
    tried = tried or {}
    counted = (np.array(list(own), np.int32) for own in (often, often.values()))
    counted_tries = (np.array(list(own), np.int32) for own in (tried, tried.values()))
    return UserParts(recent, time, note, attributes, *counted, as_of, *counted_tries)


@given(
    st.dictionaries(slots, st.integers(1, 9) | st.just(1), max_size=100),
    st.lists(slots, max_size=12),
    st.none() | numbers,
    notes,
    st.dictionaries(texts, values, max_size=4),
    st.integers(0, 2**63 - 1),
    st.dictionaries(slots, st.integers(1, 9), max_size=100),
)
def test_packing_and_unpacking_is_the_identity(
    chosen: dict[int, int],
    recent: list[int],
    time: float | None,
    note: Any,
    attributes: dict[str, Any],
    as_of: int,
    tried: dict[int, int],
) -> None:
    found = unpacked(packed(parts(chosen, recent, time, note, attributes, as_of, tried)))
    assert (found.tried.tolist(), found.tried_times.tolist()) == (list(tried), list(tried.values()))
    assert (found.slots.tolist(), found.times.tolist()) == (list(chosen), list(chosen.values())), "in the same order"
    assert (found.recent, found.time, found.last_item, found.as_of) == (recent, time, note, as_of)
    assert repr(found.attributes) == repr(attributes), "in the same order, and a number stays of its type"
    arrays = (found.slots, found.times, found.tried, found.tried_times)
    assert all(own.flags.writeable for own in arrays), "kernels are compiled for arrays that may change"


def test_nothing_is_known_of_whoever_has_no_past() -> None:
    assert packed(parts([], [], None, (), {})) == NOTHING
    assert len(packed(parts([5, 6, 7], [5, 6, 7], None, (), {}))) == 48


@pytest.mark.parametrize(
    ("users", "why"),
    [
        ([parts([9], [], None, (), {})], "beyond 0 to 8"),
        ([parts([], [9], None, (), {})], "beyond 0 to 8"),
        ([parts([8], [-1], None, (), {})], "beyond 0 to 8"),
        ([parts([], [], None, (), {}, tried={9: 1})], "beyond 0 to 8"),
        ([parts([], [], None, (), {}, tried={8: 0})], "beyond 1 to"),
        ([parts([1], [], math.inf, (), {})], "not as long"),
        ([parts([1], [], None, (), {}, 6)], "of the future"),
        ([parts([1], [], None, (), {}, -1)], "of the future"),
        ([parts([1], [], None, ((2, "a", 1.0),), {})], "last item"),
    ],
)
def test_a_user_who_does_not_fit_is_refused(users: list[UserParts], why: str) -> None:
    sound = [packed(parts({8: 2, 0: 1}, [0, 8], 3.5, ((1, "a", 1.0),), {"a": "b"}, 5, {8: 3}))] * 3
    assert check_all(*joined(sound), 9, 5, 2, dict) == (3 * 3, 3 * attributes_cost({"a": "b"}))
    with pytest.raises(ValueError, match=why):
        check_all(*joined([*sound, *map(packed, users), *sound]), 9, 5, 2, dict)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        NOTHING[:-1],
        NOTHING + b"x",
        NOTHING + b"[{},[]],[{},[]]",
        NOTHING + b"[{},[[1]]]",
        NOTHING + b"[[],[]]",
        NOTHING[:16] + b"\xff" * 8,
        NOTHING[:20] + (3).to_bytes(4, "little") + bytes(8),
    ],
)
def test_bytes_that_are_no_user_are_refused(blob: bytes) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        check_all(*joined([NOTHING, blob]), 9, 0, 2, dict)


SCHEMA = Schema(
    user=[Id(), Category("job"), Number("age"), Categories("likes")],
    item=[Id(), Categories("genre")],
    context=[LastAttribute("last_genre", of="genre"), LastTimePart("last_weekday")],
)


def test_whether_somebody_is_packed_can_be_seen_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for two users or for all of them: every bit and every answer is the same."""

    def lived(most: int) -> tuple[Any, ...]:
        monkeypatch.setattr("coldstream.users.states.MOST_UNPACKED", most)
        recommender = Recommender(SCHEMA, seed=3, factors=4, negatives=5)
        recommender.put_items((f"i{n}", {"genre": [f"g{n % 3}", f"g{n % 5}"]}) for n in range(20))
        recommender.put_users((f"u{n}", {"job": f"j{n % 2}", "age": n, "likes": ["x", f"y{n}"]}) for n in range(0, 9, 2))
        answers: list[Any] = []
        for n in range(120):
            recommender.learn(Event(f"u{n * 7 % 9}", f"i{n * n % 20}", 1e6 * n))
            if n % 11 == 0:
                answers.append(recommender.recommend(f"u{n % 9}", 5))
            if n == 60:
                recommender.put_item("i3", {"genre": ["other"]})
                recommender.remove_item("i4")
                recommender.put_user("u4", {"age": 2.5})
                recommender.forget_user("u6")
        recommender.learn([Event(f"u{n % 12}", f"i{n % 20}", 2e8 + n) for n in range(50)])
        return bits(recommender), answers, recommender.users(), [recommender.user(user) for user in recommender.users()]

    assert lived(2) == lived(1000)


def test_what_is_undone_is_undone_for_those_who_were_packed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldstream.users.states.MOST_UNPACKED", 2)
    recommender = Recommender(SCHEMA, seed=3, factors=4, negatives=5)
    for n in range(30):
        recommender.learn(Event(f"u{n % 7}", f"i{n}", 1e6 * n))
    users = recommender.engine.users
    before = bits(recommender)
    undo = users.checkpoint([f"u{n}" for n in range(10)])
    for n in range(10):
        users.remember(Event(f"u{n}", "i3"), 3)
    assert bits(recommender) != before
    undo()
    assert bits(recommender) == before
