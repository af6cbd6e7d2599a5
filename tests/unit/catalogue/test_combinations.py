"""Combinations: a counted set in flat arrays, against a dict of lists."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coldstream.catalogue.combinations import EMPTY, CombinationTable, Entries, entries_of
from coldstream.features.sparse import Sparse

COLUMNS, MANY = 12, 40
VALUES = [1.0, 0.5, float(np.float32(0.1)), -2.0]
entries = st.dictionaries(st.integers(0, COLUMNS - 1), st.sampled_from(VALUES), min_size=1, max_size=4).map(
    lambda own: tuple(sorted(own.items()))
)


def viewed(table: CombinationTable) -> list[Entries]:
    """What a kernel reads, number by number."""
    view = table.view()
    read = []
    for number in range(view.size):
        own = slice(view.start[number], view.start[number] + view.length[number])
        assert len(view.feature[own]) == view.length[number]
        assert ((view.feature[own] >= 0) & (view.feature[own] < view.features)).all()
        read.append(tuple(zip(view.column[view.feature[own]].tolist(), view.value[own].tolist(), strict=True)))
    return read


def large(n: int) -> Entries:
    """One of many combinations of many features."""
    return tuple((column, 1.0) for column in range(COLUMNS + n, COLUMNS + n + MANY))


class Counted(RuleBasedStateMachine):
    """Whatever is taken and dropped, the table is that of the definition."""

    def __init__(self) -> None:
        super().__init__()
        self.table = CombinationTable()
        self.items: dict[int, list[Entries]] = {}  # number → what each item that has it has: the same, many times
        self.size = 1  # numbers that were ever given out, and that of nothing

    def free(self) -> list[int]:
        return [number for number in range(1, self.size) if number not in self.items]

    def taken(self, own: Entries) -> int:
        """The number that the definition gives: that of the same, the lowest that is free, or the next."""
        same = [number for number, held in self.items.items() if held[0] == own]
        number = same[0] if same else min([*self.free(), self.size])
        self.size = max(self.size, number + 1)
        self.items.setdefault(number, []).append(own)
        return number

    def dropped(self, number: int) -> None:
        self.items[number].pop()
        if not self.items[number]:
            del self.items[number]

    @rule(own=entries)
    def take(self, own: Entries) -> None:
        assert self.table.take(own) == self.taken(own)

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.items)))
        self.table.drop(number)
        self.dropped(number)

    @rule()
    def drop_nothing(self) -> None:
        """An item that had nothing goes, or gets something: nothing is held by everybody and never dropped."""
        self.table.drop(EMPTY)
        assert self.table.features(EMPTY) == ()

    @rule(count=st.integers(1, 60))
    def come_and_go(self, count: int) -> None:
        """Many large ones, so that their room is wanted back."""
        numbers = [self.table.take(large(n)) for n in range(count)]
        assert numbers == [self.taken(large(n)) for n in range(count)]
        self.the_table_is_the_definitions()
        for number in numbers:
            self.table.drop(number)
            self.dropped(number)

    @rule()
    def reload(self) -> None:
        lengths, flat = self.table.state()
        held = [number for number, own in self.items.items() for _ in own] + [EMPTY] * 3
        self.table = CombinationTable()
        self.table.restore(lengths, flat, np.array(held, np.int32))

    @rule(columns=st.sets(st.integers(0, COLUMNS + 1), max_size=4))
    def ask(self, columns: set[int]) -> None:
        found = self.table.holding(columns)
        assert found.dtype == np.int32
        held = {number: {column for column, _ in own[0]} for number, own in self.items.items()}
        assert sorted(found.tolist()) == sorted(number for number, own in held.items() if own & columns)

    @invariant()
    def the_table_is_the_definitions(self) -> None:
        expected = [self.items[number][0] if number in self.items else () for number in range(self.size)]
        assert [self.table.features(number) for number in range(self.size)] == expected
        assert viewed(self.table) == expected
        lengths, flat = self.table.state()
        assert lengths.tolist() == [len(own) for own in expected]
        assert list(zip(flat.column.tolist(), flat.value.tolist(), strict=True)) == [e for own in expected for e in own]

    @invariant()
    def every_column_is_there_once(self) -> None:
        view = self.table.view()
        places: dict[int, set[int]] = {}
        for number in range(view.size):
            for at in range(view.start[number], view.start[number] + view.length[number]):
                places.setdefault(int(view.column[view.feature[at]]), set()).add(int(view.feature[at]))
        assert all(len(own) == 1 for own in places.values())
        assert set(places) == {column for own in self.items.values() for column, _ in own[0]}

    @invariant()
    def room_is_bounded_by_what_is_held_and_wasted(self) -> None:
        """Entries of combinations in use, as many again, and a thousand: beyond that it is written anew."""
        view = self.table.view()
        ends = [view.start[n] + view.length[n] for n in range(view.size) if view.length[n]]
        held = sum(len(own[0]) for own in self.items.values())
        assert max(ends, default=0) <= 2 * held + 1024 + MANY

    @invariant()
    def no_combination_is_longer_than_the_longest(self) -> None:
        assert self.table.longest >= max((len(own[0]) for own in self.items.values()), default=0)


TestCounted = Counted.TestCase


def test_room_and_places_are_used_again() -> None:
    """Combinations that come and go take no more room than those of a few rounds, and those that stay are moved whole."""
    table, kept = CombinationTable(), [large(1000 + 50 * n) for n in range(5)]
    numbers = [table.take(own) for own in kept]
    starts, rooms = set(), []
    for round_ in range(30):
        passing = [table.take(large(10_000 + 7 * n + round_)) for n in range(40)]
        assert len(passing) == len(set(passing))
        for number in passing:
            table.drop(number)
        view = table.view()
        starts.add(tuple(view.start[numbers].tolist()))
        rooms.append((len(view.feature), len(view.value), len(view.column), view.size, view.features))
        assert [viewed(table)[number] for number in numbers] == kept
    assert len(set(rooms[5:])) == 1
    # 30 rounds of 40 combinations of 40 entries are 48 000; what is kept are 200, what one round adds are 1600.
    assert rooms[-1][0] <= 8192
    assert rooms[-1][3] == 1 + 5 + 40


def test_compaction_moves_what_stays() -> None:
    table = CombinationTable()
    first = [table.take(large(1000 + n)) for n in range(60)]
    stays = table.take(((3, 0.5), (4, 1.0)))
    before = int(table.view().start[stays])
    assert before == 60 * MANY
    for n in first:
        table.drop(n)
    assert table.view().start[stays] < before
    assert viewed(table)[stays] == table.features(stays) == ((3, 0.5), (4, 1.0))


def test_an_empty_table_has_nothing() -> None:
    table = CombinationTable()
    assert viewed(table) == [()]
    assert table.holding({0, 1}).tolist() == []
    assert table.longest == 0


def state_of(*combinations: Entries) -> tuple[np.ndarray, Sparse]:
    flat = [entry for own in combinations for entry in own]
    columns = np.array([column for column, _ in flat], np.int32)
    return (
        np.array([len(own) for own in combinations], np.int32),
        Sparse(columns, np.array([value for _, value in flat], np.float32)),
    )


ONE, TWO = ((1, 1.0),), ((1, 1.0), (2, 0.5))


@pytest.mark.parametrize(
    ("combinations", "held"),
    [
        ([(), ONE], []),  # nobody has it
        ([(), ONE, ()], [1, 2]),  # somebody has what is nothing
        ([(), ONE], [1, 2]),  # somebody has what is not there
        ([(), ONE, ONE], [1, 2]),  # twice
        ([(), TWO[::-1]], [1]),  # not in order
        ([ONE, TWO], [0, 1]),  # nothing is something
    ],
)
def test_a_state_that_does_not_fit_together_is_refused(combinations: list[Entries], held: list[int]) -> None:
    with pytest.raises(ValueError, match="combination"):
        CombinationTable().restore(*state_of(*combinations), np.array(held, np.int32))


def test_a_state_whose_lengths_do_not_add_up_is_refused() -> None:
    lengths, flat = state_of((), ONE, TWO)
    with pytest.raises(ValueError, match="add up"):
        CombinationTable().restore(lengths + np.array([0, 0, 1], np.int32), flat, np.array([1, 2], np.int32))


@given(st.dictionaries(st.integers(0, 99), st.floats(-4, 4), min_size=1), st.randoms(use_true_random=False))
def test_entries_are_in_order_and_as_float32_has_them(own: dict[int, float], random: object) -> None:
    columns = list(own)
    random.shuffle(columns)
    found = entries_of([(column, own[column]) for column in columns])
    assert found == tuple((column, float(np.float32(own[column]))) for column in sorted(own))
    assert Counter(type(part) for entry in found for part in entry) == {int: len(own), float: len(own)}


@pytest.mark.parametrize("values", [[0.5], [0.5, 1.0, 2.0]])
def test_a_state_with_more_columns_than_values_or_fewer_is_refused(values: list[float]) -> None:
    """A snapshot that nobody's `save` wrote may have them."""
    entries = Sparse(np.array([3, 4], np.int32), np.array(values, np.float32))
    with pytest.raises(ValueError, match=r"zip\(\)"):
        CombinationTable().restore(np.array([0, 2], np.int32), entries, np.array([1], np.int32))
