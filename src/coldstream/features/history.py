"""What a user did before: the source of the history fields, always strictly before the event at hand."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from coldstream.features.fields import (
    TIME_PARTS,
    Attribute,
    LastAttribute,
    LastItem,
    LastItems,
    LastTimePart,
    Named,
)
from coldstream.features.schema import Schema


class Past(NamedTuple):
    """As much of a user's past as the schema asks for. Never changed in place: each event makes the next one."""

    items: tuple[str, ...] = ()
    """The last items, the latest at the end."""
    time: float | None = None
    attributes: Mapping[str, Sequence[tuple[str, float]]] = {}
    """Features of the last item, per history field that asks for them."""


class History:
    """The history fields of a schema, over the pasts of its users."""

    def __init__(self, schema: Schema) -> None:
        self._length = 0
        self._sources: dict[str, Attribute] = {}
        self._readers: list[tuple[str, Callable[[Past], Named]]] = []
        attributes = {field.name: field for field in schema.item if isinstance(field, Attribute)}
        for field in schema.context:
            if isinstance(field, LastItem):
                self._remember(1)
                self._readers.append((field.name, _last_item))
            elif isinstance(field, LastItems):
                self._remember(field.length)
                self._readers.append((field.name, _LastItemsReader(field.length)))
            elif isinstance(field, LastAttribute):
                self._sources[field.name] = attributes[field.of]
                self._readers.append((field.name, _AttributeReader(field.name)))
            elif isinstance(field, LastTimePart):
                self._readers.append((field.name, _TimeReader(field.part)))

    def features(self, past: Past) -> list[tuple[str, Named]]:
        """The features of every history field, by the field's name."""
        return [(name, read(past)) for name, read in self._readers]

    def after(self, past: Past, item: str, attributes: Mapping[str, Any], time: float | None) -> Past:
        """The past once an event with this item has happened."""
        if not self._readers:
            return past
        items = (*past.items, item)[-self._length :] if self._length else ()
        features = {
            name: tuple(source.features(f"item {item!r}", attributes[source.name]))
            for name, source in self._sources.items()
            if source.name in attributes
        }
        return Past(items, time, features)

    def _remember(self, length: int) -> None:
        self._length = max(self._length, length)


def _last_item(past: Past) -> Named:
    return [(past.items[-1], 1.0)] if past.items else []


class _LastItemsReader:
    def __init__(self, length: int) -> None:
        self._length = length

    def __call__(self, past: Past) -> Named:
        items = past.items[-self._length :]
        if not items:
            return []
        weight = 1.0 / math.sqrt(len(items))
        distinct = dict.fromkeys(items)
        if len(distinct) == len(items):
            return [(item, weight) for item in items]
        return [(item, weight * items.count(item)) for item in distinct]


class _AttributeReader:
    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, past: Past) -> Named:
        return list(past.attributes.get(self._name, ()))


class _TimeReader:
    def __init__(self, part: str) -> None:
        self._part = TIME_PARTS[part]

    def __call__(self, past: Past) -> Named:
        return [] if past.time is None else [(self._part(past.time), 1.0)]
