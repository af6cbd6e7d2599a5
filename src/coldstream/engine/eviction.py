"""Eviction where a bound is reached: first the expired entries, then the least useful ones, a small portion at a time.

The choice depends only on the state and on the clocks before and after a record, and so on the log alone.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from coldstream.bounds.usage import is_time_to_look, least_of
from coldstream.engine.memory import excess, items_excess
from coldstream.engine.shared_model import SharedModel
from coldstream.events.clock import Clock
from coldstream.support.arrays import Doubles, Integers
from coldstream.support.compiled import inlined, kernel
from coldstream.users.states import UserStates

SAMPLE = 4096
"""Rows sampled to estimate where the least worth lies; the estimate is wrong by a few per cent."""

SPARE = 2
"""Factor of the rows sought below the sampled mark over those wanted, so that a second scan is rare."""


def least_used(worth: Doubles, group: Integers, shift: Doubles, count: int) -> Integers:
    """Return `count` rows whose `worth` less the `shift` of their group is least, in order of groups; ties by row number.

    Rows of no group (below 0), and of groups whose shift is not a number, are skipped.
    """
    most = _mark(worth, group, shift, count)
    rows = _not_above(worth, group, shift, most)
    if len(rows) < count and most < math.inf:
        rows = _not_above(worth, group, shift, math.inf)
    least = _least_of(rows, worth, group, shift, count)
    ordered: Integers = least[np.lexsort((least, group[least]))]
    return ordered


def _mark(worth: Doubles, group: Integers, shift: Doubles, count: int) -> float:
    """Return a worth that enough rows do not exceed, estimated by a sample, or infinity if the sample is too small."""
    rows = min(len(worth), len(group))
    step = rows // SAMPLE
    if step < 2:
        return math.inf
    own = group[:rows:step]
    seen = worth[:rows:step][own >= 0] - shift[own[own >= 0]]
    seen = seen[~np.isnan(seen)]
    at = SPARE * count // step + 8
    return float(np.partition(seen, at)[at]) if at < len(seen) else math.inf


@kernel
def _not_above(worth: Doubles, group: Integers, shift: Doubles, most: float) -> Integers:
    """Return the rows whose worth does not exceed a mark, in ascending order."""
    rows, size = min(len(worth), len(group)), 0
    found = np.empty(rows, np.int32)
    for row in range(rows):
        if group[row] >= 0 and worth[row] - shift[group[row]] <= most:  # a worth that is not a number exceeds every mark
            found[size] = row
            size += 1
    return found[:size].copy()


@kernel
def _least_of(rows: Integers, worth: Doubles, group: Integers, shift: Doubles, count: int) -> Integers:
    # A heap of the least rows so far, the greatest of them on top: most rows are compared with that one alone.
    held, size = np.empty(min(count, len(rows)), np.int32), 0
    for row in rows:
        if size < len(held):
            at = size
            size += 1
            while at > 0 and _comes_before(worth, group, shift, held[(at - 1) // 2], row):
                held[at] = held[(at - 1) // 2]
                at = (at - 1) // 2
            held[at] = row
        elif size > 0 and _comes_before(worth, group, shift, row, held[0]):
            at, child = 0, 1
            while child < size:
                if child + 1 < size and _comes_before(worth, group, shift, held[child], held[child + 1]):
                    child += 1
                if not _comes_before(worth, group, shift, row, held[child]):
                    break
                held[at] = held[child]
                at, child = child, 2 * child + 1
            held[at] = row
    return held


@inlined
def _comes_before(worth: Doubles, group: Integers, shift: Doubles, one: int, other: int) -> bool:
    """Return whether one row is evicted before another."""
    own, their = worth[one] - shift[group[one]], worth[other] - shift[group[other]]
    if own != their:
        return bool(own < their)
    if group[one] != group[other]:
        return bool(group[one] < group[other])
    return one < other


PORTION = 256
"""Fraction evicted beyond what a bound demands, as 1/PORTION of the bound, so that one scan serves many newcomers."""

BUDGET_PORTION = 1024
"""Fraction of the entries evicted per pass under a memory budget, as 1/BUDGET_PORTION: requests wait for the pass.

Where a pass is too little for one record, the fraction doubles with each further pass, up to 1/PORTION.
"""

COUNTED = 1024
"""Events between recounts of the items' neighbours, each of which scans all items."""


class Departed(NamedTuple):
    """The users, items and values that were evicted or expired."""

    users: list[str]
    items: list[str]
    values: list[tuple[str, str]]
    """Pairs of field and value, without those released together with their items and users."""

    @classmethod
    def nobody(cls) -> "Departed":
        """Return a record of an eviction that removed nothing."""
        return cls([], [], [])


def is_due(shared: SharedModel, users: UserStates, before: Clock, after: Clock) -> bool:
    """Return whether anything may have to be evicted after records between two clocks."""
    if shared.waits_for_merge:
        return False
    bounds, limits = shared.bounds, shared.admissions.limits
    if shared.admissions.over or (bounds.users is not None and len(users) > bounds.users):
        return True
    if bounds.items is not None and len(shared.catalogue) > bounds.items:
        return True
    if bounds.memory is not None:
        counted = before.events // COUNTED != after.events // COUNTED
        if counted or excess(shared, users) > 0 or items_excess(shared) > 0:
            return True
    ages = [limits[field].expire for field in shared.admissions.tracked]
    return any(age is not None and is_time_to_look(age, before, after) for age in (bounds.expire_users, *ages))


def evict(shared: SharedModel, users: UserStates, before: Clock, after: Clock) -> Departed:
    """Evict what is due after records between two clocks, and return what was removed."""
    gone = Departed.nobody()
    _expire_values(shared, gone, before, after)
    _expire_users(shared, users, gone, before, after)
    _make_room_for_values(shared, gone)
    _make_room_for_users(shared, users, gone)
    if before.events // COUNTED != after.events // COUNTED:
        shared.pairs = shared.catalogue.pairs()
    _make_room_for_items(shared, gone, after)
    _make_room_in_memory(shared, users, gone, after)
    return gone


def settle(shared: SharedModel, users: UserStates, before: Clock, after: Clock) -> None:
    """Evict if due, then commit the vocabulary."""
    if is_due(shared, users, before, after):
        evict(shared, users, before, after)
        shared.encoder.vocabulary.commit()


def _make_room_for_values(shared: SharedModel, departed: Departed) -> None:
    """Evict the least useful values of fields that have too many; of items' fields, only values that no item has."""
    vocabulary, usage, limits = shared.encoder.vocabulary, shared.usage, shared.admissions.limits
    for field in sorted(shared.admissions.over):
        most = limits[field].most
        if most is None:
            continue
        if limits[field].held:
            unheld = shared.unheld(field)
            gone = usage.least(unheld, most // PORTION + 1)
            shared.catalogue.forget_unheld(gone.tolist())
        else:
            listed = vocabulary.listed(field)
            excess = len(listed) - most
            gone = usage.least(listed, excess + most // PORTION) if excess > 0 else listed[:0]
        _release(shared, departed, {field: gone.tolist()}, "evicted")
    shared.admissions.over.clear()


def _expire_values(shared: SharedModel, departed: Departed, before: Clock, after: Clock) -> None:
    for field in sorted(shared.admissions.tracked):
        age = shared.admissions.limits[field].expire
        if age is not None and is_time_to_look(age, before, after):
            old = shared.usage.older(shared.encoder.vocabulary.listed(field), age, after)
            _release(shared, departed, {field: old.tolist()}, "expired")


def _expire_users(shared: SharedModel, users: UserStates, departed: Departed, before: Clock, after: Clock) -> None:
    age = shared.bounds.expire_users
    if age is not None and users.use is not None and is_time_to_look(age, before, after):
        old = users.use.names(users.use.usage.older(users.use.rows(), age, after).tolist())
        _drop_users(shared, users, departed, old, "expired")


def _make_room_for_users(shared: SharedModel, users: UserStates, departed: Departed) -> None:
    most = shared.bounds.users
    if most is None or users.use is None or len(users) <= most:
        return
    count = len(users) - most + most // PORTION
    gone = users.use.names(users.use.usage.least(users.use.rows(), count).tolist())
    _drop_users(shared, users, departed, gone, "evicted")


def _make_room_for_items(shared: SharedModel, departed: Departed, after: Clock) -> None:
    most, catalogue = shared.bounds.items, shared.catalogue
    if most is not None and len(catalogue) > most:
        _drop_items(shared, departed, len(catalogue) - most + most // PORTION, after)
    while items_excess(shared) > 0:
        if _release_unheld(shared, departed, after):
            continue
        if not len(catalogue):
            return
        _drop_items(shared, departed, len(catalogue) // BUDGET_PORTION + 1, after)
        shared.pairs = catalogue.pairs()


def _drop_items(shared: SharedModel, departed: Departed, count: int, after: Clock) -> None:
    catalogue = shared.catalogue
    for slot in shared.item_usage.least(np.sort(catalogue.live()), count).tolist():
        departed.items.append(catalogue.ids[slot])
        shared.remove_item(catalogue.ids[slot], after)
        shared.gone["items evicted"] += 1


def _make_room_in_memory(shared: SharedModel, users: UserStates, departed: Departed, after: Clock) -> None:
    """Evict the least useful users and values, compared with each other, until the budget is kept."""
    portion = BUDGET_PORTION
    while users.use is not None and excess(shared, users) > 0:
        if _release_unheld(shared, departed, after):
            continue
        values, rows = _least_useful(shared, users, after, portion)
        portion = max(PORTION, portion // 2)
        if not values and not len(rows):
            return
        _release(shared, departed, values, "evicted")
        _drop_users(shared, users, departed, users.use.names(rows.tolist()), "evicted")


def _release_unheld(shared: SharedModel, departed: Departed, after: Clock) -> bool:
    """Evict values that no item has any more, at most a fraction of all columns; return whether there were any."""
    unheld = shared.catalogue.unheld()
    if not unheld:
        return False
    fields = np.full(len(shared.encoder.vocabulary), -1, np.int32)
    fields[unheld] = shared.encoder.vocabulary.fields_of_all()[unheld]
    own = sorted(set(fields[unheld].tolist()))
    columns, _ = _least_columns(shared, own, fields, len(fields) // BUDGET_PORTION + 1, after)
    values = _by_field(columns, fields)
    shared.catalogue.forget_unheld(columns.tolist())
    _release(shared, departed, values, "evicted")
    return bool(values)


def _least_useful(
    shared: SharedModel, users: UserStates, after: Clock, portion: int
) -> tuple[dict[int, list[int]], Integers]:
    """Return the least useful 1/`portion` of values and users that may be evicted: columns by field, and rows of users."""
    vocabulary, evictable = shared.encoder.vocabulary, _evictable(shared)
    assert users.use is not None
    rows, fields = users.use.rows(), vocabulary.fields_of_all()
    count = (sum(map(vocabulary.count, evictable)) + len(rows)) // portion + 1
    columns, counts = _least_columns(shared, evictable, fields, count, after)
    chosen = least_of(np.concatenate([counts, users.use.usage.counts(rows, after, users.use.half_life)]), count)
    return _by_field(columns[chosen[: len(columns)]], fields), rows[chosen[len(columns) :]]


def _least_columns(
    shared: SharedModel, evictable: Sequence[int], fields: Integers, count: int, after: Clock
) -> tuple[Integers, Doubles]:
    """Return the `count` least useful columns of some fields, in order of fields, and the logarithms of their use counts."""
    shift = np.full(len(shared.encoder.vocabulary.fields), np.nan)
    shift[evictable] = after.events / shared.admissions.half_lives[evictable]
    columns = least_used(shared.usage.worth, fields, shift, count)
    return columns, shared.usage.worth[columns] - shift[fields[columns]]


def _by_field(columns: Integers, fields: Integers) -> dict[int, list[int]]:
    found = dict[int, list[int]]()
    for column in columns.tolist():
        found.setdefault(int(fields[column]), []).append(column)
    return found


def _evictable(shared: SharedModel) -> list[int]:
    """Return the fields whose values may be evicted on their own; user ids are evicted with their users."""
    own = shared.encoder.id_field("user")
    return [
        field for field in sorted(shared.admissions.tracked) if not shared.admissions.limits[field].held and field != own
    ]


def _drop_users(shared: SharedModel, users: UserStates, departed: Departed, gone: Sequence[str], how: str) -> None:
    departed.users.extend(gone)
    field, vocabulary = shared.encoder.id_field("user"), shared.encoder.vocabulary
    for user in gone:
        users.forget(user)
    if gone:
        shared.gone[f"users {how}"] += len(gone)
    if field is not None:
        columns = [vocabulary.find(field, user) for user in gone]
        known = [column for column in columns if column is not None]
        if known:
            shared.release_columns({field: known})


def _release(shared: SharedModel, departed: Departed, values: Mapping[int, Sequence[int]], how: str) -> None:
    vocabulary = shared.encoder.vocabulary
    for field, columns in values.items():
        name = vocabulary.fields[field]
        departed.values.extend((name, value) for value in map(vocabulary.value, columns) if value is not None)
    released = shared.release_columns(values)
    if released:
        shared.gone[f"values {how}"] += released
