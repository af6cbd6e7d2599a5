"""The events of a scenario: what happens in it, one thing after the other."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias


class ItemCame(NamedTuple):
    """An item enters the catalogue, or is hidden or shown again."""

    item: str
    attributes: Mapping[str, Any]
    hidden: bool = False


class ItemWent(NamedTuple):
    """An item leaves the catalogue."""

    item: str


class UserCame(NamedTuple):
    """A user registers."""

    user: str
    attributes: Mapping[str, Any]


class Choice(NamedTuple):
    """A user chooses an item, or does something else with it."""

    user: str
    item: str
    time: float | None
    context: Mapping[str, Any]
    kind: str | None = None


ScenarioEvent: TypeAlias = ItemCame | ItemWent | UserCame | Choice
