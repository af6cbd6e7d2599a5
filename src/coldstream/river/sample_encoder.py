"""Dictionaries as River has them, as named features of a machine."""

import math
from collections.abc import Collection, Hashable, Mapping
from numbers import Real
from typing import Any, TypeAlias

from coldstream.errors import InvalidInput, shown
from coldstream.events.event import checked_text
from coldstream.model.factorization_machine import LARGEST_NUMBER, NamedFeature
from coldstream.support.arrays import plain

Powers: TypeAlias = Mapping[str, float]
"""By field, the power of ten that its numbers are divided by; those within ±10 by none."""


class SampleEncoder:
    """Names the features of dictionaries: a string is a category, a number a number, several strings are several categories.

    The fields of `ids` are categories, whatever their type. What is None or not a number is not there. Numbers beyond 10 are
    divided by a power of ten, which rises when a larger one is learned; one that is larger still counts as 10. Names are
    taken in their order, so that the order of a dictionary makes no difference to any bit.
    """

    def __init__(self, ids: Collection[Hashable] = ()) -> None:
        if isinstance(ids, str) or not isinstance(ids, Collection):
            raise InvalidInput(f"ids must be a list of names, got {shown(ids)}; write [{shown(ids)}]")
        self._ids = frozenset(ids)
        self._powers: Powers = {}

    def encode(self, x: Mapping[Any, Any]) -> list[NamedFeature]:
        """The features of x, by the powers of ten that are known."""
        return self._features(x, self._powers)

    def widened(self, x: Mapping[Any, Any]) -> Powers:
        """The powers of ten that x leads to; those in use where it has no larger number."""
        powers = self._powers
        for name, value in x.items():
            if type(value) is str or name in self._ids:
                continue
            number = _number(value)
            if number is not None and LARGEST_NUMBER < abs(number) / powers.get(str(name), 1.0) < math.inf:
                power = 10.0 ** math.ceil(math.log10(abs(number) / LARGEST_NUMBER))
                powers = {**powers, str(name): power}
        return powers

    def admit(self, x: Mapping[Any, Any], powers: Powers) -> list[NamedFeature]:
        """The features of x by the powers that it was `widened` to."""
        return self._features(x, powers)

    def take(self, powers: Powers) -> None:
        """Go on with these powers of ten."""
        self._powers = powers

    def _features(self, x: Mapping[Any, Any], powers: Powers) -> list[NamedFeature]:
        if not isinstance(x, Mapping):
            raise InvalidInput(f"x must be a dictionary of features, got {shown(x)}")
        features: list[NamedFeature] = []
        for name in _in_order(x):
            value = x[name]
            if type(value) is str and type(name) is str and value.isascii() and name.isascii():
                features.append((name, "=" + value, 1.0))
            else:
                features += self._described(name, plain(value), powers)
        return features

    def _described(self, name: Hashable, value: Any, powers: Powers) -> list[NamedFeature]:
        field = checked_text("x: a feature's name", str(name))
        if isinstance(value, str) or (name in self._ids and value is not None):
            return [(field, _category(field, value), 1.0)]
        if isinstance(value, list):
            return [(field, label, 1.0) for label in dict.fromkeys(_category(field, one) for one in value)]
        number = _number(value)
        if number is None:
            if value is None or value != value:
                return []
            raise InvalidInput(f"x: {field} must be a string, a number or a list of strings, got {shown(value)}")
        weight = min(max(number / powers.get(field, 1.0), -LARGEST_NUMBER), LARGEST_NUMBER)
        return [(field, "", weight)] if weight else []


def _in_order(x: Mapping[Any, Any]) -> list[Any]:
    try:
        names = sorted(x)
    except TypeError:
        names = sorted(x, key=str)
    if any(type(name) is not str for name in names) and len(set(map(str, names))) < len(names):
        raise InvalidInput(f"x: two features have the same name as a string, among {shown(names)}; rename one of them")
    return names


def _number(value: object) -> float | None:
    """A value as a number, which may be infinite; None where it is none."""
    value = plain(value)
    if not isinstance(value, Real) or value != value:
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value == abs(value) else -math.inf


def _category(name: str, value: Any) -> str:
    """The label of a category: text as it is, and numbers as whole numbers where they are whole."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int | float | bool):
        raise InvalidInput(f"x: {name} must be a string or a number to be a category, got {shown(value)}")
    return "=" + checked_text(f"x: {name}", str(value))
