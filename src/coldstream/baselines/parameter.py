"""Validation of the numeric options of baselines."""

from coldstream.errors import InvalidInput, shown
from coldstream.support.arrays import plain

_HIGHEST = 1e9


def checked_number(name: str, value: object, lowest: float = 0.0) -> float:
    """Return the value as a float; raise `InvalidInput` unless it is a number from `lowest` to 1e9."""
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int | float) or not lowest <= number <= _HIGHEST:
        raise InvalidInput(f"{name} must be a number from {lowest:g} to {_HIGHEST:g}, got {shown(value)}")
    return float(number)


def checked_count(name: str, value: object) -> int:
    """Return the value as an int; raise `InvalidInput` unless it is a whole number from 1 to 1e9."""
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _HIGHEST:
        raise InvalidInput(f"{name} must be a whole number from 1 to {_HIGHEST:g}, got {shown(value)}")
    return number
