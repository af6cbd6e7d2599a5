"""What goes with people who leave: the values that nobody else had."""

from collections.abc import Iterable, Mapping
from typing import Any

from coldstream.inspection import Inspection
from coldstream.runtime.records import Interaction, UserPut, record_of
from coldstream.storage.store import Entry


def values_of_nobody(inspection: Inspection, entries: Iterable[Entry], leaving: Mapping[str, float]) -> tuple[int, ...]:
    """The columns of users' and contexts' values that no line has but those of people who leave, in ascending order.

    Each who leaves does so up to a position: whoever came back after it is somebody else. Values that were left behind by
    people who went before are found as well.
    """
    unclaimed, known = inspection.given_columns(), set[tuple[str, str, Any]]()
    for entry in entries:
        record = record_of(entry)
        match record:
            case Interaction():
                person, side, given = record.user, "context", record.context
            case UserPut():
                person, side, given = record.id, "user", record.attributes
            case _:
                continue
        if entry.position <= leaving.get(person, 0):
            continue
        # What is said again and again is looked up once; lists have no hash, and are rarely the same.
        new = {name: raw for name, raw in given.items() if type(raw) is not str or (side, name, raw) not in known}
        if new:
            unclaimed.difference_update(inspection.columns_of(side, new))
            known.update((side, name, raw) for name, raw in new.items() if type(raw) is str)
        if not unclaimed:
            break
    return tuple(sorted(unclaimed))
