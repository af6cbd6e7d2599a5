"""Answers that are lists: they iterate as their items, and know how to ask for the next page."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from coldstream.service.messages import recommend as r

Item = TypeVar("Item")


@dataclass(frozen=True)
class Page(Sequence[Item], Generic[Item]):
    """A sequence of `items`, and how to get the page behind it."""

    items: Sequence[Item]
    """The items of this page, in the order of the service."""
    more: Callable[[], Generator[Any, Any, Any]] | None = field(default=None, repr=False, compare=False, kw_only=True)
    """The calls that lead to the next page; None at the end."""

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        return self.items[place]

    def __len__(self) -> int:
        return len(self.items)


class Recommendation(r.Recommended, frozen=True):
    """A recommended item, its score, and its position."""

    position: int = 0
    """Its place in the list that the customer sees; 1 is the first, and later pages count on."""


@dataclass(frozen=True)
class Recommendations(Page[Recommendation]):
    """Recommended items, best first."""

    recommendation_id: str | None = None
    """The id that events name, where `remember` was true or a next page was asked for."""


@dataclass(frozen=True)
class Found(Page[Item]):
    """A page of a search."""

    total: int | None = None
    """How many there are on all pages, where the service can tell from one page."""
    next: int | None = None
    """The argument `after` of the next page, for a program that cannot keep this object; None at the end."""
    cursor: str | None = None
    """The argument `cursor` of the next page of users, which stays right while users come and go."""
