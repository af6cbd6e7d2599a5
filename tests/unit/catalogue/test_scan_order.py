"""The order of the scan: whoever comes, goes or is sorted, every row is that of its item."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coldstream import Category, Id, Recommender, Schema
from coldstream.catalogue import scan_order
from coldstream.catalogue.scan_order import ScanOrder
from coldstream.scoring.scan import BLOCK

SLOTS = 40


def written(slot: int, visit: int) -> float:
    """What a row of this slot holds since it came: another number at every visit."""
    return float(1000 * visit + slot)


class Ordered(RuleBasedStateMachine):
    """A dict from slot to what was written of it, beside the order."""

    def __init__(self) -> None:
        super().__init__()
        self.order = ScanOrder(2, 1, 1)
        self.live: dict[int, tuple[int, float]] = {}  # slot → id column, what was written
        self.visits = 0

    @rule(slot=st.integers(0, SLOTS - 1), id_column=st.integers(0, 999))
    def come(self, slot: int, id_column: int) -> None:
        if slot in self.live:
            return
        self.visits += 1
        last = int(self.order.rows.id_column[self.order.count - 1]) if self.order.count else -1
        disorder = self.order.out_of_order + (last > id_column)
        position, own = self.order.append(slot, id_column), written(slot, self.visits)
        assert position == len(self.live)
        rows = self.order.rows
        rows.combination[:, position], rows.number[:, position], rows.level[:, position] = own, own, own
        rows.counted_at[position], rows.unchosen[position] = own, own
        self.live[slot] = (id_column, own)
        assert self.order.out_of_order == disorder

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(sorted(self.live)))
        was_last = self.order.position[slot] == self.order.count - 1
        disorder = self.order.out_of_order + (not was_last)
        self.order.remove(slot)
        del self.live[slot]
        assert self.order.out_of_order == disorder

    @rule()
    def settle(self) -> None:
        disorder = self.order.out_of_order
        sorts = disorder > scan_order._SOME + len(self.live) // 8
        assert self.order.settle() is sorts
        if sorts:
            columns = self.order.rows.id_column[: self.order.count]
            assert (np.diff(columns) >= 0).all()
        assert self.order.out_of_order == (0 if sorts else disorder)

    @rule()
    def add_fields(self) -> None:
        rows = self.order.rows
        if len(rows.combination) < 4:
            self.order.add_fields(len(rows.combination) + 1, len(rows.number) + 1)
            assert not self.order.rows.combination[-1].any()
            assert not self.order.rows.number[-1].any()
            self.order.rows.combination[-1, : self.order.count] = self.order.rows.combination[0, : self.order.count]
            self.order.rows.number[-1, : self.order.count] = self.order.rows.number[0, : self.order.count]

    @invariant()
    def every_row_is_that_of_its_item(self) -> None:
        order, rows = self.order, self.order.rows
        assert sorted(order.slots().tolist()) == sorted(self.live)
        for slot in range(len(order.position)):
            position = int(order.position[slot])
            assert (position >= 0) == (slot in self.live), slot
            if position < 0:
                continue
            id_column, own = self.live[slot]
            assert (rows.slot[position], rows.id_column[position]) == (slot, id_column)
            several = (*rows.combination[:, position], *rows.number[:, position], *rows.level[:, position])
            assert {float(value) for value in several} == {own}
            assert (rows.counted_at[position], rows.unchosen[position]) == (own, own)


class TestOrdered(Ordered.TestCase):
    settings = settings(max_examples=60, stateful_step_count=40)

    @pytest.fixture(autouse=True)
    def _sorted_soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scan_order, "_SOME", 2)


def test_who_is_removed_after_a_sort_is_recommended_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_order, "_SOME", 3)
    recommender = Recommender(Schema(item=[Id()]), seed=1, factors=4)
    items = [f"i{n}" for n in range(40)]
    recommender.put_items([(item, {}) for item in items])
    left, sorts, changes = list(items), 0, recommender.engine.shared.catalogue._order
    for item in items[:36:2] + items[1:30:2]:
        before = changes.out_of_order
        recommender.remove_item(item)
        sorts += changes.out_of_order < before
        left.remove(item)
        assert sorted(r.item for r in recommender.recommend("u", 99)) == sorted(left)
        assert {own: recommender.predict("u", own) for own in left} == dict(recommender.recommend("u", 99))
    assert sorts > 1


def test_items_that_tie_come_in_the_order_of_registration_wherever_they_stand() -> None:
    """Removing moves the last into the hole: late items then stand in the first block, and early ones in the last."""
    recommender = Recommender(Schema(item=[Category("brand")]), seed=1, trends=(), neighbours=0)
    names = [f"i{n}" for n in range(2 * BLOCK + 100)]
    recommender.put_items([(item, {"brand": "one"}) for item in names])
    for item in names[:BLOCK]:
        recommender.remove_item(item)
    left = names[BLOCK:]
    position = recommender.engine.shared.catalogue._order.position
    slots = [recommender.engine.place(item).number for item in left]
    assert position[slots[0]] > position[slots[-1]]
    for n in (1, 2, 5, 50, BLOCK, len(left)):
        assert [r.item for r in recommender.recommend("u", n)] == left[:n]
        closest = [recommender.rank("u", item) for item in (left[0], left[-1])]
        assert closest == [((len(left) - 1) / 2, len(left))] * 2
