"""The feature fields that the evaluated methods use, and the source of each field's values."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coldstream.evaluation.revealing import Revealing
from coldstream.features.fields import Attribute, Field, Id, LastTimePart, TimePart
from coldstream.features.schema import SIDES, Schema


class FieldInUse(NamedTuple):
    """One feature field of an evaluation: its name, side (user, item or context), kind and source of values."""

    name: str
    side: str
    kind: str
    source: str
    suspicion: str = ""
    """Reason to suspect that the field leaks the chosen item; empty if there is none."""


def fields_in_use(schemas: Iterable[Schema], revealing: Sequence[Revealing] = ()) -> tuple[FieldInUse, ...]:
    """Return the fields of all schemas without duplicates, ordered by side."""
    suspicions = {one.column: one.why for one in revealing}
    found = {
        (side, field.name): FieldInUse(
            field.name,
            side,
            field.kind,
            _source(side, field),
            suspicions.get(field.name, "") if side == "context" and isinstance(field, Attribute) else "",
        )
        for schema in schemas
        for side in SIDES
        for field in getattr(schema, side)
    }
    return tuple(found[key] for key in sorted(found, key=lambda key: SIDES.index(key[0])))


def _source(side: str, field: Field) -> str:
    if isinstance(field, Attribute):
        return f"column {field.name!r} of the " + ("events" if side == "context" else f"{side}s")
    match field:
        case Id():
            return f"the {side}'s id"
        case LastTimePart():
            return f"{field.part} of the user's previous event"
        case TimePart():
            return f"{field.part} of the event's time"
        case _:
            return "what was chosen before"
