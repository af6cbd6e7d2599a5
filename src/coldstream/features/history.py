"""History features: computed from what a user did strictly before the event at hand."""

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
"""Features: (field number, value, weight)."""

LastItemFeatures: TypeAlias = tuple[tuple[int, str, float], ...]
"""Features of the last item's attributes, captured when the item was chosen, for the history fields."""


def check_last_item(features: LastItemFeatures, fields: int) -> None:
    """Raise `ValueError` unless each feature has a field number below `fields`, a text value and a finite weight."""
    for field, value, weight in features:
        known = type(field) is int and 0 <= field < fields and isinstance(value, str)
        if not known or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise ValueError("a feature of somebody's last item is none")


class RecentHistory(NamedTuple):
    """The part of a user's history that the schema needs. Immutable: each event makes a new one."""

    items: tuple[int, ...] = ()
    """Slots of the last items, the latest last."""
    time: float | None = None
    last_item: LastItemFeatures = ()
    """Features of the last item's attributes, as they were when it was chosen."""


class HistoryFields:
    """The history fields of a schema. `number` maps each context field to its number."""

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
        """Number of a user's last items whose neighbours count."""
        self._length = max([length for _, length in self._several] + [1] * bool(self._last) + [self.window])

    def features(self, history: RecentHistory, ids: Sequence[str]) -> Features:
        """Return the features of every history field. `ids` has the item id of each slot."""
        features: Features = list(history.last_item)
        if history.items:
            features += [(field, ids[history.items[-1]], 1.0) for field in self._last]
            for field, length in self._several:
                features += _weighted(field, [ids[slot] for slot in history.items[-length:]])
        if history.time is not None:
            features += [(field, TIME_PARTS[part](history.time), 1.0) for field, part in self._times]
        return features

    def last_item_features(self, item: str, attributes: Mapping[str, Any]) -> LastItemFeatures:
        """Return the features to keep of an item's attributes when the item is chosen."""
        if not self._sources:
            return ()
        return tuple(
            (field, value, weight)
            for field, source in self._sources
            if source.name in attributes
            for value, weight in source.features(f"item {item!r}", plain(attributes[source.name]))
        )

    def after(self, history: RecentHistory, slot: int, last_item: LastItemFeatures, time: float | None) -> RecentHistory:
        """Return the history after an event with the item of this slot."""
        items = (*history.items, slot)[-self._length :] if self._length else ()
        return RecentHistory(items, time if self._times else None, last_item)


def _weighted(field: int, items: Sequence[str]) -> Features:
    weight = 1.0 / math.sqrt(len(items))
    distinct = dict.fromkeys(items)
    if len(distinct) == len(items):
        return [(field, item, weight) for item in items]
    return [(field, item, weight * items.count(item)) for item in distinct]
