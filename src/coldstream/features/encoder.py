"""Encoding: raw records → features → sparse vectors.

Two steps, because they fail and grow at different times. `describe_…` methods check raw values against the schema and return
named features. `admit` and `encode` turn named features into columns: `admit` lets the vocabulary grow, `encode` never does.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from coldstream.bounds.bounds import Bounds
from coldstream.errors import InvalidInput, shown
from coldstream.events.event import checked_names, checked_text
from coldstream.features.admissions import Admissions
from coldstream.features.encoded_user import EncodedUser
from coldstream.features.fields import (
    TIME_PARTS,
    Attribute,
    Categories,
    Category,
    CrossFeature,
    Field,
    Id,
    LastTimePart,
    Named,
    Number,
    Shown,
    TimePart,
    Trend,
)
from coldstream.features.history import Features, HistoryFields
from coldstream.features.schema import SIDES, Schema
from coldstream.features.sparse import Sparse, continued, sparse
from coldstream.features.vocabulary import Vocabulary
from coldstream.support.arrays import plain

UNBOUNDED = Bounds.none()


MOST_CHECKED = 100_000
"""Maximum number of distinct attribute values in the memo of `check_attributes`, which is not to check a value twice."""


class ItemAttribute:
    """Value of an item in one field, with its features. Items put together share the object if they have the same value."""

    __slots__ = ("combination", "entries", "features", "field")

    def __init__(self, field: int, features: Named) -> None:
        self.field = field
        self.features = features
        self.entries: tuple[tuple[int, float], ...] | None = None
        """Columns and values of the features; None until they are admitted."""
        self.combination = -1
        """Number of the combination of these entries when last put; -1 before. The combination may have another number by
        now."""


ItemMemo: TypeAlias = dict[int, dict[Any, ItemAttribute]]
"""Described attribute values: field number → raw value → `ItemAttribute`."""


class Encoder:
    """Encoder for a schema: field numbers, vocabulary and admissions. An open context may extend its schema."""

    def __init__(self, schema: Schema, vocabulary: Vocabulary | None = None, bounds: Bounds = UNBOUNDED) -> None:
        self.vocabulary = Vocabulary() if vocabulary is None else vocabulary
        self.admissions = Admissions(self.vocabulary, bounds)
        for side in SIDES:
            for field in getattr(schema, side):
                self.vocabulary.admit_field(f"{side}.{field.name}")
        self.vocabulary.commit()
        self._follow(schema)

    def _follow(self, schema: Schema) -> None:
        self.schema = schema
        self.admissions.follow(schema)
        number = {name: n for n, name in enumerate(self.vocabulary.fields)}
        self._context_fields = {f.name: number[f"context.{f.name}"] for f in schema.context}
        self.item_fields = tuple(number[f"item.{f.name}"] for f in schema.item)
        self.history = HistoryFields(schema, self._context_fields)
        attributes: dict[str, dict[str, tuple[int, Attribute]]] = {
            side: {f.name: (number[f"{side}.{f.name}"], f) for f in getattr(schema, side) if isinstance(f, Attribute)}
            for side in SIDES
        }
        self._attributes = attributes
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

    # From raw records to features

    def describe_user(self, user: str, attributes: Mapping[str, Any]) -> Features:
        """Return the features of a user: the id, and the attributes given."""
        own = [] if self._ids["user"] is None else [(self._ids["user"], user, 1.0)]
        return own + _described(f"user {user!r}", self._user, attributes) if attributes else own

    def check_attributes(self, side: str, attributes: Mapping[str, Any], memo: set[object]) -> None:
        """Raise `InvalidInput` for attributes that `put_user` or `put_item` would refuse.

        Values in `memo` are not checked again.
        """
        fields = self._attributes[side]
        for name, raw in attributes.items():
            key = (name, type(raw), tuple(raw) if isinstance(raw, list) else raw)
            if key in memo:
                continue
            if name not in fields:
                raise _unknown(side, name, raw, fields)
            _features(side, name, fields[name][1], raw)
            if len(memo) < MOST_CHECKED:
                memo.add(key)

    def describe_item(self, item: str, attributes: Mapping[str, Any], memo: ItemMemo) -> list[ItemAttribute]:
        """Return an item's attributes in the order of the schema's fields, without its id and derived features.

        The memo makes items with equal values share their `ItemAttribute`. It is valid while the schema is the same.
        """
        described = []
        found = 0
        for name, (number, field) in self._item.items():  # the schema's order, so that equal records make equal vectors
            if name not in attributes:
                continue
            found += 1
            raw = attributes[name]
            kind = type(raw)
            value = raw if kind is str or kind is bool else tuple(raw) if kind is list or kind is tuple else None
            try:
                attribute = None if value is None or number not in memo else memo[number].get(value)
            except TypeError:  # a list of unhashable values: `features` raises the right error
                attribute = None
            if attribute is None:
                attribute = ItemAttribute(number, _features(f"item {item!r}", name, field, raw))
                # Numbers are not kept in the memo: they have too many values, and 1 equals True.
                if kind is str or kind is bool or (value is not None and all(type(one) is str for one in value)):
                    memo.setdefault(number, {})[value] = attribute
            if attribute.features:
                described.append(attribute)
        if found < len(attributes):
            checked_names(f"item {item!r}", attributes)
            name = next(name for name in attributes if name not in self._item)
            raise _unknown(f"item {item!r}", name, attributes[name], self._item)
        return described

    def describe_context(self, context: Mapping[str, Any], time: float | None) -> Features:
        """Return the features of a request's or an event's context and time.

        In an open context, undeclared fields are checked and left out. Without one, they raise `InvalidInput`.
        """
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

    def describe_event(self, context: Mapping[str, Any], time: float | None) -> Features:
        """Return the features of an event's context and time. Add undeclared fields to the schema as far as bounds allow."""
        asked = self.undeclared(context) if context else []
        features = self.describe_context(context, time)
        if asked:  # only after all was validated; features of new fields are appended
            new = asked[: self.admissions.room_for_fields(0)]
            names = [field.name for field in new]
            self.admissions.take_fields(names, len(asked) - len(new))
            if not new:
                return features
            self.take_schema(self.schema.with_context(*new))
            fields = {name: self._context[name] for name in names}
            features += _described("context", fields, {name: context[name] for name in names})
        return features

    # From features to columns

    def id_field(self, side: str) -> int | None:
        """Return the number of a side's id field, or None if the schema has none."""
        return self._ids[side]

    def item_layout(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of the item's attribute fields: first categorical ones, then plain numbers."""
        plain_numbers = [n for n, field in self._item.values() if isinstance(field, Number) and not field.bins]
        shown = [n for n, field in self._item.values() if isinstance(field, Shown)]
        return tuple(n for n, _ in self._item.values() if n not in (*plain_numbers, *shown)), tuple(plain_numbers)

    def derived_features(self, kind: type[Trend | CrossFeature]) -> list[tuple[int, str]]:
        """Return one feature for each item field of a kind whose values follow from events."""
        numbers = self.vocabulary.fields
        return [(numbers.index(f"item.{f.name}"), "") for f in self.schema.item if isinstance(f, kind)]

    def admit(self, features: Features) -> Sparse:
        """Return the sparse vector of one record's features, admitting new features within bounds."""
        return sparse(*self.admissions.admit(features))

    def encode(self, features: Features) -> Sparse:
        """Return the sparse vector of named features, leaving out unknown ones."""
        return sparse(*self._known(features))

    def encode_after(self, user: EncodedUser, features: Features) -> Sparse:
        """Return the sparse vector of an encoded user and further features, leaving out unknown ones."""
        return continued(user.column, user.value, *self._known(features))

    def _known(self, features: Features) -> tuple[list[int], list[float]]:
        columns = self.vocabulary.find_all(features)
        if None in columns:
            features = [feature for feature, column in zip(features, columns, strict=True) if column is not None]
        return [column for column in columns if column is not None], [weight for _, _, weight in features]

    def attribute_fields(self, side: str) -> list[int]:
        """Return the numbers of a side's attribute fields."""
        return [number for number, _ in self._attributes[side].values()]

    def given_values(self, side: str, raw: Mapping[str, Any]) -> list[tuple[int, str]]:
        """Return the fields and values of attributes or of a context that were given once, with or without a column."""
        values: list[tuple[int, str]] = []
        for name, (number, field) in self._attributes[side].items():
            if name in raw:
                with suppress(InvalidInput):  # the field may have been declared since, as another kind
                    values += [(number, label) for label, _ in _features(side, name, field, raw[name])]
        return values

    def undeclared(self, context: Mapping[str, Any]) -> list[Field]:
        """Return the undeclared fields of an event's context, inferred from their values.

        Raise `InvalidInput` if one is invalid.
        """
        new = [name for name in context if name not in self._context]
        for name in new:
            self._check_open(name, context[name])
        return [_inferred(name, plain(context[name])) for name in new]

    def admissible(self, context: Mapping[str, Any], coming: Mapping[str, Field]) -> dict[str, Field]:
        """Return the fields that a context would add to the schema after the `coming` ones.

        Raise `InvalidInput` if it is invalid.
        """
        awaited = {name: (0, field) for name, field in coming.items() if name in context and isinstance(field, Attribute)}
        _described("context", awaited, {name: context[name] for name in awaited})
        rest = {name: raw for name, raw in context.items() if name not in awaited}
        new = self.undeclared(rest)
        self.describe_context(rest, None)
        return {field.name: field for field in new[: self.admissions.room_for_fields(len(coming))]}

    def take_schema(self, schema: Schema) -> None:
        """Replace the schema by one that has all its fields, and perhaps more."""
        for side in SIDES:
            for field in getattr(schema, side):
                self.vocabulary.admit_field(f"{side}.{field.name}")
        self._follow(schema)

    def _check_open(self, name: str, raw: object) -> None:
        if not self.schema.open_context or name in self._context_fields:
            raise _unknown("context", name, raw, self._context)

    def return_to(self, schema: Schema) -> list[int]:
        """Roll back all admissions since the last commit, fields included, to `schema`.

        Return the columns that are free again.
        """
        freed = self.vocabulary.rollback()
        self.admissions.rollback()
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
            features += [(number, label, weight) for label, weight in _features(owner, name, field, raw[name])]
    return features


def _features(owner: str, name: str, field: Attribute, raw: object) -> Named:
    try:
        return field.features(owner, plain(raw))
    except InvalidInput as error:
        error.field = _path(owner, name)
        raise


def _unknown(owner: str, name: str, raw: object, fields: Iterable[str]) -> InvalidInput:
    known = ", ".join(fields) or "none"
    error = InvalidInput(f"{owner}: unknown field {name!r} = {shown(raw)}; the schema declares {known}")
    error.field = _path(owner, name)
    return error


def _path(owner: str, name: str) -> str:
    return f"context.{name}" if owner == "context" else f"attributes.{name}"


def _inferred(name: str, raw: object) -> Field:
    """Return the field that an undeclared context value implies."""
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
