"""The ids of events that a file gives none."""

from dataclasses import replace
from typing import Any

import pytest

from coldstream.events.event import Event
from coldstream.events.row_ids import row_ids

EVENT = Event("u", "i", 100.0, {"device": "phone", "size": 3, "tags": ["a", "b"]}, "view")


def ids(*events: Event, file: str = "f") -> list[str]:
    return list(row_ids(events, file))


def test_an_event_with_a_time_has_the_same_id_in_every_file() -> None:
    other = Event("v", "i", 100.0)
    assert ids(EVENT)[0] == ids(other, EVENT, file="g")[1]
    assert len(set(ids(EVENT, other, EVENT, EVENT))) == 4
    assert ids(EVENT, EVENT) == ids(other, EVENT, EVENT, file="g")[1:]


@pytest.mark.parametrize(
    "changed",
    [{"user": "v"}, {"item": "j"}, {"time": 101.0}, {"kind": None}, {"context": {"device": "phone"}}, {"context": {}}],
)
def test_whatever_an_event_says_is_in_its_id(changed: dict[str, Any]) -> None:
    assert ids(EVENT) != ids(replace(EVENT, **changed))


@pytest.mark.parametrize(("one", "other"), [(3, "3"), (3.5, "3,5"), (True, "true"), (["a", "b"], "a|b"), (7.0, 7)])
def test_a_value_is_the_same_however_its_column_was_read(one: Any, other: Any) -> None:
    assert ids(replace(EVENT, context={"x": one})) == ids(replace(EVENT, context={"x": other}))
    # Two rows that differ in no more than this are two events all the same
    assert len(set(ids(replace(EVENT, context={"x": one}), replace(EVENT, context={"x": other})))) == 2


def test_without_a_time_ids_are_those_of_the_file() -> None:
    event = replace(EVENT, time=None)
    assert ids(event, event) == ["f-0", "f-1"]
    assert ids(event, file="g") == ["g-0"]
