"""Answers that are pages of a list: sequences that can lead to the next page."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from coldstream.service.messages import recommend as r

Item = TypeVar("Item")


@dataclass(frozen=True)
class Page(Sequence[Item], Generic[Item]):
    """A page of a list: a sequence of `items`, and the way to the next page."""

    items: Sequence[Item]
    """The items of this page, in the order that the service returned."""
    more: Callable[[], Generator[Any, Any, Any]] | None = field(default=None, repr=False, compare=False, kw_only=True)
    """Starts the calls that fetch the next page; None on the last page."""

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        return self.items[place]

    def __len__(self) -> int:
        return len(self.items)


class Recommendation(r.Recommended, frozen=True):
    """A recommended item with its score and position."""

    position: int = 0
    """The position in the list that the customer sees, from 1. Later pages continue the numbering."""


@dataclass(frozen=True)
class Recommendations(Page[Recommendation]):
    """A page of recommended items, best first."""

    recommendation_id: str | None = None
    """The id for events that refer to this list, if `remember` was true or a next page was requested."""


@dataclass(frozen=True)
class Found(Page[Item]):
    """A page of a search."""

    total: int | None = None
    """The number of results on all pages, if the service can tell it from one page."""
    next: int | None = None
    """The argument `after` of the next page, for a program that cannot keep this object; None on the last page."""
    cursor: str | None = None
    """The argument `cursor` of the next page of users, which stays right while users are added and removed."""
