"""Which new values get a column, and which are left out: the bounds of a schema's fields, as records come.

What is left out is as if it had not been there, and counted.
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
"""Why something was left out: its field is full of what items have, it came too seldom yet, its record brought too much
that is new, or there are enough fields that nobody declared."""
REASONS: tuple[Reason, ...] = ("full", "rare", "many", "fields")


class Limit(NamedTuple):
    """What bounds one field."""

    most: int | None
    admit_after: int
    expire: Age
    held: bool
    """Whether items hold its values: what is held does not go, so a field that is full takes nothing new."""
    items: bool
    """Whether its values are items: one that is gone does not come back by somebody's history."""

    @property
    def is_bound(self) -> bool:
        """Whether values of the field may have to go."""
        return self.most is not None or self.expire is not None


class Admissions:
    """The bounds of the fields in use, and what was left out. What came since the last `commit` can be taken back."""

    def __init__(self, vocabulary: Vocabulary, bounds: Bounds) -> None:
        self.bounds = bounds
        """To be followed by `follow` when it changes."""
        self.limits: dict[int, Limit] = {}
        """By the field's number; fields that are not here have few values by nature."""
        self.tracked: frozenset[int] = frozenset()
        """Fields whose values may have to go, so that it matters how useful they are."""
        self.half_lives: Doubles = np.zeros(0, np.float64)
        """By field: after how many events a use of a value counts half; 0 where that does not matter."""
        self.is_live: Callable[[str], bool] = lambda _: True
        """Whether an item is in the catalogue."""
        self.over: set[int] = set()
        """Fields that may have more values than they should, or that have turned something away because they are full."""
        self.refused: Counter[str] = Counter()
        """What was left out, by reason."""
        self.undeclared: set[str] = set()
        """Context fields that events brought and nobody declared."""
        self._vocabulary = vocabulary
        self._sketches: dict[int, Sketch] = {}
        self._before: tuple[Counter[str], set[str]] | None = None

    def follow(self, schema: Schema) -> None:
        """Take up the bounds of a schema's fields, and forget what was counted for those that count no longer."""
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
        """The columns of one record's features and what they weigh; what is new gets a column, or is left out."""
        columns = self.admit_all(features)
        if None in columns:
            features = [feature for feature, column in zip(features, columns, strict=True) if column is not None]
        return [column for column in columns if column is not None], [weight for _, _, weight in features]

    def admit_all(self, features: Features) -> list[int | None]:
        """The columns of one record's features; what is new gets one, or None."""
        columns = self._vocabulary.find_all(features)
        if None not in columns:
            return columns
        new, most = 0, self.bounds.admissions
        for at, (field, value, _) in enumerate(features):
            if columns[at] is not None:
                continue
            columns[at] = self._vocabulary.find(field, value)  # one record may say it twice
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
        """How many fields have a sketch in front."""
        return len(self._sketches)

    def room_for_fields(self, coming: int) -> int:
        """How many more fields may come that nobody declared, behind those that are coming."""
        most = self.bounds.undeclared
        return 2**31 if most is None else max(0, most - len(self.undeclared) - coming)

    def take_fields(self, names: list[str], left_out: int) -> None:
        """An event brings fields that nobody declared; others were left out."""
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

    # What can be taken back

    def _remember(self) -> None:
        if self._before is None:
            self._before = (self.refused.copy(), set(self.undeclared))

    @property
    def uncommitted(self) -> bool:
        """Whether anything was counted or left out since the last commit."""
        return self._before is not None or any(sketch.uncommitted for sketch in self._sketches.values())

    def commit(self) -> None:
        """What came stays."""
        self._before = None
        for sketch in self._sketches.values():
            if sketch.uncommitted:
                sketch.commit()

    def rollback(self) -> None:
        """Take back what came since the last commit."""
        if self._before is not None:
            self.refused, self.undeclared = self._before
            self._before = None
        for sketch in self._sketches.values():
            sketch.rollback()
        self.over.clear()

    def checkpoint(self) -> Callable[[], None]:
        """What takes all back to as it is now, whatever is committed meanwhile."""
        refused, undeclared, over = self.refused.copy(), set(self.undeclared), set(self.over)
        counted = {number: (own.counters.copy(), own.occurrences) for number, own in self._sketches.items()}

        def undo() -> None:
            self.rollback()
            self.refused, self.undeclared, self.over = refused, undeclared, over
            for number, saved in counted.items():
                self._sketches[number].restore(*saved)

        return undo

    # What survives

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What JSON holds and what arrays hold of it."""
        document = {
            "refused": {reason: self.refused[reason] for reason in REASONS},
            "undeclared": sorted(self.undeclared),
            "occurrences": {self._vocabulary.fields[number]: own.occurrences for number, own in self._sketches.items()},
        }
        return document, {f"sketch{number}": own.counters.copy() for number, own in self._sketches.items()}

    def restore(self, schema: Schema, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of `state`, where a schema is in use."""
        self.refused = Counter({reason: int(document["refused"][reason]) for reason in REASONS})
        self.undeclared = set(document["undeclared"])
        self.follow(schema)
        for number, sketch in self._sketches.items():
            sketch.restore(np.array(arrays[f"sketch{number}"]), document["occurrences"][self._vocabulary.fields[number]])
