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
from coldstream.features.history import Features

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
        for name, wanted in where.items():
            try:
                excluded |= 1 - _holding(catalogue, encoder, name, wanted)
            except InvalidInput as error:
                error.field = f"where.{name}"
                raise
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


def _holding(catalogue: Catalogue, encoder: Encoder, name: str, wanted: Any) -> Flags:
    attributes = {field.name: field for field in encoder.schema.item if isinstance(field, Attribute)}
    field, number = attributes.get(name), encoder.vocabulary.field(f"item.{name}")
    if field is None or number is None:
        known = ", ".join(attributes) or "none"
        raise InvalidInput(f"where: unknown field {name!r} = {shown(wanted)}; the schema declares {known}")
    if isinstance(field, Number) and not field.bins:
        raise InvalidInput(f"where: {name} is a number, got {shown(wanted)}; give a function of the item's attributes")
    wanted = plain(wanted)
    values = wanted if isinstance(wanted, list) else [wanted]
    features: Features = []
    for value in values:
        raw = [value] if field.kind == "set" else value
        # Weights do not matter here: a set of one weighs 1 whatever the set it stands in.
        features += [(number, label, weight) for label, weight in field.features("where", raw)]
    return catalogue.holding(number, encoder.encode(features).column.tolist())
