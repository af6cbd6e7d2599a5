"""Inference of a schema from the values of a stream."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from coldstream.evaluation.prequential import untested
from coldstream.events.event import Event
from coldstream.events.stream import Stream
from coldstream.features.feedback import Feedback
from coldstream.features.fields import Attribute, Categories, Category, Field, Id, Number, TimePart
from coldstream.features.schema import Schema
from coldstream.support.arrays import plain

FEW = 20
"""Largest number of distinct values at which whole numbers are taken as categories.

With more distinct values, they are still taken as categories if each value occurs at least this often on average.
"""
MANY = 50
"""Largest number of distinct texts that always make a category.

With more, a column whose distinct texts outnumber half of its rows is left out, because it holds descriptions.
"""
OUTCOMES = frozenset(
    (
        "rating",
        "ratings",
        "stars",
        "score",
        "review",
        "feedback",
        "label",
        "target",
        "clicked",
        "purchased",
        "duration",
        "dwell",
    )
)
"""Names of columns that are known only after a choice, and would leak the chosen item as context."""
DAY = 86400
"""Length of a day in seconds."""


class Inferred(NamedTuple):
    """An inferred schema, and one note for each column or time part that was left out of it."""

    schema: Schema
    notes: list[str]


def inferred_schema(stream: Stream) -> Inferred:
    """Infer a schema of ids, attributes, context fields and parts of the time from the values of a stream.

    Only events before the test are read, except that the types of context values are those of all events. The attributes
    of all users and items are read.
    """
    past, notes = untested(stream).events, list[str]()
    users, items = _columns(stream.users.values()), _columns(stream.items.values())
    contexts, known = (_columns(event.context for event in events) for events in (stream.events, past))
    user, item = _fields("user", users, users, notes), _fields("item", items, items, notes)
    for name in OUTCOMES & contexts.keys():
        notes.append(f"context field {name!r} was left out: it looks like an outcome; if it is not, declare it in a schema")
    before = {name: values for name, values in contexts.items() if name not in OUTCOMES}
    context = _fields("context", before, known, notes)
    schema = Schema(
        user=(Id(_free("id", user)), *user),
        item=(Id(_free("id", item)), *item),
        context=(*context, *(TimePart(_free(part, context), part=part) for part in _time_parts(past, notes))),
        exclude_seen=not stream.repeats,
        feedback=[Feedback(kind) for kind in sorted({event.kind for event in stream.events if event.kind is not None})],
    )
    return Inferred(schema, notes)


def only_declared(stream: Stream, schema: Schema) -> Stream:
    """Return the stream without the attributes and context fields that the schema does not declare."""
    user, item, context = (
        {field.name for field in side if isinstance(field, Attribute)} for side in (schema.user, schema.item, schema.context)
    )
    return replace(
        stream,
        events=[
            event if event.context.keys() <= context else replace(event, context=_kept(event.context, context))
            for event in stream.events
        ],
        users={name: _kept(attributes, user) for name, attributes in stream.users.items()},
        items={name: _kept(attributes, item) for name, attributes in stream.items.items()},
    )


def list_columns(schema: Schema) -> set[str]:
    """Return the names of the fields whose values are lists; `read_stream` splits the text of these columns."""
    return {field.name for field in (*schema.user, *schema.item, *schema.context) if isinstance(field, Categories)}


def _kept(record: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: raw for name, raw in record.items() if name in names}


def _columns(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for record in records:
        for name, raw in record.items():
            columns.setdefault(name, []).append(plain(raw))
    return columns


def _fields(side: str, columns: Mapping[str, list[Any]], known: Mapping[str, list[Any]], notes: list[str]) -> list[Field]:
    """Infer the fields of one side: types from all values, everything else from the `known` values before the test."""
    fields: list[Field] = []
    for name, values in columns.items():
        field = _field(name, set(map(type, values)), known.get(name, []))
        if isinstance(field, str):
            notes.append(f"{side} field {name!r} was left out: {field}")
        else:
            fields.append(field)
    return fields


def _field(name: str, types: set[type], known: Sequence[Any]) -> Field | str:
    """Infer a field from the types of its values and from its `known` values, or return the reason to leave it out."""
    if types == {list}:
        return Categories(name, normalize=True)
    if types <= {int, float}:
        if not known:
            return "it is a number, and no event of the first 30 % shows its scale"
        coded = types == {int} and len(set(known)) <= max(FEW, len(known) / FEW)
        coded = coded and all(abs(value) < 2**63 for value in known)
        return Category(name) if coded else Number(name, bins=_deciles(known))
    if types <= {str, bool, int}:
        distinct = len(set(known))
        if str in types and distinct > MANY and distinct > len(known) / 2:
            return f"{distinct:,} different texts in {len(known):,} rows say nothing of what rows have in common"
        return Category(name)
    return "its values are of different kinds: " + ", ".join(sorted(kind.__name__ for kind in types))


def _deciles(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(np.unique(np.quantile(np.array(values, np.float64), np.arange(1, 10) / 10)).tolist())


def _time_parts(past: Sequence[Event], notes: list[str]) -> list[str]:
    """Return the parts of the time that vary: none without times, and no hour if all times are whole days."""
    times = [event.time for event in past if event.time is not None]
    if not times:
        return []
    if all(time % DAY == 0 for time in times):
        notes.append("the hour was left out: the times are whole days")
        return ["weekday"]
    return ["weekday", "hour"]


def _free(name: str, fields: Iterable[Field]) -> str:
    """Return `name` with underscores appended until no field has it, because columns of the data keep their names."""
    taken = {field.name for field in fields}
    while name in taken:
        name += "_"
    return name
