"""Schemas: the fields of users, items and contexts."""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from coldstream.errors import InvalidSchema, shown
from coldstream.features.feedback import Feedback, checked_feedback, effect_of, feedback_of
from coldstream.features.fields import (
    BOUNDS,
    HISTORY_KINDS,
    KINDS,
    Again,
    Attribute,
    CrossFeature,
    Field,
    Follows,
    Id,
    Image,
    LastAttribute,
    LastItem,
    LastItems,
    ManyValued,
    Shown,
    Title,
    Together,
    Trend,
)

SIDES = ("user", "item", "context")


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of the three sides, `user`, `item` and `context`. Validated when built, frozen afterwards.

    >>> schema = Schema(user=[Id()], item=[Id(), Trend("hot", half_life=500)])
    >>> Schema.from_document(schema.document()) == schema
    True
    """

    user: Sequence[Field] = (Id(),)
    item: Sequence[Field] = (Id(),)
    context: Sequence[Field] = ()
    exclude_seen: bool = True
    """Whether recommendations leave out items that the user had. A call may override it."""
    open_context: bool = True
    """Whether an undeclared context field of an event is added to the schema."""
    open_items: bool = True
    """Whether an event may name an unknown item, which then enters the catalogue; else such an event is refused."""
    feedback: Sequence[Feedback] = ()
    """Kinds of events beside plain choices: a view, a purchase, a dislike."""

    def __post_init__(self) -> None:
        for side in SIDES:
            object.__setattr__(self, side, _checked_side(side, getattr(self, side)))
        for option in ("exclude_seen", "open_context", "open_items"):
            if not isinstance(getattr(self, option), bool):
                raise InvalidSchema(f"{option} must be true or false, got {shown(getattr(self, option))}")
        object.__setattr__(self, "feedback", checked_feedback(self.feedback))
        attributes = [field.name for field in self.item if isinstance(field, Attribute) and not isinstance(field, Shown)]
        for field in self.context:
            if isinstance(field, LastAttribute) and field.of not in attributes:
                known = ", ".join(attributes) or "none"
                raise InvalidSchema(f"field {field.name!r}: of must name an item attribute ({known}), got {shown(field.of)}")

    @classmethod
    def from_toml(cls, path: str | Path) -> "Schema":
        """Read a schema from the TOML file at `path`, with a table per side and an inline table per field.

        Raise `InvalidSchema` if the file cannot be read or its content is invalid.
        """
        try:
            document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, TypeError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidSchema(f"schema {str(path)!r} cannot be read: {error}") from error
        return cls.from_document(document)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Schema":
        """Build a schema from a `document` as `document()` returns it. Raise `InvalidSchema` if it is invalid."""
        if not isinstance(document, Mapping):
            raise InvalidSchema(f"schema must be a table of sides, got {shown(document)}")
        options = [field.name for field in fields(cls) if field.name not in SIDES]
        for name in document:
            if name not in (*SIDES, *options):
                raise InvalidSchema(f"schema: unknown entry {name!r}; known are {', '.join((*SIDES, *options))}")
        sides: dict[str, Any] = {side: _fields_of(side, document[side]) for side in SIDES if side in document}
        given = {name: document[name] for name in options if name in document}
        if "feedback" in given:
            given["feedback"] = feedback_of(given["feedback"])
        return cls(**sides, **given)

    def document(self) -> dict[str, Any]:
        """Return the schema as a document that TOML and JSON can hold."""
        sides = {side: {field.name: field.document() for field in getattr(self, side)} for side in SIDES}
        switches = {"exclude_seen": self.exclude_seen, "open_context": self.open_context}
        switches |= {} if self.open_items else {"open_items": False}
        kinds = {"feedback": {kind.name: kind.document() for kind in self.feedback}} if self.feedback else {}
        return sides | switches | kinds

    def toml(self) -> str:
        """Return the schema as TOML that `from_toml` reads."""
        document = self.document()
        tables = (*SIDES, "feedback")
        lines = [f"{name} = {json.dumps(value)}" for name, value in document.items() if name not in tables]
        for side in SIDES:
            lines.append(f"\n[{side}]")
            for name, options in document[side].items():
                lines.append(f"{json.dumps(name)} = {_inline(options)}")
        if self.feedback:
            lines.append("\n[feedback]")
            lines += [f"{json.dumps(name)} = {_inline(own)}" for name, own in document["feedback"].items()]
        return "\n".join(lines) + "\n"

    def completed(self, history: int, trends: Iterable[float], neighbours: int) -> "Schema":
        """Return the schema with default fields for item history, trends and neighbours added.

        Each is added only if the schema declares none of that sort.

        `history` is the number of last items, `trends` are half-lives in events, and `neighbours` is the number of last
        items whose neighbours count; 0 or no trends adds nothing.
        """
        context, item = tuple(self.context), tuple(self.item)
        taken = {field.name for field in context}
        if history and not any(isinstance(field, HISTORY_KINDS) for field in context):
            derived = (LastItem(), LastItems(length=history))
            context += tuple(field for field in derived if field.name not in taken)
        if not any(isinstance(field, Trend) for field in item):
            declared = {field.name for field in item}
            derived_trends = (Trend(f"trend_{half_life:g}", half_life) for half_life in trends)
            item += tuple(trend for trend in derived_trends if trend.name not in declared)
        if neighbours and not any(isinstance(field, CrossFeature) for field in item):
            declared = {field.name for field in item}
            crossed = (Follows(), Together(length=neighbours)) + (() if self.exclude_seen else (Again(),))
            item += tuple(field for field in crossed if field.name not in declared)
        return replace(self, context=context, item=item)

    def effect_of(self, kind: str | None) -> Feedback:
        """Return the feedback of an event of a `kind`. Raise `InvalidInput` if the schema does not declare it."""
        return effect_of(self.feedback, kind)

    def with_context(self, *added: Field) -> "Schema":
        """Return the schema with the `added` context fields after the others."""
        return replace(self, context=(*self.context, *added))


def extended(schema: Schema, declared: Schema) -> Schema:
    """Return the schema in use, extended by the fields that another schema declares and with its switches and feedback.

    Raise `InvalidSchema` if the change would contradict what was learned.
    """
    if declared.exclude_seen != schema.exclude_seen:
        message = f"exclude_seen cannot change from {shown(schema.exclude_seen)} to {shown(declared.exclude_seen)}"
        raise InvalidSchema(f"{message}, because negatives were drawn by it; start anew in an empty store")
    user, item, context = (_with_added(side, getattr(schema, side), getattr(declared, side)) for side in SIDES)
    switches: dict[str, Any] = {
        "open_context": declared.open_context,
        "open_items": declared.open_items,
        "feedback": declared.feedback,
    }
    return replace(schema, user=user, item=item, context=context, **switches)


def _inline(value: Any) -> str:
    """Format a number, or a table in one line."""
    if not isinstance(value, Mapping):
        return json.dumps(value)
    return f"{{ {', '.join(f'{option} = {json.dumps(own)}' for option, own in value.items())} }}"


def fields_by_side(document: Mapping[str, Any]) -> dict[str, list[Field]]:
    """Return the fields of a document that has a table of fields per side."""
    return {side: _fields_of(side, table) for side, table in document.items()}


def with_fields(schema: Schema, added: Mapping[str, Sequence[Field]]) -> Schema:
    """Return a schema in use with fields added per side.

    Raise `InvalidSchema` if a known field changes in more than its bounds.
    """
    for side in added:
        if side not in SIDES:
            raise InvalidSchema(f"fields: unknown side {shown(side)}; known are {', '.join(SIDES)}")
    user, item, context = (_with_added(side, getattr(schema, side), added.get(side, ())) for side in SIDES)
    return replace(schema, user=user, item=item, context=context)


def _with_added(side: str, used: Sequence[Field], declared: Sequence[Field]) -> tuple[Field, ...]:
    known = {field.name: field for field in used}
    added = [field for field in declared if field.name not in known]
    for field in declared:
        if field.name in known and _unbounded(known[field.name]) != _unbounded(field):
            before, after = known[field.name].document(), field.document()
            message = f"{side} field {field.name!r} cannot change from {before} to {after}, because it was learned so"
            raise InvalidSchema(f"{message}; give the new one another name")
    for field in added:
        if isinstance(field, Id | Trend | CrossFeature):
            message = f"{side} field {field.name!r} of kind {field.kind!r} cannot be added to what was learned without it"
            raise InvalidSchema(f"{message}; start anew in an empty store")
    given = {field.name: field for field in declared}
    return (*(given.get(field.name, field) for field in used), *added)


def _unbounded(field: Field) -> Field:
    """Return a field without its bounds, which may change while the field is in use."""
    return replace(field, most=None, admit_after=1, expire=None) if isinstance(field, ManyValued) else field


def _checked_side(side: str, declared: Any) -> tuple[Field, ...]:
    if isinstance(declared, str | Mapping) or not isinstance(declared, Iterable):
        raise InvalidSchema(f"schema: {side} must be a list of fields, got {shown(declared)}")
    checked: dict[str, Field] = {}
    for field in declared:
        if not isinstance(field, Field) or type(field) not in KINDS.values():
            raise InvalidSchema(f"schema: {side} must be a list of fields such as Category('device'), got {shown(field)}")
        if side not in field.sides:
            places = " or ".join(field.sides)
            raise InvalidSchema(f"field {field.name!r}: kind {field.kind!r} belongs to {places}, got it on the {side} side")
        if field.name in checked:
            raise InvalidSchema(f"schema: duplicate field {field.name!r} on the {side} side; rename one of the two")
        if side == "item" and isinstance(field, ManyValued):
            _check_item_bounds(field)
        checked[field.name] = field
    for single in (Id, Follows, Together, Again, Title, Image):
        if sum(isinstance(field, single) for field in checked.values()) > 1:
            raise InvalidSchema(f"schema: the {side} side has more than one field of kind {single.kind!r}; keep one")
    return tuple(checked.values())


def _check_item_bounds(field: ManyValued) -> None:
    """Raise `InvalidSchema` for bounds that an item's field cannot have: the values of an item stay as long as the item."""
    default = _unbounded(field)
    for option in BOUNDS if isinstance(field, Id) else BOUNDS[1:]:
        if (given := getattr(field, option)) != getattr(default, option):
            remedy = "bound items" if isinstance(field, Id) else "only most bounds it"
            message = f"field {field.name!r}: {option} cannot bound what items have, got {shown(given)}"
            raise InvalidSchema(f"{message}; {remedy}")


def _fields_of(side: str, table: Any) -> list[Field]:
    if not isinstance(table, Mapping):
        raise InvalidSchema(f"schema: {side} must be a table of fields, got {shown(table)}")
    return [_field_of(side, name, options) for name, options in table.items()]


def _field_of(side: str, name: str, options: Any) -> Field:
    if not isinstance(options, Mapping) or "kind" not in options:
        raise InvalidSchema(f"{side} field {name!r} must be a table with a kind, got {shown(options)}")
    kind = options["kind"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidSchema(f"{side} field {name!r}: unknown kind {shown(kind)}; known are {', '.join(KINDS)}")
    known = [option.name for option in fields(KINDS[kind]) if option.name != "name"]
    for option, value in options.items():
        if option not in ("kind", *known):
            message = f"{side} field {name!r} ({kind}): unknown option {option} = {shown(value)}"
            raise InvalidSchema(f"{message}; known are {', '.join(known)}")
    return KINDS[kind](name, **{option: value for option, value in options.items() if option != "kind"})
