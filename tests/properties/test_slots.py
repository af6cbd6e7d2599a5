"""Slots are used again, and nobody has what was another's: whoever had an item is asked by its life, not by its slot."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coldstream import (
    Again,
    Bounds,
    Category,
    Diverged,
    Event,
    Follows,
    Id,
    LastItem,
    LastItems,
    Recommender,
    Schema,
    Together,
)
from coldstream.catalogue import slot_table
from conftest import bits

KEPT = 2
SCHEMA = Schema(
    item=[Id(), Category("genre"), Follows(), Together(length=2), Again()], context=[LastItem(), LastItems(length=3)]
)

LINES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["learn", "observe", "put", "remove"]), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.sampled_from(["forget", "restart", "ask", "diverge"]), st.integers(0, 2), st.just(0)),
    ),
    max_size=80,
)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_table, "kept", lambda _: KEPT)


class Twin:
    """Lives instead of slots: an id that comes goes on with its life as long as it is among the last few that went."""

    def __init__(self) -> None:
        self.live: dict[str, int] = {}
        self.gone: dict[str, int] = {}
        self.had: dict[str, dict[int, None]] = {}
        self.lives = 0

    def come(self, item: str) -> None:
        if item not in self.live:
            life = self.gone.pop(item, None)
            if life is None:
                self.lives += 1
                life = self.lives
            self.live[item] = life

    def go(self, item: str) -> None:
        self.gone[item] = self.live.pop(item)
        while len(self.gone) > KEPT:
            del self.gone[next(iter(self.gone))]

    def choose(self, user: str, item: str) -> None:
        self.come(item)
        own = self.had.setdefault(user, {})
        own.pop(self.live[item], None)
        own[self.live[item]] = None

    def new_to(self, user: str) -> list[str]:
        return sorted(item for item, life in self.live.items() if life not in self.had.get(user, {}))

    def last(self, user: str) -> list[str]:
        """What a user had, the latest at the end, as far as it is known by name."""
        names = {life: item for item, life in [*self.live.items(), *self.gone.items()]}
        return [names[life] for life in self.had.get(user, {}) if life in names]


def recommender() -> Recommender:
    return Recommender(SCHEMA, seed=3, factors=2, negatives=2, trends=())


def run(recommender: Recommender, lines: list[tuple[str, int, int]], ask: bool) -> Iterator[Recommender]:
    for kind, a, b in lines:
        user, item = f"u{a}", f"i{b}"
        if kind in ("learn", "observe"):
            getattr(recommender, kind)(Event(user, item))
        elif kind == "put":
            recommender.put_item(item, {"genre": f"g{a}"})
        elif kind == "remove" and recommender.has_item(item):
            recommender.remove_item(item)
        elif kind == "forget" and recommender.has_user(user):
            recommender.forget_user(user)
        elif kind == "restart" and ask:
            recommender = Recommender.from_state(*recommender.state())
        elif kind == "diverge":
            _diverge(recommender, user)
        elif kind == "ask" and ask:
            recommender.recommend(user)
        yield recommender


def _diverge(recommender: Recommender, user: str) -> None:
    intercept = recommender.engine.shared.machine.parameters.theta.w0
    sane, intercept[0] = float(intercept[0]), float("inf")
    before = bits(recommender)
    for item in ("i0", "i5", "never"):
        with pytest.raises(Diverged):
            recommender.learn(Event(f"{user}, who had nothing", item))
        with pytest.raises(Diverged):
            recommender.learn([Event(user, "other"), Event(f"{user}, who had nothing", item)])
    assert bits(recommender) == before
    intercept[0] = sane


@given(lines=LINES)
@settings(max_examples=120)
def test_who_had_what_is_what_lives_say(lines: list[tuple[str, int, int]]) -> None:
    twin = Twin()
    for (kind, a, b), now in zip(lines, run(recommender(), lines, ask=True), strict=True):
        user, item = f"u{a}", f"i{b}"
        if kind in ("learn", "observe"):
            twin.choose(user, item)
        elif kind == "put":
            twin.come(item)
        elif kind == "remove" and item in twin.live:
            twin.go(item)
        elif kind == "forget":
            twin.had.pop(user, None)
        for one in ("u0", "u1", "u2"):
            assert sorted(r.item for r in now.recommend(one, n=99)) == twin.new_to(one)
            state = now.engine.users.of(one)
            assert [
                now.engine.shared.catalogue.ids[slot] for slot in now.engine.users.past(state)[1].slots().tolist()
            ] == twin.last(one)
    assert len(now.engine.shared.catalogue.ids if lines else []) <= 10 + 2 * KEPT


@given(lines=LINES)
@settings(max_examples=60)
def test_who_asks_and_who_restarts_changes_nothing(lines: list[tuple[str, int, int]]) -> None:
    *_, asked = [recommender(), *run(recommender(), lines, ask=True)]
    *_, untouched = [recommender(), *run(recommender(), lines, ask=False)]
    assert bits(asked) == bits(untouched)


def test_a_stream_of_items_that_come_and_go_needs_no_more_slots() -> None:
    now = Recommender(SCHEMA, seed=3, factors=2, negatives=2, trends=(), bounds=Bounds(items=5))
    for n in range(300):
        now.learn(Event(f"u{n % 7}", f"i{n}"))
    assert len(now.items()) <= 5
    assert len(now.engine.shared.catalogue.ids) <= 5 + KEPT + 1
    with tempfile.TemporaryDirectory() as folder:
        now.save(Path(folder) / "snapshot")
        again = Recommender.load(Path(folder) / "snapshot")
    for one in (now, again):
        one.learn(Event("u0", "i0"))
    assert bits(now) == bits(again)


def test_an_item_that_comes_back_soon_is_still_known_to_those_who_had_it() -> None:
    now = recommender()
    now.put_items([("a", None), ("b", None), ("c", None), ("d", None)])
    now.learn(Event("u", "a"))
    now.remove_item("a")
    now.put_item("a")
    assert "a" not in [r.item for r in now.recommend("u")]
    now.remove_item("a")
    for item in ("b", "c", "d"):
        now.remove_item(item)
    now.put_items([("a", None), ("new", None)])
    assert sorted(r.item for r in now.recommend("u")) == ["a", "new"]


def test_a_damaged_table_is_refused() -> None:
    now = recommender()
    now.put_items([(f"i{n}", None) for n in range(6)])
    for n in range(5):
        now.remove_item(f"i{n}")
    document, arrays = now.state()

    def damaged(**changed: Any) -> None:
        slot_table.SlotTable().restore(
            list(now.engine.shared.catalogue.ids),
            changed.get("freed", document["catalogue"]["freed"]),
            changed.get("gone", arrays["catalogue.gone"]),
            changed.get("freed_at", arrays["catalogue.freed_at"]),
            arrays["catalogue.slot"],
        )

    damaged()
    for wrong in (
        {"freed": 0},
        {"gone": arrays["catalogue.gone"][1:]},
        {"gone": arrays["catalogue.gone"] * 0},
        {"freed_at": arrays["catalogue.freed_at"] * 0},
        {"freed_at": arrays["catalogue.freed_at"][1:]},
    ):
        with pytest.raises(ValueError, match="slots do not fit"):
            damaged(**wrong)
