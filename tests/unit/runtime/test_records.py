"""What the log holds can be read again, word for word."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coldstream.errors import StoreDamaged
from coldstream.runtime.records import (
    BoundsChanged,
    FieldsAdded,
    Interaction,
    ItemPut,
    ItemRemoved,
    LogHeader,
    Merged,
    Record,
    RuleChanged,
    SchemaExtended,
    UserForgotten,
    UserMerged,
    UserPut,
    ValuesReleased,
    line,
    record_of,
)
from coldstream.storage.store import Entry

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
scalars = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.booleans() | st.integers(-(2**53), 2**53)
values = scalars | st.floats(allow_nan=False, allow_infinity=False) | st.lists(scalars, max_size=3)
fields = st.dictionaries(ids, values, max_size=3)
times = st.none() | st.floats(-1e15, 1e15)
records: st.SearchStrategy[Any] = st.one_of(
    st.builds(Interaction, ids, ids, times, fields, st.none() | ids, st.none() | ids),
    st.builds(ItemPut, ids, fields),
    st.builds(ItemPut, ids, fields, times, times, st.booleans()),
    st.builds(UserPut, ids, fields),
    st.builds(UserMerged, ids, ids),
    st.builds(ItemRemoved, ids),
    st.builds(UserForgotten, ids, st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple)),
    st.builds(FieldsAdded, st.just({"item": {"brand": {"kind": "category"}}})),
    st.builds(SchemaExtended, st.just({"user": {"id": {"kind": "id"}}})),
    st.builds(LogHeader, st.just({}), st.just({"factors": 4}), st.integers(0, 2**63 - 1)),
)


@given(records)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    assert record_of(Entry(7, line(record).body)) == record


@given(records)
def test_lines_of_a_person_name_the_person_and_no_others_do(record: Record) -> None:
    written = line(record)
    match record:
        case Interaction():
            assert (written.user, written.event_id, written.forgets) == (record.user, record.event_id, False)
        case UserPut():
            assert (written.user, written.event_id, written.forgets) == (record.id, None, False)
        case UserMerged():
            assert (written.user, written.event_id, written.forgets) == (record.into, None, False)
        case UserForgotten():
            assert (written.user, written.event_id, written.forgets) == (record.id, None, True)
        case _:
            assert (written.user, written.event_id, written.forgets) == (None, None, False)


@pytest.mark.parametrize(
    ("body", "record"),
    [
        (b'{"kind":"begin","schema":{},"hyperparameters":{"factors":4},"seed":7}', LogHeader({}, {"factors": 4}, 7)),
        (b'{"kind":"schema","schema":{"user":{}}}', SchemaExtended({"user": {}})),
        (b'{"kind":"user","id":"u","attributes":{"age":3}}', UserPut("u", {"age": 3})),
        (b'{"kind":"item","id":"i","attributes":{}}', ItemPut("i", {})),
        (
            b'{"kind":"item","id":"i","attributes":{},"available_from":1.5,"available_until":2.5,"hidden":true}',
            ItemPut("i", {}, 1.5, 2.5, True),
        ),
        (b'{"kind":"item-removed","id":"i"}', ItemRemoved("i")),
        (b'{"kind":"user-forgotten","id":"u"}', UserForgotten("u")),
        (
            b'{"kind":"event","user":"u","item":"i","time":1.5,"context":{"a":"b"},"event_id":"e"}',
            Interaction("u", "i", 1.5, {"a": "b"}, "e"),
        ),
        (b'{"kind":"event","user":"u","item":"i","feedback":"view"}', Interaction("u", "i", feedback="view")),
        (b'{"kind":"user-merged","id":"s","into":"u"}', UserMerged("s", "u")),
        (b'{"kind":"merged","learners":3}', Merged(3)),
        (b'{"kind":"rule","rule":2}', RuleChanged(2)),
        (b'{"kind":"bounds","bounds":{"users":5}}', BoundsChanged({"users": 5})),
        (b'{"kind":"fields","fields":{"item":{}}}', FieldsAdded({"item": {}})),
        (b'{"kind":"values-released","columns":[3,9]}', ValuesReleased((3, 9))),
        (b'{"kind":"user-forgotten","id":"u","columns":[3],"time":1.5}', UserForgotten("u", (3,), 1.5)),
    ],
)
def test_lines_are_written_as_logs_on_disk_have_them(body: bytes, record: Record) -> None:
    assert line(record).body == body
    assert record_of(Entry(1, body)) == record


@pytest.mark.parametrize(
    ("body", "left_out"),
    [
        (b'{"kind":"begin","schema":{},"hyperparameters":{},"seed":7}', {"bounds": None, "rule": 1}),
        (b'{"kind":"user-forgotten","id":"u"}', {"columns": (), "time": 0.0}),
        (b'{"kind":"item","id":"i","attributes":{}}', {"available_from": None, "available_until": None, "hidden": False}),
        (
            b'{"kind":"event","user":"u","item":"i"}',
            {"time": None, "context": {}, "event_id": None, "feedback": None, "recommendation_id": None, "passed_over": ()},
        ),
    ],
)
def test_what_a_line_leaves_out_is_what_it_always_was(body: bytes, left_out: dict[str, Any]) -> None:
    """Older releases did not write it, and a replay has to lead where it led."""
    record = record_of(Entry(1, body))
    assert {name: getattr(record, name) for name in left_out} == left_out
    assert line(record).body == body


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"kind":"new-kind"}', b'{"kind":"event","user":"u"}'])
def test_a_line_that_cannot_be_read_is_named(body: bytes) -> None:
    with pytest.raises(StoreDamaged, match="line 12 of the log"):
        record_of(Entry(12, body))
