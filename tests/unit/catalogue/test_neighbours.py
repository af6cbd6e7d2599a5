"""Neighbours are counts of pairs, and the cross features of a user and an item follow from them."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coldstream import Again, Event, Follows, Id, InvalidInput, InvalidSnapshot, Recommender, Schema, Together
from coldstream.catalogue import neighbours
from coldstream.catalogue.combinations import CombinationTable
from coldstream.catalogue.contrast import count_choice
from coldstream.catalogue.cross_features import cross_features
from coldstream.catalogue.neighbours import (
    _are_mutual,
    count_neighbours,
    neighbours_of,
    restored,
    state,
    take_out,
    with_room,
    with_slots,
)
from coldstream.catalogue.scan_order import ScanOrder
from coldstream.catalogue.shapes import Items, Neighbours, UserHistory
from coldstream.catalogue.trends import trends_of
from coldstream.catalogue.windows import WindowTable
from coldstream.support.arrays import Integers
from coldstream.users.states import Seen

SLOTS = 40
ALL = np.array([0, 1, 2], np.int32)


def items_of(neighbours: Neighbours, choices: np.ndarray) -> Items:
    """A catalogue that has nothing but neighbours, as kernels see it."""
    order = ScanOrder(0, 0, 0)
    for slot in range(SLOTS):
        order.append(slot, -1)
    registered_at, marked = np.arange(SLOTS), np.zeros(SLOTS, np.uint8)
    combinations, no_column = CombinationTable().view(), np.zeros(0, np.int32)
    own = (order.rows, order.position, choices, registered_at, marked, combinations, no_column, trends_of([], []))
    return Items(SLOTS, *own, neighbours, WindowTable().windows)


class Rows:
    """The definition: a list per item, in which the newest entry is the last."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.rows: list[list[list[int]]] = [[] for _ in range(SLOTS)]  # [partner, together, follows]
        self.choices = [0] * SLOTS

    def entry(self, slot: int, partner: int) -> list[int] | None:
        return next((entry for entry in self.rows[slot] if entry[0] == partner), None)

    def drop(self, slot: int, partner: int) -> None:
        row = self.rows[slot]
        row[row.index(self.entry(slot, partner))] = row[-1]
        row.pop()

    def meet(self, slot: int, partner: int) -> None:
        if self.entry(slot, partner) is None:
            row = self.rows[slot]
            if len(row) == self.most:
                rare = min(row, key=lambda entry: entry[1])[0]
                self.drop(slot, rare)
                if rare != slot:
                    self.drop(rare, slot)
            row.append([partner, 0, 0])
        self.entry(slot, partner)[1] += 1

    def count(self, slot: int, past: list[int]) -> None:
        for other in past:
            if self.choices[other] >= 0:
                self.meet(slot, other)
                if other != slot:
                    self.meet(other, slot)
        if past and self.choices[past[-1]] >= 0:
            self.entry(past[-1], slot)[2] += 1
        self.choices[slot] += 1

    def take_out(self, slot: int) -> None:
        for partner, _, _ in list(self.rows[slot]):
            if partner != slot:
                self.drop(partner, slot)
        self.rows[slot] = []
        self.choices[slot] = -1

    def cross_features(self, past: list[int], slot: int) -> tuple[float, float]:
        last = self.entry(past[-1], slot) if past else None
        met = [(other, self.entry(other, slot)) for other in past]
        cosines = [e[1] / math.sqrt(max(self.choices[o], 1) * max(self.choices[slot], 1)) for o, e in met if e is not None]
        return math.log1p(last[2]) if last else 0.0, math.sqrt(sum(cosines))


class Counting(RuleBasedStateMachine):
    """Whatever is counted and taken out, the rows are those of the definition."""

    most = 3

    def __init__(self) -> None:
        super().__init__()
        self.twin, self.rows = Rows(self.most), with_slots(neighbours_of(ALL, self.most), SLOTS)
        self.choices = np.zeros(SLOTS, np.int32)

    @rule(slot=st.integers(0, SLOTS - 1), past=st.lists(st.integers(0, SLOTS - 1), max_size=5, unique=True))
    def count(self, slot: int, past: list[int]) -> None:
        if self.twin.choices[slot] >= 0:
            self.rows = with_room(self.rows, len(past))
            count_choice(items_of(self.rows, self.choices), slot, np.array(past, np.int32), True, 0)
            self.twin.count(slot, past)

    @rule(slot=st.integers(0, SLOTS - 1))
    def remove(self, slot: int) -> None:
        take_out(self.rows, slot)
        self.choices[slot] = -1
        self.twin.take_out(slot)

    @rule(slot=st.integers(0, SLOTS - 1))
    def put_again(self, slot: int) -> None:
        if self.twin.choices[slot] < 0:
            self.choices[slot] = self.twin.choices[slot] = 0

    @rule()
    def reload(self) -> None:
        saved = state(self.rows, SLOTS)
        live = np.flatnonzero(self.choices >= 0).astype(np.int32)
        self.rows = restored(with_slots(neighbours_of(ALL, self.most), SLOTS), SLOTS, live, saved)

    @invariant()
    def rows_are_the_definitions(self) -> None:
        saved = state(self.rows, SLOTS)
        assert self.choices.tolist() == self.twin.choices
        assert saved["partners"].tolist() == [len(row) for row in self.twin.rows]
        entries = zip(saved["partner"].tolist(), saved["together"].tolist(), saved["follows"].tolist(), strict=True)
        assert [list(entry) for entry in entries] == [entry for row in self.twin.rows for entry in row]


class CountingWide(Counting):
    """The same where a row grows into wider pieces."""

    most = 37


TestCounting, TestCountingWide = Counting.TestCase, CountingWide.TestCase


def test_room_is_used_again() -> None:
    """Items that come and go, each with a row that grows and is taken out, take no more room than those of one round."""
    rows, used = with_slots(neighbours_of(ALL, 37), SLOTS), []
    for _ in range(5):
        choices = np.zeros(SLOTS, np.int32)
        for slot in range(SLOTS):
            for other in range(slot):
                rows = with_room(rows, 1)
                count_neighbours(rows, choices, slot, np.array([other], np.int32))
        for slot in range(SLOTS):
            take_out(rows, slot)
        used.append(int(rows.used[0]))
    assert len(set(used)) == 1


@given(
    st.lists(st.integers(0, SLOTS - 1), max_size=400),
    st.lists(st.integers(0, SLOTS - 1), max_size=6, unique=True),
    st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(1, 5)), max_size=50),
)
def test_cross_features_follow_the_definition(chosen: list[int], past: list[int], entries: list[tuple[int, int]]) -> None:
    had, times = [slot for slot, _ in entries], [n for _, n in entries]
    twin, rows, choices = Rows(20), with_slots(neighbours_of(ALL, 20), SLOTS), np.zeros(SLOTS, np.int32)
    for n, slot in enumerate(chosen):
        before = list(dict.fromkeys(chosen[max(0, n - 4) : n]))
        rows = with_room(rows, len(before))
        count_choice(items_of(rows, choices), slot, np.array(before, np.int32), True, n)
        twin.count(slot, before)
    items = items_of(rows, choices)
    history = UserHistory(np.array(past, np.int32), np.array(had, np.int32), np.array(times, np.int32))
    found = cross_features(items, history, np.arange(SLOTS, dtype=np.int32))
    assert not items.marked.any()  # whoever marks slots next finds none marked
    again = [math.log1p(sum(n for slot_had, n in zip(had, times, strict=True) if slot_had == slot)) for slot in range(SLOTS)]
    expected = [(*twin.cross_features(past, slot), again[slot]) for slot in range(SLOTS)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    few = np.array([7, 3, 39, 3, 0], np.int32)  # in any order, twice, and whoever else is asked for
    np.testing.assert_array_equal(cross_features(items, history, few), found[few])


def listener(**options: object) -> Recommender:
    schema = Schema(item=[Id(), Follows(), Together(length=3), Again()], exclude_seen=False)
    recommender = Recommender(schema, seed=3, history=0, trends=(), factors=2, negatives=5, **options)
    for n in range(30):
        recommender.put_item(f"i{n}")
    return recommender


def value_of(recommender: Recommender, user: str, item: str, field: str) -> float:
    shared, users = recommender.engine.shared, recommender.engine.users
    x = shared.catalogue.features(shared.catalogue.slot(item), recommender.events, users.history(users[user]))
    column = shared.encoder.vocabulary.find(shared.encoder.vocabulary.fields.index(field), "")
    return float(x.value[x.column == column].sum())


def test_what_follows_is_recommended_next() -> None:
    recommender = listener()
    songs = [f"i{n}" for n in (3, 7, 11, 3, 7, 20)]
    for round_ in range(40):
        for song in songs:
            recommender.learn(Event(f"u{round_}", song))
    recommender.learn(Event("new", "i3"))
    assert recommender.recommend("new", 1)[0].item == "i7"
    assert value_of(recommender, "new", "i7", "item.follows") == pytest.approx(math.log1p(80), rel=1e-5)
    terms = {term.features: term.value for term in recommender.explain("new", "i7").terms}
    assert terms[("item.follows",)] > 0


def test_a_removed_item_leaves_no_trace_among_neighbours() -> None:
    recommender = listener()
    for user, item in [("a", "i1"), ("a", "i2"), ("b", "i1"), ("b", "i2"), ("c", "i1")]:
        recommender.learn(Event(user, item))
    assert value_of(recommender, "c", "i2", "item.follows") > 0
    recommender.remove_item("i2")
    recommender.put_item("i2")
    assert value_of(recommender, "c", "i2", "item.follows") == value_of(recommender, "c", "i2", "item.together") == 0
    recommender.remove_item("i1")  # the last item of c
    recommender.learn(Event("c", "i2"))
    recommender.put_item("i1")
    assert state(recommender.engine.shared.catalogue.items.neighbours, 30)["partners"].sum() == 0


def test_observing_remembers_and_learns_nothing() -> None:
    recommender = listener()
    for n in range(20):
        recommender.learn(Event("u", f"i{n % 5}"))
    before = recommender.engine.shared.machine.parameters.theta
    weights, factors = before.w.copy(), before.V.copy()
    follows = value_of(recommender, "u", "i1", "item.follows")
    recommender.observe(Event("u", "i0"))
    recommender.observe(Event("u", "i1"))
    recommender.observe(Event("u", "i0"))
    theta = recommender.engine.shared.machine.parameters.theta
    np.testing.assert_array_equal(theta.w[: len(weights)], weights)
    np.testing.assert_array_equal(theta.V[: len(factors)], factors)
    assert recommender.events == 23
    assert value_of(recommender, "u", "i1", "item.follows") != follows


def test_what_a_user_chose_is_counted_for_the_user() -> None:
    recommender = listener()
    for item in ["i1", "i2", "i1", "i1"]:
        recommender.learn(Event("u", item))
    recommender.learn(Event("v", "i2"))
    assert value_of(recommender, "u", "i1", "item.again") == pytest.approx(math.log(4), rel=1e-6)
    assert value_of(recommender, "u", "i2", "item.again") == pytest.approx(math.log(2), rel=1e-6)
    assert value_of(recommender, "v", "i1", "item.again") == 0
    recommender.forget_user("u")
    recommender.learn(Event("u", "i3"))
    assert value_of(recommender, "u", "i1", "item.again") == 0


def test_counts_of_a_user_survive_that_room_runs_out() -> None:
    seen, twin = Seen(), Counter()
    for n in range(300):
        seen.add(n * n % 7, None)
        twin[n * n % 7] += 1
        assert dict(zip(seen.slots().tolist(), seen.times().tolist(), strict=True)) == twin


def test_favourites_come_again() -> None:
    """Where people choose again, what a user chose often comes first, whoever else chose what."""
    recommender, rng = listener(), np.random.default_rng(5)
    for _ in range(1500):
        user = int(rng.integers(10))
        recommender.learn(
            Event(f"u{user}", f"i{3 * user + rng.integers(3)}" if rng.random() < 0.8 else f"i{rng.integers(30)}")
        )
    for user in range(10):
        assert {r.item for r in recommender.recommend(f"u{user}", 3)} == {f"i{3 * user + n}" for n in range(3)}


def test_a_refused_observation_changes_nothing(unchanged: Callable[..., str]) -> None:
    recommender = listener()
    recommender.learn(Event("u", "i1"))
    for event in (Event("new", "newer", None, {"distance": 3}), "no event"):
        unchanged(recommender, InvalidInput, lambda event=event: recommender.observe(event))


@pytest.mark.parametrize("close", [Follows(), Again()])
def test_where_only_the_last_item_matters_only_it_gets_neighbours(close: Follows | Again) -> None:
    recommender = Recommender(Schema(item=[Id(), close]), seed=1, factors=2, negatives=2)
    for item in ["i0", "i1", "i2", "i3"]:
        recommender.learn(Event("u", item))
    rows = state(recommender.engine.shared.catalogue.items.neighbours, 4)
    assert [sorted(own.tolist()) for own in np.split(rows["partner"], np.cumsum(rows["partners"])[:-1])] == [
        [1],
        [0, 2],
        [1, 3],
        [2],
    ]


def test_repeats_count_once_in_a_window() -> None:
    """A song in a loop is one neighbour, not ten."""
    recommender = listener()
    for item in ["i1", "i1", "i1", "i2"]:
        recommender.learn(Event("u", item))
    rows = state(recommender.engine.shared.catalogue.items.neighbours, 3)
    pairs = dict(
        zip(zip(np.repeat(range(3), rows["partners"]), rows["partner"], strict=True), rows["together"], strict=True)
    )
    assert pairs == {(1, 1): 1, (1, 2): 1, (2, 1): 1}, "the second choice in a row counts, and the third does not"


def test_a_snapshot_with_neighbours_that_are_not_mutual_is_refused() -> None:
    recommender = listener()
    for one, two in pairwise(["i1", "i2", "i3"]):
        recommender.learn(Event("u", one))
        recommender.learn(Event("u", two))
    document, arrays = recommender.state()
    arrays["catalogue.partner"][0] = 20
    with pytest.raises(InvalidSnapshot, match="mutual"):
        Recommender.from_state(document, arrays)


@pytest.mark.parametrize("count", [-1, 2**31 - 1])
@pytest.mark.parametrize("name", ["together", "follows"])
def test_a_count_that_cannot_be_or_could_not_grow_is_refused(name: str, count: int) -> None:
    recommender = listener()
    recommender.learn([Event("u", "i1"), Event("u", "i2")])
    document, arrays = recommender.state()
    arrays[f"catalogue.{name}"][0] = count
    with pytest.raises(InvalidSnapshot, match=f"{name} does not hold numbers"):
        Recommender.from_state(document, arrays)


def test_pieces_are_as_wide_outside_of_kernels_as_inside() -> None:
    sizes = np.arange(1, 1025)
    assert neighbours._kinds(sizes).tolist() == [neighbours._kind(size) for size in sizes.tolist()]


def test_pairs_that_only_look_mutual_are_told_apart() -> None:
    rng = np.random.default_rng(3)
    pairs = {(int(a), int(b)) for a, b in rng.integers(40, size=(300, 2))}
    mutual = sorted(pairs | {(b, a) for a, b in pairs})
    assert _are_mutual(*as_rows(mutual), np.uint64(1))
    for n, (owner, partner) in enumerate(mutual):
        if owner != partner:
            moved = [*mutual[:n], (owner, (partner + 1) % 40), *mutual[n + 1 :]]
            assert not _are_mutual(*as_rows(moved), np.uint64(n))
            assert not _are_mutual(*as_rows(mutual[:n] + mutual[n + 1 :]), np.uint64(n))
            assert not _are_mutual(*as_rows(sorted([*mutual, (owner, partner)])), np.uint64(n))


def as_rows(pairs: list[tuple[int, int]]) -> tuple[Integers, Integers]:
    length = np.bincount([owner for owner, _ in pairs], minlength=40).astype(np.int32)
    return length, np.array([partner for _, partner in pairs], np.int32)
