"""Which items a request may not get."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from coldstream.arrays import Flags, plain
from coldstream.catalogue.catalogue import Catalogue
from coldstream.errors import InvalidInput, shown
from coldstream.features.encoder import Encoder
from coldstream.features.fields import Attribute, Number

Predicate: TypeAlias = Mapping[str, Any] | Callable[[Mapping[str, Any]], bool]
"""`{"genre": "Action"}`, `{"genre": ["Action", "War"]}` (any of), or a function of an item's attributes."""


def excluded_slots(
    catalogue: Catalogue,
    encoder: Encoder,
    allow: Iterable[str] | None,
    deny: Iterable[str] | None,
    where: Predicate | None,
) -> Flags:
    """Per slot, whether it is excluded: not allowed, denied, or refused by the predicate."""
    excluded = np.zeros(len(catalogue.ids), np.uint8)
    if allow is not None:
        excluded[:] = 1
        excluded[catalogue.slots(_ids("allow", allow))] = 0
    if deny is not None:
        excluded[catalogue.slots(_ids("deny", deny))] = 1
    if callable(where):
        for slot in catalogue.live().tolist():
            if not excluded[slot] and not where(MappingProxyType(catalogue.attributes[slot])):
                excluded[slot] = 1
    elif isinstance(where, Mapping):
        excluded |= 1 - catalogue.holding(_wanted(encoder, where))
    elif where is not None:
        raise InvalidInput(f"where must be a mapping from item field to value or a function, got {shown(where)}")
    return excluded


def _ids(what: str, ids: Iterable[str]) -> Iterable[str]:
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InvalidInput(f"{what} must be a list of item ids, got {shown(ids)}; write [{shown(ids)}]")
    ids = list(ids)
    for item in ids:
        if not isinstance(item, str):
            raise InvalidInput(f"{what} must be a list of item ids, got {shown(item)} in it")
    return ids


def _wanted(encoder: Encoder, where: Mapping[str, Any]) -> dict[int, set[int]]:
    """By field, the columns of which an item must have one."""
    attributes = {field.name: field for field in encoder.schema.item if isinstance(field, Attribute)}
    wanted: dict[int, set[int]] = {}
    for name, values in where.items():
        field, number = attributes.get(name), encoder.vocabulary.field(f"item.{name}")
        try:
            if field is None or number is None:
                known = ", ".join(attributes) or "none"
                raise InvalidInput(f"where: unknown field {name!r} = {shown(values)}; the schema declares {known}")
            labels = _labels(field, plain(values))
        except InvalidInput as error:
            error.field = f"where.{name}"
            raise
        columns = (encoder.vocabulary.find(number, label) for label in labels)
        wanted[number] = {column for column in columns if column is not None}
    return wanted


def _labels(field: Attribute, wanted: Any) -> list[str]:
    """The labels of the values that an item may have. Weights do not matter here, nor how many stand in a set."""
    if isinstance(field, Number) and not field.bins:
        message = f"where: {field.name} is a number, got {shown(wanted)}"
        raise InvalidInput(f"{message}; give a function of the item's attributes")
    values = wanted if isinstance(wanted, list) else [wanted]
    raws = [values] if field.kind == "set" else values
    return [label for raw in raws for label, _ in field.features("where", raw)]
