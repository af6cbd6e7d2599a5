"""Bounds: whichever way a stream is learned, the same things go; and what goes is what the definition says."""

import math
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coldstream import Bounds, Categories, Category, Diverged, Event, Id, LastItem, Number, Recommender, Schema
from conftest import bits

MOST, HALF_LIFE = 5, 7.0


def schema(**options: Any) -> Schema:
    return Schema(
        user=[Id(most=4), Category("country", most=2)],
        item=[Id(), Categories("genre", most=3)],
        context=[Category("device", most=MOST, **options), LastItem(most=3)],
    )


def small(bounds: Bounds, declared: Schema | None = None) -> Recommender:
    return Recommender(declared or schema(), seed=3, factors=2, negatives=2, trends=(), neighbours=2, bounds=bounds)


TIGHT = Bounds(users=4, seen=2, undeclared=1, undeclared_values=2, admissions=3, half_life=HALF_LIFE)

LINES = st.lists(
    st.one_of(
        st.tuples(
            st.just("event"),
            st.integers(0, 7),
            st.integers(0, 5),
            st.integers(0, 12),
            st.sampled_from([None, "a", "b"]),
            st.integers(0, 40),
        ),
        st.tuples(st.just("user"), st.integers(0, 7), st.integers(0, 4)),
        st.tuples(st.just("item"), st.integers(0, 5), st.integers(0, 6), st.integers(0, 6)),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("forget"), st.integers(0, 7)),
    ),
    max_size=60,
)


def event_of(line: tuple[Any, ...], time: float | None) -> Event:
    _, user, item, device, extra, _ = line
    context = {"device": f"d{device}"} | ({} if extra is None else {extra: f"{extra}{device}"})
    return Event(f"u{user}", f"i{item}", time, context)


def pieces(lines: list[tuple[Any, ...]]) -> list[tuple[str, list[Any]]]:
    """Lines as a log would hold them, those of one kind that follow each other together."""
    found: list[tuple[str, list[Any]]] = []
    time = 1e9
    for line in lines:
        if line[0] == "event":
            time += 1000.0 * line[5]
            one: Any = event_of(line, time if line[5] else None)
        elif line[0] == "user":
            one = (f"u{line[1]}", {"country": f"c{line[2]}"})
        elif line[0] == "item":
            one = (f"i{line[1]}", {"genre": [f"g{line[2]}", f"g{line[3]}"]})
        else:
            one = f"{'i' if line[0] == 'remove' else 'u'}{line[1]}"
        if found and found[-1][0] == line[0]:
            found[-1][1].append(one)
        else:
            found.append((line[0], [one]))
    return found


def leave(recommender: Recommender, kind: str, names: list[str]) -> None:
    for name in names:
        if kind == "remove" and recommender.has_item(name):
            recommender.remove_item(name)
        elif kind == "forget" and recommender.has_user(name):
            recommender.forget_user(name)


def one_by_one(recommender: Recommender, lines: list[tuple[Any, ...]]) -> Recommender:
    for kind, piece in pieces(lines):
        if kind in ("remove", "forget"):
            leave(recommender, kind, piece)
        for one in piece:
            if kind == "event":
                recommender.learn(one)
            elif kind == "user":
                recommender.put_user(*one)
            elif kind == "item":
                recommender.put_item(*one)
    return recommender


def many(recommender: Recommender, lines: list[tuple[Any, ...]], replay: bool, restart: bool) -> Recommender:
    for kind, piece in pieces(lines):
        if kind == "event" and replay:
            recommender.engine.replay(list(enumerate(piece, recommender.position + 1)))
        elif kind == "event":
            recommender.learn(piece)
        elif kind == "user":
            recommender.put_users(piece)
        elif kind == "item":
            recommender.put_items(piece)
        else:
            leave(recommender, kind, piece)
        if restart:
            recommender = Recommender.from_state(*recommender.state())
    return recommender


BOUNDS = {
    "tight": (TIGHT, {}),
    "rare": (TIGHT, {"admit_after": 2}),
    "short-lived": (TIGHT.with_(expire_users=9), {"expire": 5}),
    "few items": (TIGHT.with_(items=3), {}),
    "timed": (TIGHT.with_(expire_users="2h"), {"expire": "90m"}),
}


@pytest.mark.parametrize("name", BOUNDS)
@given(lines=LINES)
@settings(max_examples=30)
def test_every_way_leads_to_the_same_bits(name: str, lines: list[tuple[Any, ...]]) -> None:
    bounds, options = BOUNDS[name]
    declared = schema(**options)
    expected = one_by_one(small(bounds, declared), lines)
    for replay in (False, True):
        for restart in (False, True):
            assert bits(many(small(bounds, declared), lines, replay, restart)) == bits(expected)
    size = {field: expected.inspection.count(field) for field in ("user.id", "user.country", "context.device", "item.genre")}
    assert size["user.id"] <= 4
    assert size["user.country"] <= 2
    assert size["context.device"] <= MOST
    assert size["item.genre"] <= 3
    assert len(expected.users()) <= 4
    assert bounds.items is None or len(expected.items()) <= bounds.items


class Twin:
    """A field of at most so many values, from the definition: the least useful goes, of equals the one that came first."""

    def __init__(self) -> None:
        self.uses: dict[str, list[int]] = defaultdict(list)
        self.columns: dict[str, int] = {}

    def use(self, value: str, at: int) -> None:
        if value not in self.columns:
            self.uses[value] = [at]
            self.columns[value] = min(set(range(len(self.columns) + 1)) - set(self.columns.values()))
        self.uses[value].append(at + 1)
        while len(self.columns) > MOST:
            gone = min(self.columns, key=lambda one: (round(self.worth(one, at), 9), self.columns[one]))
            del self.columns[gone], self.uses[gone]

    def worth(self, value: str, now: int) -> float:
        return sum(math.pow(2, -(now - at) / HALF_LIFE) for at in self.uses[value])


@given(values=st.lists(st.integers(0, 11), max_size=120))
@settings(max_examples=60)
def test_the_least_useful_goes(values: list[int]) -> None:
    declared = Schema(user=[], item=[Id()], context=[Category("device", most=MOST)])
    recommender, twin = Recommender(declared, "paper", factors=1, bounds=Bounds(half_life=HALF_LIFE)), Twin()
    recommender.put_item("i")
    for at, value in enumerate(values):
        recommender.learn(Event("u", "i", context={"device": f"d{value}"}))
        twin.use(f"d{value}", at)
        assert sorted(recommender.inspection.values("context.device", 99)) == sorted(twin.columns)
    evicted = recommender.memory.gone.get("values evicted", 0)
    assert evicted == 0 or len(twin.columns) == MOST


def test_a_diverged_event_changes_nothing_that_bounds_keep(unchanged: Any) -> None:
    declared = Schema(user=[Id(most=3)], context=[Category("device", most=2, admit_after=2, expire=4), Number("size")])
    recommender = Recommender(declared, "paper", factors=2, learning_rate=0.05, bounds=TIGHT)
    recommender.put_item("i0")
    for n in range(8):
        recommender.learn(Event(f"u{n}", "i0", context={"device": f"d{n % 3}"}))
    odd = Event("new", "i9", context={"device": "other", "size": 1e9, "never": "seen", "nor": "this"})
    assert "finite" in unchanged(recommender, Diverged, lambda: recommender.learn(odd))
    stream = [Event(f"u{n}", f"i{n}", context={"device": f"d{n}"}) for n in range(9)]
    assert "finite" in unchanged(recommender, Diverged, lambda: recommender.learn([*stream, *stream, odd]))
