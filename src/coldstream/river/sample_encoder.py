"""Encoding of River's feature dictionaries as named features of a factorization machine."""

import math
from collections.abc import Collection, Hashable, Mapping
from numbers import Real
from typing import Any, TypeAlias

from coldstream.errors import InvalidInput, shown
from coldstream.events.event import checked_text
from coldstream.model.factorization_machine import LARGEST_NUMBER, NamedFeature
from coldstream.support.arrays import plain

Powers: TypeAlias = Mapping[str, float]
"""The power of ten that the numbers of a field are divided by; fields within ±10 have none."""


class SampleEncoder:
    """An encoder of dictionaries as named features: a string is a category, a list of strings several categories.

    Fields in `ids` are categories of any type. Values that are None or NaN are absent. Numbers beyond ±10 are divided by a
    power of ten per field, which rises when a larger number is learned; in prediction, a larger one is clipped to ±10.
    Features are sorted by name, so that the order of a dictionary has no effect on any bit.
    """

    def __init__(self, ids: Collection[Hashable] = ()) -> None:
        if isinstance(ids, str) or not isinstance(ids, Collection):
            raise InvalidInput(f"ids must be a list of names, got {shown(ids)}; write [{shown(ids)}]")
        self._ids = frozenset(ids)
        self._powers: Powers = {}

    def encode(self, x: Mapping[Any, Any]) -> list[NamedFeature]:
        """Return the features of x, scaled by the current powers of ten."""
        return self._features(x, self._powers)

    def widened(self, x: Mapping[Any, Any]) -> Powers:
        """Return the powers of ten after learning x, without adopting them; the current ones if x has no larger number."""
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
        """Return the features of x, scaled by the powers that `widened` returned."""
        return self._features(x, powers)

    def take(self, powers: Powers) -> None:
        """Adopt these powers of ten."""
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
    """Return a value as a float, which may be infinite; None if it is NaN or not a number."""
    value = plain(value)
    if not isinstance(value, Real) or value != value:
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value == abs(value) else -math.inf


def _category(name: str, value: Any) -> str:
    """Return the label of a category: text unchanged, and whole floats without decimals."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int | float | bool):
        raise InvalidInput(f"x: {name} must be a string or a number to be a category, got {shown(value)}")
    return "=" + checked_text(f"x: {name}", str(value))
