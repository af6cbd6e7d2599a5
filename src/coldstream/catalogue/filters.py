"""Which items a request may not get."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from coldstream.arrays import Flags, Integers, plain
from coldstream.catalogue.catalogue import Catalogue
from coldstream.errors import InvalidInput, shown
from coldstream.features.encoder import Encoder
from coldstream.features.fields import Number

Predicate: TypeAlias = Mapping[str, Any] | Callable[[Mapping[str, Any]], bool]
"""`{"genre": "Action"}`, `{"genre": ["Action", "War"]}` (any of), or a function of an item's attributes."""


NOTHING_BARRED: Flags = np.zeros(0, np.uint8)


def barred_slots(
    catalogue: Catalogue,
    encoder: Encoder,
    seen: Integers,
    allow: Iterable[str] | None,
    deny: Iterable[str] | None,
    where: Predicate | None,
) -> Flags:
    """Per slot, whether it is out: already had, not allowed, denied, or refused by the predicate."""
    slots = len(catalogue.ids)
    barred = np.zeros(slots, np.uint8)
    if allow is not None:
        barred[:] = 1
        barred[catalogue.slots(_ids("allow", allow))] = 0
    barred[seen] = 1
    if deny is not None:
        barred[catalogue.slots(_ids("deny", deny))] = 1
    if callable(where):
        for slot in catalogue.items.live:
            if not barred[slot] and not where(MappingProxyType(catalogue.attributes[slot])):
                barred[slot] = 1
    elif isinstance(where, Mapping):
        for name, wanted in where.items():
            try:
                barred |= 1 - _holding(catalogue, encoder, name, wanted)
            except InvalidInput as error:
                error.field = f"where.{name}"
                raise
    elif where is not None:
        raise InvalidInput(f"where must be a mapping from item field to value or a function, got {shown(where)}")
    return barred


def _ids(what: str, ids: Iterable[str]) -> Iterable[str]:
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InvalidInput(f"{what} must be a list of item ids, got {shown(ids)}; write [{shown(ids)}]")
    ids = list(ids)
    for item in ids:
        if not isinstance(item, str):
            raise InvalidInput(f"{what} must be a list of item ids, got {shown(item)} in it")
    return ids


def _holding(catalogue: Catalogue, encoder: Encoder, name: str, wanted: Any) -> Flags:
    field = next((field for field in encoder.schema.item if field.name == name), None)
    if isinstance(field, Number) and not field.bins:
        raise InvalidInput(f"where: {name} is a number, got {shown(wanted)}; give a function of the item's attributes")
    wanted = plain(wanted)
    values = wanted if isinstance(wanted, list) else [wanted]
    columns: list[int] = []
    for value in values:
        raw = [value] if field is not None and field.kind == "set" else value
        # Weights do not matter here: a set of one weighs 1 whatever the set it stands in.
        columns += encoder.encode(encoder.describe_item("of the filter", {name: raw})).column.tolist()
    return catalogue.holding(columns)
