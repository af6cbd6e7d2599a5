"""Filters: the items that a request excludes by lists of ids and by conditions on attributes."""

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from coldstream.catalogue.catalogue import Catalogue
from coldstream.catalogue.conditions import AnyOf, Within
from coldstream.errors import InvalidInput, shown
from coldstream.features.encoder import Encoder
from coldstream.features.fields import Attribute, Number, Shown
from coldstream.support.arrays import Flags, plain

Predicate: TypeAlias = Mapping[str, Any] | Callable[[Mapping[str, Any]], bool]
"""A condition on items: a mapping by field, or a function of an item's attributes.

`{"genre": "Action"}`, `{"genre": ["Action", "War"]}` (any of), `{"price": {"max": 50}}`, `{"genre": {"all": [...]}}`,
`{"genre": {"not": [...]}}`.
"""

OPTIONS = ("any", "all", "not", "min", "max")
"""Options of a condition on one field. If there are several, all must hold."""

MOST_KEPT = 96
"""Most filters with a cached mask: shops repeat the same ones, and one request may have 64 boosts."""


def excluded_slots(
    catalogue: Catalogue,
    encoder: Encoder,
    allow: Iterable[str] | None,
    deny: Iterable[str] | None,
    where: Predicate | None,
) -> Flags:
    """Return by slot whether it is excluded: not allowed, denied, or refused by the predicate. Do not write to it."""
    if isinstance(where, Mapping):
        refused = refused_slots(catalogue, encoder, where)
        if allow is None and deny is None:
            return refused
    elif where is not None and not callable(where):
        raise InvalidInput(f"where must be a mapping from item field to value or a function, got {shown(where)}")
    excluded = np.zeros(len(catalogue.ids), np.uint8)
    if allow is not None:
        excluded[:] = 1
        excluded[catalogue.slots(checked_ids("allow", allow))] = 0
    if deny is not None:
        excluded[catalogue.slots(checked_ids("deny", deny))] = 1
    if isinstance(where, Mapping):
        excluded |= refused
    elif where is not None:
        for slot in catalogue.live().tolist():
            if not excluded[slot] and not where(MappingProxyType(catalogue.attributes[slot])):
                excluded[slot] = 1
    return excluded


def refused_slots(catalogue: Catalogue, encoder: Encoder, where: Mapping[str, Any]) -> Flags:
    """Return by slot whether an item fails conditions by field; cached until items change. Do not write to it."""
    key = repr(where)
    made_of = (catalogue.changes, encoder.vocabulary.release_count)
    kept = catalogue.masks.get(key)
    if kept is not None and kept[0] == made_of and len(kept[1]) == len(catalogue.ids):
        return kept[1]
    mask = catalogue.refused(*_conditions(encoder, where))
    catalogue.masks.pop(key, None)
    while len(catalogue.masks) >= MOST_KEPT:
        del catalogue.masks[next(iter(catalogue.masks))]
    catalogue.masks[key] = (made_of, mask)
    return mask


def checked_ids(what: str, ids: Iterable[str]) -> list[str]:
    """Return ids of items as a list, or raise `InvalidInput`."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InvalidInput(f"{what} must be a list of item ids, got {shown(ids)}; write [{shown(ids)}]")
    ids = list(ids)
    for item in ids:
        if not isinstance(item, str):
            raise InvalidInput(f"{what} must be a list of item ids, got {shown(item)} in it")
    return ids


def _conditions(encoder: Encoder, where: Mapping[str, Any]) -> tuple[list[AnyOf], list[Within]]:
    """Return the values that items must have or not, and the ranges for their numbers."""
    attributes = filterable(encoder)
    wanted, ranges = list[AnyOf](), list[Within]()
    for name, given in where.items():
        field, number = attributes.get(name), encoder.vocabulary.field(f"item.{name}")
        try:
            if field is None or number is None:
                known = ", ".join(attributes) or "none"
                raise InvalidInput(f"where: unknown field {name!r} = {shown(given)}; the schema declares {known}")
            condition = given if isinstance(given, Mapping) else {"any": given}
            ranges += _ranges(field, condition)
            for option in ("any", "all", "not"):
                if option in condition:
                    columns = _columns(encoder, field, number, plain(condition[option]))
                    each = [frozenset({own}) for own in columns] if option == "all" else [_known(columns)]
                    wanted += [AnyOf(number, _known(own), option != "not") for own in each]
        except InvalidInput as error:
            error.field = f"where.{name}"
            raise
    return wanted, ranges


def filterable(encoder: Encoder) -> dict[str, Attribute]:
    """Return the item fields that filters may use, by name: all attributes except those only shown."""
    own = (field for field in encoder.schema.item if isinstance(field, Attribute))
    return {field.name: field for field in own if not isinstance(field, Shown)}


def _ranges(field: Attribute, condition: Mapping[str, Any]) -> list[Within]:
    """Check a condition's options, and return the range it sets, if any."""
    for option, value in condition.items():
        if option not in OPTIONS:
            message = f"where: {field.name} has an unknown condition {shown(option)} = {shown(value)}"
            raise InvalidInput(f"{message}; known are {', '.join(OPTIONS)}")
    if not condition:
        raise InvalidInput(f"where: {field.name} must have a condition, got {{}}; give one of {', '.join(OPTIONS)}")
    ends = {option: plain(condition[option]) for option in ("min", "max") if option in condition}
    if not ends:
        return []
    if not isinstance(field, Number):
        message = f"where: {field.name} is no number and has no range, got {shown(ends)}"
        raise InvalidInput(f"{message}; give any, all or not")
    for option, end in ends.items():
        if isinstance(end, bool) or not isinstance(end, int | float) or not abs(end) < math.inf:
            raise InvalidInput(f"where: {option} of {field.name} must be a finite number, got {shown(end)}; leave it out")
    return [Within(field.name, float(ends.get("min", -math.inf)), float(ends.get("max", math.inf)))]


def _columns(encoder: Encoder, field: Attribute, number: int, wanted: Any) -> list[int | None]:
    """Return the columns of the values in a condition; None for a value that no item has had."""
    return [encoder.vocabulary.find(number, label) for label in _labels(field, wanted)]


def _known(columns: Iterable[int | None]) -> frozenset[int]:
    return frozenset(column for column in columns if column is not None)


def _labels(field: Attribute, wanted: Any) -> list[str]:
    """Return the labels of the values in a condition. Weights, and the number of values in a set, do not matter."""
    if isinstance(field, Number) and not field.bins:
        message = f"where: {field.name} is a number, got {shown(wanted)}"
        raise InvalidInput(f'{message}; give a range such as {{"max": 50}}, or a function of the item\'s attributes')
    values = wanted if isinstance(wanted, list) else [wanted]
    raws = [values] if field.kind == "set" else values
    return [label for raw in raws for label, _ in field.features("where", raw)]
