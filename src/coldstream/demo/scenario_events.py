"""The events of a scenario: what happens in it, one thing after the other."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias


class ItemCame(NamedTuple):
    """An item enters the catalogue."""

    item: str
    attributes: Mapping[str, Any]


class ItemWent(NamedTuple):
    """An item leaves the catalogue."""

    item: str


class UserCame(NamedTuple):
    """A user registers."""

    user: str
    attributes: Mapping[str, Any]


class Choice(NamedTuple):
    """A user chooses an item."""

    user: str
    item: str
    time: float | None
    context: Mapping[str, Any]


ScenarioEvent: TypeAlias = ItemCame | ItemWent | UserCame | Choice
