"""Raw records → features → sparse vectors.

Two steps, because they fail and grow at different times. `describe_…` checks raw values against the schema and names their
features; it touches nothing. `admit` and `encode` turn named features into columns: the first lets the vocabulary grow, the
second never does.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from coldstream.arrays import plain
from coldstream.errors import InvalidInput, shown
from coldstream.events.event import checked_text
from coldstream.features.fields import (
    TIME_PARTS,
    Attribute,
    Categories,
    Category,
    Field,
    Id,
    LastTimePart,
    Tie,
    TimePart,
    Trend,
)
from coldstream.features.history import Features, History, Past
from coldstream.features.portrait import Portrait
from coldstream.features.schema import SIDES, Schema
from coldstream.features.sparse import Sparse, continued, sparse
from coldstream.features.vocabulary import Vocabulary


class Encoder:
    """A schema in use: it knows the fields' numbers and the vocabulary, and follows a context that stays open."""

    def __init__(self, schema: Schema, vocabulary: Vocabulary | None = None) -> None:
        self.schema = schema
        self.vocabulary = Vocabulary() if vocabulary is None else vocabulary
        for side in SIDES:
            for field in getattr(schema, side):
                self.vocabulary.admit_field(f"{side}.{field.name}")
        self.vocabulary.commit()
        self._follow(schema)

    def _follow(self, schema: Schema) -> None:
        self.schema = schema
        number = {name: n for n, name in enumerate(self.vocabulary.fields)}
        self._context_fields = {f.name: number[f"context.{f.name}"] for f in schema.context}
        self.history = History(schema, self._context_fields)
        attributes: dict[str, dict[str, tuple[int, Attribute]]] = {
            side: {f.name: (number[f"{side}.{f.name}"], f) for f in getattr(schema, side) if isinstance(f, Attribute)}
            for side in SIDES
        }
        self._user, self._item, self._context = (attributes[side] for side in SIDES)
        self._ids = {
            side: next((number[f"{side}.{f.name}"] for f in getattr(schema, side) if isinstance(f, Id)), None)
            for side in ("user", "item")
        }
        self._times = [
            (number[f"context.{f.name}"], f.part)
            for f in schema.context
            if isinstance(f, TimePart) and not isinstance(f, LastTimePart)
        ]

    # What a record says

    def describe_user(self, user: str, attributes: Mapping[str, Any]) -> Features:
        """The features of a user: the id, and the attributes given."""
        own = [] if self._ids["user"] is None else [(self._ids["user"], user, 1.0)]
        return own + _described(f"user {user!r}", self._user, attributes)

    def describe_item(self, item: str, attributes: Mapping[str, Any]) -> Features:
        """The features an item shares with others: all but its id and what is counted."""
        return _described(f"item {item!r}", self._item, attributes)

    def describe_context(self, context: Mapping[str, Any], time: float | None, past: Past) -> Features:
        """The features of a request or an event: its context, its time, and the user's past before it."""
        return self.history.features(past) + self.describe_moment(context, time)

    def describe_moment(self, context: Mapping[str, Any], time: float | None) -> Features:
        """The same without the user's past."""
        features: Features = []
        if time is not None:
            features += [(number, TIME_PARTS[part](time), 1.0) for number, part in self._times]
        if context:
            unknown = [name for name in context if name not in self._context]
            for name in unknown:
                self._check_open(name, context[name])
            known = {name: context[name] for name in context if name not in unknown} if unknown else context
            features += _described("context", self._context, known)
        return features

    # Named features and columns

    def own_feature(self, side: str, name: str) -> tuple[int, str] | None:
        """The id feature of a user or an item, where the schema has one."""
        number = self._ids[side]
        return None if number is None else (number, name)

    def derived_features(self, kind: type[Trend | Tie]) -> list[tuple[int, str]]:
        """The features of the item side's fields of a kind that events alone give values to, one per field."""
        numbers = self.vocabulary.fields
        return [(numbers.index(f"item.{f.name}"), "") for f in self.schema.item if isinstance(f, kind)]

    def admit(self, features: Features) -> Sparse:
        """The sparse vector of named features; what is new gets a column."""
        return sparse(*self._admitted(features))

    def admit_after(self, portrait: Portrait, features: Features) -> Sparse:
        """The same after what a portrait holds."""
        return continued(portrait.column, portrait.value, *self._admitted(features))

    def encode(self, features: Features) -> Sparse:
        """The sparse vector of named features; what is unknown is left out."""
        return sparse(*self._known(features))

    def encode_after(self, portrait: Portrait, features: Features) -> Sparse:
        """The same after what a portrait holds."""
        return continued(portrait.column, portrait.value, *self._known(features))

    def _admitted(self, features: Features) -> tuple[list[int], list[float]]:
        admit = self.vocabulary.admit
        return [admit(field, value) for field, value, _ in features], [weight for _, _, weight in features]

    def _known(self, features: Features) -> tuple[list[int], list[float]]:
        find = self.vocabulary.find
        columns = [find(field, value) for field, value, _ in features]
        if None in columns:
            features = [feature for feature, column in zip(features, columns, strict=True) if column is not None]
        return [column for column in columns if column is not None], [weight for _, _, weight in features]

    def undeclared(self, context: Mapping[str, Any]) -> list[Field]:
        """The fields that an event's context asks for and nobody declared; where there are any, all of it is checked."""
        new = [name for name in context if name not in self._context]
        if new:
            self.describe_context(context, None, Past())
        return [_inferred(name, plain(context[name])) for name in new]

    def admissible(self, context: Mapping[str, Any], coming: Mapping[str, Field]) -> dict[str, Field]:
        """The fields a context would add to those in use and those that are coming. All of it is checked."""
        awaited = {name: (0, field) for name, field in coming.items() if name in context and isinstance(field, Attribute)}
        _described("context", awaited, {name: context[name] for name in awaited})
        rest = {name: raw for name, raw in context.items() if name not in awaited}
        new = self.undeclared(rest)
        if not new:
            self.describe_context(rest, None, Past())
        return {field.name: field for field in new}

    def add_context(self, fields: Iterable[Field]) -> None:
        """Take up context fields in mid-stream."""
        self.take_schema(self.schema.with_context(*fields))

    def take_schema(self, schema: Schema) -> None:
        """Follow a schema that has all fields there are, and perhaps more."""
        for side in SIDES:
            for field in getattr(schema, side):
                self.vocabulary.admit_field(f"{side}.{field.name}")
        self._follow(schema)

    def _check_open(self, name: str, raw: object) -> None:
        if not self.schema.open_context or name in self._context_fields:
            raise _unknown("context", name, raw, self._context)

    def return_to(self, schema: Schema) -> list[int]:
        """Take back all that was admitted since the last commit, fields included; the columns that are free again."""
        freed = self.vocabulary.rollback()
        if schema is not self.schema:
            self._follow(schema)
        return freed


def _described(owner: str, fields: Mapping[str, tuple[int, Attribute]], raw: Mapping[str, Any]) -> Features:
    for name in raw:
        if name not in fields:
            raise _unknown(owner, name, raw[name], fields)
    features: Features = []
    for name, (number, field) in fields.items():  # the schema's order, so that equal records make equal vectors
        if name in raw:
            try:
                features += [(number, label, weight) for label, weight in field.features(owner, plain(raw[name]))]
            except InvalidInput as error:
                error.field = _path(owner, name)
                raise
    return features


def _unknown(owner: str, name: str, raw: object, fields: Iterable[str]) -> InvalidInput:
    known = ", ".join(fields) or "none"
    error = InvalidInput(f"{owner}: unknown field {name!r} = {shown(raw)}; the schema declares {known}")
    error.field = _path(owner, name)
    return error


def _path(owner: str, name: str) -> str:
    return f"context.{name}" if owner == "context" else f"attributes.{name}"


def _inferred(name: str, raw: object) -> Field:
    """The field that an undeclared context value asks for."""
    checked_text("context field name", name)
    for kind, accepted in ((Category, str | bool), (Categories, list)):
        if isinstance(raw, accepted):
            field = kind(name)
            field.features("context", raw)
            return field
    message = f"context: undeclared field {name!r} must be a string, true/false or a list of strings, got {shown(raw)}"
    error = InvalidInput(f"{message}; declare a number with its scaling, or send it as a string")
    error.field = f"context.{name}"
    raise error
