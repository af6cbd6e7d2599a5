"""What a user did before: the source of the history fields, always strictly before the event at hand."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from coldstream.features.fields import (
    TIME_PARTS,
    Again,
    Attribute,
    Follows,
    LastAttribute,
    LastItem,
    LastItems,
    LastTimePart,
    Together,
)
from coldstream.features.schema import Schema
from coldstream.support.arrays import plain

Features: TypeAlias = list[tuple[int, str, float]]
"""Named features: (field number, value, weight)."""

LastItemFeatures: TypeAlias = tuple[tuple[int, str, float], ...]
"""What history keeps of an item's attributes when it is chosen: the features that history fields will show after it."""


def check_last_item(features: LastItemFeatures, fields: int) -> None:
    """Refuse features that are of none of so many fields, or are not a value and a weight."""
    for field, value, weight in features:
        known = type(field) is int and 0 <= field < fields and isinstance(value, str)
        if not known or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise ValueError("a feature of somebody's last item is none")


class RecentHistory(NamedTuple):
    """As much of what a user did as the schema asks for. Never changed in place: each event makes the next one."""

    items: tuple[int, ...] = ()
    """The slots of the last items, the latest at the end."""
    time: float | None = None
    last_item: LastItemFeatures = ()
    """Features of the last item's attributes, as they were then."""


class HistoryFields:
    """The history fields of a schema, over what its users did. `number` gives each context field's number."""

    def __init__(self, schema: Schema, number: Mapping[str, int]) -> None:
        attributes = {field.name: field for field in schema.item if isinstance(field, Attribute)}
        self._last: list[int] = []
        self._several: list[tuple[int, int]] = []
        self._sources: list[tuple[int, Attribute]] = []
        self._times: list[tuple[int, str]] = []
        for field in schema.context:
            if isinstance(field, LastItem):
                self._last.append(number[field.name])
            elif isinstance(field, LastItems):
                self._several.append((number[field.name], field.length))
            elif isinstance(field, LastAttribute):
                self._sources.append((number[field.name], attributes[field.of]))
            elif isinstance(field, LastTimePart):
                self._times.append((number[field.name], field.part))
        wide = [field.length for field in schema.item if isinstance(field, Together)]
        close = [1 for field in schema.item if isinstance(field, Follows | Again)]
        self.window = max(wide + close, default=0)
        """How many of a user's last items have neighbours that count."""
        self._length = max([length for _, length in self._several] + [1] * bool(self._last) + [self.window])

    def features(self, history: RecentHistory, ids: Sequence[str]) -> Features:
        """The features of every history field, where items have these ids by slot."""
        features: Features = list(history.last_item)
        if history.items:
            features += [(field, ids[history.items[-1]], 1.0) for field in self._last]
            for field, length in self._several:
                features += _weighted(field, [ids[slot] for slot in history.items[-length:]])
        if history.time is not None:
            features += [(field, TIME_PARTS[part](history.time), 1.0) for field, part in self._times]
        return features

    def last_item_features(self, item: str, attributes: Mapping[str, Any]) -> LastItemFeatures:
        """What to keep of an item's attributes when it is chosen."""
        if not self._sources:
            return ()
        return tuple(
            (field, value, weight)
            for field, source in self._sources
            if source.name in attributes
            for value, weight in source.features(f"item {item!r}", plain(attributes[source.name]))
        )

    def after(self, history: RecentHistory, slot: int, last_item: LastItemFeatures, time: float | None) -> RecentHistory:
        """The history once an event with the item of this slot has happened."""
        items = (*history.items, slot)[-self._length :] if self._length else ()
        return RecentHistory(items, time if self._times else None, last_item)


def _weighted(field: int, items: Sequence[str]) -> Features:
    weight = 1.0 / math.sqrt(len(items))
    distinct = dict.fromkeys(items)
    if len(distinct) == len(items):
        return [(field, item, weight) for item in items]
    return [(field, item, weight * items.count(item)) for item in distinct]
