"""Admission control: decide which new feature values get a column, within the bounds of the schema's fields.

A value that is not admitted is ignored, as if the record did not have it, and counted by reason.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coldstream.bounds.bounds import Age, Bounds
from coldstream.features.fields import LastItem, LastItems, ManyValued
from coldstream.features.history import Features
from coldstream.features.schema import SIDES, Schema
from coldstream.features.sketch import Sketch
from coldstream.features.vocabulary import Vocabulary
from coldstream.support.arrays import Doubles

Reason: TypeAlias = Literal["full", "rare", "many", "fields"]
"""Reason why a value was not admitted. "full": its field is at its limit and items hold the values; "rare": it has not
come often enough yet; "many": its record brought too many new features; "fields": there are too many undeclared fields."""
REASONS: tuple[Reason, ...] = ("full", "rare", "many", "fields")


class Limit(NamedTuple):
    """Bounds of one field."""

    most: int | None
    admit_after: int
    expire: Age
    held: bool
    """Whether items hold the field's values. Held values are not evicted, so a full field admits nothing new."""
    items: bool
    """Whether the field's values are item ids. The id of an item that is not live is not admitted again from a user's
    history."""

    @property
    def is_bound(self) -> bool:
        """Whether values of the field may be evicted or expire."""
        return self.most is not None or self.expire is not None


class Admissions:
    """Admission control for the fields in use, and counters of refusals. `rollback` undoes all since the last `commit`."""

    def __init__(self, vocabulary: Vocabulary, bounds: Bounds) -> None:
        self.bounds = bounds
        """Bounds of the recommender. Call `follow` after changing them."""
        self.limits: dict[int, Limit] = {}
        """Bounds by field number. A field without an entry is not bounded."""
        self.tracked: frozenset[int] = frozenset()
        """Numbers of the fields whose values may be evicted or expire, and whose uses are therefore counted."""
        self.half_lives: Doubles = np.zeros(0, np.float64)
        """Half-life of a use by field number, in events; 0 for fields that are not tracked."""
        self.is_live: Callable[[str], bool] = lambda _: True
        """Return whether an item id is in the catalogue."""
        self.over: set[int] = set()
        """Numbers of the fields that may exceed their limit, or that refused a value because they are full."""
        self.refused: Counter[str] = Counter()
        """Number of values that were not admitted, by reason."""
        self.undeclared: set[str] = set()
        """Names of the context fields that events brought and the schema did not declare."""
        self._vocabulary = vocabulary
        self._sketches: dict[int, Sketch] = {}
        self._before: tuple[Counter[str], set[str]] | None = None

    def follow(self, schema: Schema) -> None:
        """Take over the field bounds of a schema, and drop the sketches of fields that no longer count occurrences."""
        self.limits = {}
        for side in SIDES:
            for field in getattr(schema, side):
                if isinstance(field, ManyValued):
                    number = self._vocabulary.field(f"{side}.{field.name}")
                    assert number is not None, "the encoder knows all fields"
                    most = field.most
                    if most is None and side == "context" and field.name in self.undeclared:
                        most = self.bounds.undeclared_values
                    items = isinstance(field, LastItem | LastItems)
                    self.limits[number] = Limit(most, field.admit_after, field.expire, side == "item", items)
        for number, limit in self.limits.items():
            if limit.admit_after > 1 and number not in self._sketches:
                self._sketches[number] = Sketch(self._vocabulary.fields[number])
            if limit.most is not None and not limit.held and self._vocabulary.count(number) > limit.most:
                self.over.add(number)
        everything = self.bounds.memory is not None
        self.tracked = frozenset(number for number, own in self.limits.items() if everything or own.is_bound)
        self.half_lives = np.zeros(len(self._vocabulary.fields), np.float64)
        for number in self.tracked:
            self.half_lives[number] = self.bounds.half_life_of(self.limits[number].most)
        counting = {number for number, limit in self.limits.items() if limit.admit_after > 1}
        self._sketches = {number: own for number, own in self._sketches.items() if number in counting}

    def admit(self, features: Features) -> tuple[list[int], list[float]]:
        """Return the columns and weights of one record's features, admitting new ones. Refused features are left out."""
        columns = self.admit_all(features)
        if None in columns:
            features = [feature for feature, column in zip(features, columns, strict=True) if column is not None]
        return [column for column in columns if column is not None], [weight for _, _, weight in features]

    def admit_all(self, features: Features) -> list[int | None]:
        """Return the columns of one record's features, admitting new ones; None for a feature that is not admitted."""
        columns = self._vocabulary.find_all(features)
        if None not in columns:
            return columns
        new, most = 0, self.bounds.admissions
        for at, (field, value, _) in enumerate(features):
            if columns[at] is not None:
                continue
            columns[at] = self._vocabulary.find(field, value)  # a record may contain a value twice
            if columns[at] is not None:
                continue
            if most is not None and new >= most:
                self._refuse("many")
            elif self._may_come(field, value):
                columns[at] = self._vocabulary.admit(field, value)
                new += 1
                limit = self.limits.get(field)
                if limit is not None and limit.most is not None and self._vocabulary.count(field) > limit.most:
                    self.over.add(field)
        return columns

    @property
    def sketches(self) -> int:
        """Number of fields that have a sketch to count occurrences before admission."""
        return len(self._sketches)

    def room_for_fields(self, coming: int) -> int:
        """Return how many more undeclared fields may be admitted after `coming` others."""
        most = self.bounds.undeclared
        return 2**31 if most is None else max(0, most - len(self.undeclared) - coming)

    def take_fields(self, names: list[str], left_out: int) -> None:
        """Register the names of undeclared fields that an event brought, and count the fields that were not admitted."""
        self._remember()
        self.undeclared.update(names)
        if left_out:
            self._refuse("fields", left_out)

    def _may_come(self, field: int, value: str) -> bool:
        limit = self.limits.get(field)
        if limit is None:
            return True
        if limit.items and not self.is_live(value):
            return False
        if limit.admit_after > 1 and self._sketches[field].count(value) < limit.admit_after:
            self._refuse("rare")
            return False
        if limit.held and limit.most is not None and self._vocabulary.count(field) >= limit.most:
            self.over.add(field)
            self._refuse("full")
            return False
        return True

    def _refuse(self, reason: Reason, count: int = 1) -> None:
        self._remember()
        self.refused[reason] += count

    # Transactions

    def _remember(self) -> None:
        if self._before is None:
            self._before = (self.refused.copy(), set(self.undeclared))

    @property
    def uncommitted(self) -> bool:
        """Whether anything was counted or refused since the last commit."""
        return self._before is not None or any(sketch.uncommitted for sketch in self._sketches.values())

    def commit(self) -> None:
        """Commit pending counts and refusals."""
        self._before = None
        for sketch in self._sketches.values():
            if sketch.uncommitted:
                sketch.commit()

    def rollback(self) -> None:
        """Roll back to the last commit."""
        if self._before is not None:
            self.refused, self.undeclared = self._before
            self._before = None
        for sketch in self._sketches.values():
            sketch.rollback()
        self.over.clear()

    def checkpoint(self) -> Callable[[], None]:
        """Return a function that restores the present state, whatever is committed meanwhile."""
        refused, undeclared, over = self.refused.copy(), set(self.undeclared), set(self.over)
        counted = {number: (own.counters.copy(), own.occurrences) for number, own in self._sketches.items()}

        def undo() -> None:
            self.rollback()
            self.refused, self.undeclared, self.over = refused, undeclared, over
            for number, saved in counted.items():
                self._sketches[number].restore(*saved)

        return undo

    # Serialization

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as a JSON document and arrays."""
        document = {
            "refused": {reason: self.refused[reason] for reason in REASONS},
            "undeclared": sorted(self.undeclared),
            "occurrences": {self._vocabulary.fields[number]: own.occurrences for number, own in self._sketches.items()},
        }
        return document, {f"sketch{number}": own.counters.copy() for number, own in self._sketches.items()}

    def restore(self, schema: Schema, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `state` returned, with the bounds of the schema in use."""
        self.refused = Counter({reason: int(document["refused"][reason]) for reason in REASONS})
        self.undeclared = set(document["undeclared"])
        self.follow(schema)
        for number, sketch in self._sketches.items():
            sketch.restore(np.array(arrays[f"sketch{number}"]), document["occurrences"][self._vocabulary.fields[number]])
