"""The kinds of event that a scenario yields, in order."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias


class ItemCame(NamedTuple):
    """An item that enters the catalogue, or is hidden or shown again."""

    item: str
    attributes: Mapping[str, Any]
    hidden: bool = False


class ItemWent(NamedTuple):
    """An item that leaves the catalogue."""

    item: str


class UserCame(NamedTuple):
    """A user who registers with attributes."""

    user: str
    attributes: Mapping[str, Any]


class Choice(NamedTuple):
    """A user's choice of an item, or another kind of interaction with it."""

    user: str
    item: str
    time: float | None
    context: Mapping[str, Any]
    kind: str | None = None
    """The kind of feedback, such as a view or a purchase; None for a plain choice."""


ScenarioEvent: TypeAlias = ItemCame | ItemWent | UserCame | Choice
