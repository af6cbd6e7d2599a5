"""The catalogue: all items by slot, with attributes, availability, trends and neighbours."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.bounds.costs import attributes_cost, text_cost, texts_cost
from coldstream.catalogue.admitted_item import AdmittedItem, Layout, kinds_of
from coldstream.catalogue.combinations import EMPTY, CombinationTable
from coldstream.catalogue.conditions import AnyOf, NumberColumns, Within, having
from coldstream.catalogue.contrast import count_choice
from coldstream.catalogue.cross_features import cross_features
from coldstream.catalogue.item_rows import (
    TRENDS_IN_COMMON,
    described_rows,
    restore_combinations,
    restore_rows,
    restore_trends,
    saved_rows,
)
from coldstream.catalogue.neighbours import restored, take_out, with_room, with_slots
from coldstream.catalogue.neighbours import state as neighbours_state
from coldstream.catalogue.scan_order import ScanOrder
from coldstream.catalogue.shapes import Items, Neighbours, ScanRows, Trends, UserHistory
from coldstream.catalogue.slot_table import Place, SlotTable
from coldstream.catalogue.trends import enter, enter_all, leave, value_at
from coldstream.catalogue.windows import WindowTable
from coldstream.events.availability import Availability
from coldstream.features.encoder import ItemAttribute
from coldstream.features.history import LastItemFeatures
from coldstream.features.sparse import Sparse
from coldstream.support.arrays import (
    Flags,
    Integers,
    Longs,
    checked_columns,
    copies,
    frozen_values,
    grown,
    saved_count,
    write_back,
)
from coldstream.support.compiled import kernel, unchecked_entry


def features_of(items: Items, slot: int, shared: list[tuple[int, float]], clock: int, history: UserHistory) -> Sparse:
    """Return the features of an item: its id, its attributes' (`shared`), its trends at a clock, and its cross features."""
    position, own = int(items.position[slot]), shared
    id_column = int(items.rows.id_column[position])
    if id_column >= 0:
        own = [(id_column, 1.0), *own]
    own = [*own, *zip(items.trends.column.tolist(), _trend_values(items, position, clock).tolist(), strict=True)]
    crossed = cross_features(items, history, np.array([slot], np.int32))[0]
    own += zip(items.neighbours.column.tolist(), crossed.tolist(), strict=True)
    shown = [(column, value) for column, value in own if column >= 0 and value != 0.0]
    columns, values = [column for column, _ in shown], [value for _, value in shown]
    return Sparse(np.array(columns, np.int32), np.array(values, np.float32))


@kernel
def _trend_values(items: Items, position: int, clock: int) -> NDArray[np.float32]:
    values = np.empty(len(items.trends.rate), np.float32)
    for h in range(len(values)):
        values[h] = value_at(items.trends, items.rows, position, h, clock)
    return values


_count_choice, _enter = unchecked_entry(count_choice), unchecked_entry(enter)


_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


class Savepoint(NamedTuple):
    """A state of the catalogue to return to, taken before a new item is put."""

    item: str
    registered_at: int | None  # arrival number in the id's slot; None if the id has no slot yet
    slots: int
    gone: Sequence[int]
    arrivals: int
    out_of_order: int
    unchosen_total: float


class Catalogue:
    """Items in slots, which users' histories refer to; `SlotTable` tells how long a slot stays with its item."""

    def __init__(self, layout: Layout, trends: Trends, neighbours: Neighbours) -> None:
        self.attributes: list[Mapping[str, Any]] = []
        self.last_item_features: list[LastItemFeatures] = []
        self.arrivals = 0
        """Number of items that ever arrived."""
        self.weight = 0
        """Bytes of all ids and attributes."""
        self.changes = 0
        """Number of times that items arrived, changed or left; while it is equal, a scan reads equal data except trends."""
        self._table = SlotTable()
        self._live: set[str] = set()  # the ids whose `_choices` are ≥ 0, as a set: Python looks them up for every event
        self._combinations = CombinationTable()
        self._order = ScanOrder(len(layout.categories), len(layout.numbers), len(trends.rate))
        self._layout = layout
        self._field_kinds = kinds_of(layout)
        self._choices, self._registered_at = np.zeros(0, np.int32), np.zeros(0, np.int64)
        self._marked = np.zeros(0, np.uint8)
        self._number_column = np.full(len(layout.numbers), -1, np.int32)
        self._trends, self._neighbours = trends, neighbours
        self._numbers = NumberColumns()
        self.masks: dict[str, tuple[Any, Flags]] = {}
        """Cache of filters: the slots that each one refuses, with the values it was computed from."""
        self.windows = WindowTable()
        """Availability windows of the items."""
        self.has_neighbours = bool((neighbours.column >= 0).any())
        """Whether any feature depends on a user and an item together."""
        self._items: Items | None = None

    def __len__(self) -> int:
        """Return the number of live items."""
        return self._order.count

    def __contains__(self, item: object) -> bool:
        return item in self._live

    @property
    def ids(self) -> Sequence[str]:
        """Ids by slot. Do not write to it."""
        return self._table.ids

    def slot(self, item: str) -> int:
        """Return the slot of an id that is live or was removed lately; raise `KeyError` for any other."""
        return self._table[item]

    def find(self, item: str) -> int | None:
        """Return the slot of an id, or None if it has none."""
        return self._table.get(item)

    def slots(self, items: Iterable[str]) -> list[int]:
        """Return the slots of those ids that have one."""
        return self._table.find(items)

    def place(self, slot: int) -> Place:
        """Return a slot with the number of the arrival that has it now."""
        return Place(slot, int(self._registered_at[slot]))

    def arrivals_by_slot(self) -> Longs:
        """Return by slot the arrival number of its item. Do not write to it."""
        return self._registered_at[: len(self.ids)]

    @property
    def freed(self) -> int:
        """Number of times that a slot was freed."""
        return self._table.freed

    def void(self, slots: Sequence[int] | Integers, as_of: int) -> NDArray[np.bool_] | None:
        """Return which of some slots were freed since `freed` was `as_of`, or None if none was."""
        return self._table.void(slots, as_of)

    def live(self) -> Integers:
        """Return the slots of all live items, in scan order. Do not write to it."""
        return self._order.slots()

    def registered(self) -> list[str]:
        """Return the ids of all live items, in order of registration."""
        live = self.live()
        return [self.ids[slot] for slot in live[np.argsort(self._registered_at[live])].tolist()]

    @property
    def items(self) -> Items:
        """The present catalogue in the form that kernels read."""
        if self._items is None:
            self._items = Items(
                self._order.count,
                self._order.rows,
                self._order.position,
                self._choices,
                self._registered_at,
                self._marked,
                self._combinations.view(),
                self._number_column,
                self._trends,
                self._neighbours,
                self.windows.windows,
            )
        return self._items

    # Changes

    def put_all(self, items: Sequence[AdmittedItem], clock: int) -> None:
        """Put items, as if one by one with `settle` after each. If all of them are new, they are written at once."""
        names = [one.item for one in items]
        if len(items) > 1 and len(set(names)) == len(names) and self._live.isdisjoint(names):
            id_columns = np.array([one.id_column for one in items], np.int32)
            if self._order.stays_settled(id_columns):
                self._add_all(items, id_columns, clock)
                return
        for one in items:
            self.put(one, clock)
            self.settle()

    def _add_all(self, items: Sequence[AdmittedItem], id_columns: Integers, clock: int) -> None:
        """Add distinct items, none of which is live, and which leave the scan in order."""
        count = len(items)
        slots = np.array([self._come(one.item) for one in items], np.int32)
        first = self._order.append_all(slots, id_columns)
        rows, last = self._order.rows, first + count
        described = described_rows(items, self._field_kinds, self._combinations, self._number_column)
        for own, values in zip((rows.combination, rows.number), described, strict=True):
            own[:, first:last] = values
        for slot, one in zip(slots.tolist(), items, strict=True):
            self.attributes[slot], self.last_item_features[slot] = one.attributes, one.last_item_features
            self._numbers.put(slot, one.attributes)
            self.weight += attributes_cost(one.attributes)
        self._choices[slots], self._registered_at[slots] = 0, np.arange(self.arrivals, self.arrivals + count)
        self._live.update(one.item for one in items)
        self.arrivals += count
        enter_all(self._trends, rows, first, last, clock)
        self.changes += 1
        self._items = None

    def put(self, one: AdmittedItem, clock: int) -> int:
        """Add an item, or replace its attributes, and return its slot."""
        item, id_column, fields, attributes, last_item_features, _ = one
        order = self._order
        if item in self._live:
            slot = self._table[item]
            position = int(order.position[slot])
            self._undescribe(position)
        else:
            slot = self._come(item)
            position = order.append(slot, id_column)
            order.rows.combination[:, position] = EMPTY
            order.rows.number[:, position] = 0.0
            self._choices[slot], self._registered_at[slot] = 0, self.arrivals
            self._live.add(item)
            self.arrivals += 1
            _enter(self._trends, order.rows, position, clock)
        self.weight += attributes_cost(attributes) - attributes_cost(self.attributes[slot])
        self.attributes[slot], self.last_item_features[slot] = attributes, last_item_features
        self._numbers.put(slot, attributes)
        self._describe(position, fields)
        self.changes += 1
        self._items = None
        return slot

    def remove(self, item: str, clock: int) -> None:
        """Remove an item with its trends and its neighbours."""
        slot = self._table[item]
        self._take_out(item, slot, clock)
        freed = self._table.go(slot, len(self))
        self._registered_at[list(freed)] = 0
        self.weight -= sum(map(text_cost, freed.values()))

    def _take_out(self, item: str, slot: int, clock: int) -> None:
        position = int(self._order.position[slot])
        self._undescribe(position)
        leave(self._trends, self._order.rows, position, clock)
        take_out(self._neighbours, slot)
        self._order.remove(slot)
        self._choices[slot] = -1
        self._live.remove(item)
        self.weight -= attributes_cost(self.attributes[slot])
        self.attributes[slot], self.last_item_features[slot] = {}, ()
        self.changes += 1
        self._items = None

    def limit(self, items: Iterable[tuple[int, Availability]]) -> None:
        """Set when items, given by slot, may be recommended."""
        for slot, availability in items:
            self.windows.put(slot, availability)
        self._items = None

    def savepoint(self, item: str) -> Savepoint | None:
        """Return what `undo` needs to undo the put of an item, or None if the item is live and nothing will be put."""
        if item in self:
            return None
        known = item in self._table
        registered_at, gone = (self.place(self._table[item]).arrival, self._table.gone()) if known else (None, ())
        total = float(self._trends.unchosen_total[0])
        return Savepoint(item, registered_at, len(self.ids), gone, self.arrivals, self._order.out_of_order, total)

    def undo(self, savepoint: Savepoint, clock: int) -> None:
        """Undo the put of a new item. It must be the catalogue's last change."""
        item, slot = savepoint.item, self._table[savepoint.item]
        self._take_out(item, slot, clock)
        self._trends.unchosen_total[0] = savepoint.unchosen_total
        self.arrivals, self._order.out_of_order = savepoint.arrivals, savepoint.out_of_order
        self._registered_at[slot] = savepoint.registered_at or 0
        if savepoint.registered_at is None:
            self.weight -= text_cost(item)
        self._table.undo(slot, savepoint.slots, savepoint.gone)
        del self.attributes[savepoint.slots :], self.last_item_features[savepoint.slots :]

    def checkpoint(self) -> Callable[[], None]:
        """Copy the state, and return a function that undoes all later counts and puts of items without attributes."""
        slots, live, arrivals, disorder = len(self.ids), len(self), self.arrivals, self._order.out_of_order
        weight, table = self.weight, self._table.copy()
        rows: list[NDArray[Any]] = [own[..., :live].copy() for own in self._order.rows]
        position = self._order.position.copy()
        counts, live_ids = copies(self, ("_choices", "_registered_at"), slots), set(self._live)
        trends = copies(self._trends, TRENDS_IN_COMMON)
        arrays = [name for name, own in self._neighbours._asdict().items() if isinstance(own, np.ndarray)]
        copied: dict[str, Any] = copies(self._neighbours, arrays)
        neighbours = self._neighbours._replace(**copied)

        def undo() -> None:
            self._table = table
            del self.attributes[slots:], self.last_item_features[slots:]
            for name, saved in zip(ScanRows._fields, rows, strict=True):
                getattr(self._order.rows, name)[..., :live] = saved
            self._order.position[:] = -1
            self._order.position[: len(position)] = position
            self._order.count, self._order.out_of_order, self.arrivals = live, disorder, arrivals
            write_back(self, counts)
            self.weight = weight
            self._choices[slots:] = -1
            self._live = live_ids
            write_back(self._trends, trends)
            self._neighbours = with_slots(neighbours, len(self._choices))
            self.changes += 1
            self._items = None

        return undo

    def settle(self) -> None:
        """Restore the scan order if it became too disorderly. To be called after committed additions and removals."""
        if self._order.settle():
            self.changes += 1
            self._items = None

    def take_layout(self, layout: Layout) -> None:
        """Switch to a layout with more attribute fields, of which no item has a value yet."""
        self._order.add_fields(len(layout.categories), len(layout.numbers))
        added = len(layout.numbers) - len(self._number_column)
        self._number_column = np.concatenate([self._number_column, np.full(added, -1, np.int32)])
        self._layout, self._field_kinds = layout, kinds_of(layout)
        self.changes += 1
        self._items = None

    def describe_again(self, features: Callable[[str, Mapping[str, Any]], LastItemFeatures]) -> None:
        """Recompute the features that histories keep of a last item, for every live item."""
        for slot in self.live().tolist():
            self.last_item_features[slot] = features(self.ids[slot], self.attributes[slot])

    def count(self, slot: int, recent: Integers, counted: bool, clock: int) -> None:
        """Count the choice of an item after the `recent` ones; if not `counted`, only decay the trends by one event."""
        self.make_room(len(recent))
        _count_choice(self.items, slot, recent, counted, clock)

    def make_room(self, recent: int) -> None:
        """Reserve room to count choices after `recent` other items in all."""
        if self.has_neighbours:
            roomier = with_room(self._neighbours, recent)
            if roomier is not self._neighbours:
                self._neighbours, self._items = roomier, None

    def adopt(self, trends: Trends, rows: ScanRows) -> None:
        """Adopt trends that were counted on copies."""
        self._trends, self._order.rows = trends, rows
        self._items = None

    def _describe(self, position: int, fields: Sequence[ItemAttribute]) -> None:
        """Write a live item's attributes to the rows that a scan reads."""
        rows, table = self._order.rows, self._combinations
        for own in fields:
            assert own.entries is not None, "its features were admitted"
            is_number, place = self._field_kinds[own.field]
            if is_number:
                self._number_column[place], rows.number[place, position] = own.entries[0]
            else:
                own.combination = table.take_again(own.combination, own.entries)
                rows.combination[place, position] = own.combination

    def _undescribe(self, position: int) -> None:
        """Erase a live item's attributes from the rows that a scan reads."""
        rows = self._order.rows
        for number in rows.combination[:, position].tolist():
            self._combinations.drop(number)
        rows.combination[:, position], rows.number[:, position] = EMPTY, 0.0

    # Queries

    def features(self, slot: int, clock: int, history: UserHistory) -> Sparse:
        """Return all features of an item: its id, its attributes, its trends at this clock, and its cross features."""
        position = int(self._order.position[slot])
        return features_of(self.items, slot, self.shared_features(position), clock, history)

    def shared_features(self, position: int) -> list[tuple[int, float]]:
        """Return (column, value) of each feature of an item's attributes."""
        rows = self._order.rows
        own = [e for number in rows.combination[:, position].tolist() for e in self._combinations.features(number)]
        numbers = zip(self._number_column.tolist(), rows.number[:, position].tolist(), strict=True)
        return own + [(column, value) for column, value in numbers if value]

    def most_features(self) -> int:
        """Return the most features that any item can have."""
        counted = len(self._trends.rate) + len(self._neighbours.column)
        return 1 + len(self._layout.categories) * self._combinations.longest + len(self._layout.numbers) + counted

    def unheld(self) -> list[int]:
        """Return the columns of values that items had and none has any more, in ascending order."""
        return sorted(self._combinations.unheld)

    def checkpoint_unheld(self) -> Callable[[], None]:
        """Copy the columns that no item has any more, and return a function that restores them."""
        table, saved = self._combinations, dict(self._combinations.unheld)

        def undo() -> None:
            table.unheld = saved

        return undo

    def forget_unheld(self, columns: Iterable[int]) -> None:
        """Drop columns from those that no item has any more, because their values were released."""
        for column in columns:
            del self._combinations.unheld[column]

    def refused(self, wanted: Iterable[AnyOf], ranges: Iterable[Within]) -> Flags:
        """Return by slot whether the item is not live or does not meet all of these conditions."""
        combination, live = self._order.rows.combination[:, : len(self)], self.live()
        places = {field: place for field, (is_number, place) in self._field_kinds.items() if not is_number}
        passing = having(wanted, self._combinations, combination, places)
        for name, least, most in ranges:
            numbers = self._numbers.of(name, self.attributes)[live]
            passing &= (numbers >= least) & (numbers <= most)  # a missing number is NaN, and in no range
        refused = np.ones(len(self.ids), np.uint8)
        refused[live[passing]] = 0
        return refused

    def pairs(self) -> int:
        """Return the number of neighbours of all items together."""
        return int(self._neighbours.length[: len(self.ids)].sum())

    # For snapshots

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as a JSON document and named arrays."""
        slots, live, rows = len(self.ids), len(self), self._order.rows
        document = {
            "ids": list(self.ids),
            "freed": self.freed,
            "attributes": [dict(a) for a in self.attributes],
            "notes": list(self.last_item_features),
            "arrivals": self.arrivals,
            "out_of_order": self._order.out_of_order,
        }
        return document, {
            **saved_rows(rows, live, self._combinations, self._number_column),
            **self._table.state(),
            "choices": self._choices[:slots].copy(),
            "registered_at": self._registered_at[:slots].copy(),
            **copies(self._trends, TRENDS_IN_COMMON),
            **neighbours_state(self._neighbours, slots),
        }

    def find_unheld(self, columns: Iterable[int]) -> None:
        """Recompute which of these columns of items' categories no item has."""
        self._combinations.find_unheld(columns)

    def restore(self, columns: int, has_ids: bool, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Load what `state` returned into an empty catalogue; `has_ids` tells whether items have id columns."""
        ids, order = document["ids"], self._order
        slots = len(ids)
        slot = checked_columns("slot", arrays["slot"], 0, slots)
        live = len(slot)
        self._table.restore(ids, document["freed"], arrays["gone"], arrays["freed_at"], slot)
        self._make_room_for_slots(slots)
        self.weight += texts_cost(ids)
        checked_columns("id_column", arrays["id_column"], 0 if has_ids else -1, columns if has_ids else 0)
        restore_combinations(self._combinations, self._number_column, columns, arrays)
        order.make_room(live)
        order.position = np.full(len(self._choices), -1, np.int32)
        out_of_order = saved_count("out_of_order", document["out_of_order"])
        choices, registered_at = restore_rows(order, slot, slots, out_of_order, arrays)
        self._choices[:slots], self._registered_at[:slots] = choices, registered_at
        self._live = {self.ids[number] for number in slot.tolist()}
        self.attributes = list(map(frozen_values, document["attributes"]))
        self.last_item_features = [tuple((field, v, weight) for field, v, weight in note) for note in document["notes"]]
        self.weight += sum(map(attributes_cost, self.attributes))
        self.arrivals = saved_count("arrivals", document["arrivals"])
        restore_trends(self._trends, arrays)
        self._neighbours = restored(self._neighbours, slots, slot, arrays)
        self.changes += 1
        self._items = None

    def _come(self, item: str) -> int:
        """Return a slot for an item that is not live, a new one if needed."""
        if item not in self._table:
            self.weight += text_cost(item)
        slot = self._table.come(item)
        if slot == len(self.attributes):
            self.attributes.append(_NO_ATTRIBUTES)
            self.last_item_features.append(())
            self._make_room_for_slots(slot + 1)
        return slot

    def _make_room_for_slots(self, slots: int) -> None:
        if slots > len(self._choices):
            self._choices = grown(self._choices, slots, -1)
            self._registered_at = grown(self._registered_at, slots)
            self._marked = grown(self._marked, slots)
            self._order.position = grown(self._order.position, slots, -1)
            self._neighbours = with_slots(self._neighbours, len(self._choices))
