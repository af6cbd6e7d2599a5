"""How useful things are, beside a twin that adds up every use by the definition; and what follows from it for bounds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream import Bounds, Category, Event, Id, Recommender, Schema
from coldstream.bounds.usage import CHECKS, NEVER, Usage, is_time_to_look, least_of
from coldstream.events.clock import Clock
from coldstream.users.use import UserUse


class Twin:
    """Every use of every row. One of which nothing is known was used once, when the stream began."""

    def __init__(self, half_life: float) -> None:
        self.half_life, self.uses = half_life, dict[int, list[int]]()

    def count(self, row: int, now: int) -> float:
        """log₂ of the uses, each halved with every half-life since."""
        uses = self.uses.get(row, [0])
        return math.log2(sum(2.0 ** ((t - now) / self.half_life) for t in uses))


_STEP = st.tuples(
    st.sampled_from(["start", "note", "note one", "forget"]), st.lists(st.integers(0, 9), min_size=1, unique=True)
)


@given(st.lists(_STEP, max_size=30), st.sampled_from([1.0, 3.0, 50.0]))
def test_what_rows_count_is_the_sum_of_their_uses(steps: list[tuple[str, list[int]]], half_life: float) -> None:
    usage, twin = Usage(), Twin(half_life)
    for now, (what, rows) in enumerate(steps, 1):
        clock, own = Clock(now, now, 100.0 + now), np.array(rows, np.int32)
        if what == "start":
            usage.start(own, clock, half_life)
            twin.uses |= {row: [now] for row in rows}
        elif what == "note":
            usage.note(own, clock, half_life)
            twin.uses |= {row: [*twin.uses.get(row, [0]), now] for row in rows}
        elif what == "note one":
            usage.note_one(rows[0], clock, half_life)
            twin.uses[rows[0]] = [*twin.uses.get(rows[0], [0]), now]
        else:
            usage.forget(rows)
            for row in rows:
                twin.uses.pop(row, None)
    end, everything = Clock(len(steps), len(steps)), np.arange(10, dtype=np.int32)
    usage.make_room(10)
    counts = usage.counts(everything, end, half_life)
    assert counts == pytest.approx([twin.count(row, len(steps)) for row in range(10)])
    for row, uses in twin.uses.items():
        assert usage.used_at[row] == uses[-1]
        assert usage.used_time[row] == (100.0 + uses[-1] if uses[-1] else 0.0)
    some = usage.least(everything, 4).tolist()
    assert sorted(some) == sorted(sorted(range(10), key=lambda row: (usage.worth[row], row))[:4])


def test_with_another_half_life_everything_counts_what_it_did() -> None:
    usage, rows = Usage(), np.arange(3, dtype=np.int32)
    for now in (1, 5, 9):
        usage.note(rows[: now // 4 + 1], Clock(now, now), 7.0)
    before, now = usage.counts(rows, Clock(9, 9), 7.0), Clock(9, 9)
    usage.rescale(rows, now, 7.0, 100.0)
    assert usage.counts(rows, now, 100.0) == pytest.approx(before)
    later = Clock(109, 109)
    assert usage.counts(rows, later, 100.0) == pytest.approx(before - 1.0)  # a half-life later, half of it


def test_what_was_never_touched_at_a_time_begins_when_one_first_asks() -> None:
    usage, rows = Usage(), np.arange(3, dtype=np.int32)
    usage.note(rows, Clock(1, 1, None), 5.0)
    assert usage.used_time[:3].tolist() == [NEVER] * 3
    assert usage.older(rows, "10s", Clock(2, 2, None)).tolist() == []
    assert usage.older(rows, "10s", Clock(2, 2, 1000.0)).tolist() == []
    usage.note_one(1, Clock(3, 3, 1005.0), 5.0)
    assert usage.older(rows, "10s", Clock(4, 4, 1010.0)).tolist() == []
    assert usage.older(rows, "10s", Clock(4, 4, 1011.0)).tolist() == [0, 2]
    assert usage.older(rows, 3, Clock(9, 4)).tolist() == []
    assert usage.older(rows, 3, Clock(9, 5)).tolist() == [0, 2]


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=12), st.integers(1, 14))
def test_the_least_are_the_first_of_a_stable_order(worth: list[float], count: int) -> None:
    expected = sorted(range(len(worth)), key=lambda n: worth[n])[:count]
    assert np.flatnonzero(least_of(np.array(worth), count)).tolist() == sorted(expected)


def test_users_have_the_lowest_free_rows_and_keep_them() -> None:
    use = UserUse(4.0)
    for now, user in enumerate("abcd", 1):
        use.note(user, Clock(now, now))
    use.forget("b")
    use.forget("a")
    assert use.rows().tolist() == [2, 3]
    use.come("e", Clock(5, 5))
    use.come("e", Clock(6, 6))  # who is there does not come again
    assert use.rows().tolist() == [0, 2, 3]
    assert use.names([3, 0, 2]) == ["d", "e", "c"]
    assert "e" in use
    assert "a" not in use
    assert use.usage.worth[0] == 5 / 4.0
    copied = use.copy()
    use.take_half_life(8.0, Clock(6, 6))
    assert use.half_life == 8.0
    assert use.usage.counts(use.rows(), Clock(6, 6), 8.0) == pytest.approx(
        copied.usage.counts(copied.rows(), Clock(6, 6), 4.0)
    )
    copied.note("z", Clock(7, 7))
    assert "z" not in use
    users = ["d", "c", "e"]
    restored = UserUse(8.0)
    restored.restore(users, use.state(users))
    assert restored.rows().tolist() == use.rows().tolist()
    assert restored.names([0, 2, 3]) == use.names([0, 2, 3])
    restored.come("y", Clock(8, 8))
    assert restored.names([1]) == ["y"]


def test_who_counts_much_before_bounds_change_counts_much_after_it() -> None:
    """A half-life follows from how many there may be; what was used often must not look old because it is shorter now."""
    schema = Schema(user=[Id()], item=[Id()], context=[Category("place", most=20)])
    recommender = Recommender(schema, seed=1, factors=3, bounds=Bounds(users=50, items=60, half_life=1000.0))
    recommender.put_items((f"i{n}", {}) for n in range(20))
    recommender.learn([Event("regular", "i3", context={"place": "home"}) for _ in range(40)])
    recommender.learn([Event(f"u{n}", f"i{n % 3}", context={"place": f"p{n}"}) for n in range(30)])
    recommender.change_bounds(Bounds(users=10, items=10, half_life=10.0))
    recommender.learn([Event(f"v{n}", f"j{n % 15}", context={"place": f"q{n}"}) for n in range(30)])
    vocabulary, use = recommender.engine.shared.encoder.vocabulary, recommender.engine.users.use
    assert vocabulary.find_named([("context.place", "home", 1.0)]) != [None]
    assert use is not None
    assert use.half_life == 10.0
    assert recommender.has_user("regular")
    assert recommender.has_item("i3")
    assert recommender.size.items <= 10
    assert recommender.size.users <= 10


@pytest.mark.parametrize("age", [1, 63, 64, 640])
def test_what_may_go_without_use_for_so_many_events_is_looked_at_so_often(age: int) -> None:
    looks = [n for n in range(1, 2 * age + 1) if is_time_to_look(age, Clock(n - 1, n - 1), Clock(n, n))]
    step = max(1, age // CHECKS)
    assert looks == list(range(step, 2 * age + 1, step))
    assert is_time_to_look(age, Clock(0, 0), Clock(2 * age, 2 * age)), "many events at once"


def test_what_may_go_without_use_for_so_long_is_looked_at_so_often() -> None:
    def looks(before: float | None, after: float | None) -> bool:
        return is_time_to_look("64s", Clock(0, 0, before), Clock(1, 1, after))

    assert not looks(None, None)
    assert not looks(5.0, None)
    assert looks(None, 5.0)
    assert not looks(5.0, 5.9)
    assert looks(5.9, 6.0)
    assert not looks(6.0, 6.0)
