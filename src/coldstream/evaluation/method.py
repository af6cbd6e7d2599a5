"""The interface of a recommender under test, which Coldstream, the paper's methods and the baselines implement."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from coldstream.events.event import Event
from coldstream.scoring.ranking import Rank


class Method(Protocol):
    """A recommender under test. Its constructor decides whether items that a user already had stay candidates."""

    def add_user(self, user: str, attributes: Mapping[str, Any]) -> None:
        """Register a user. Called once per user, before the first event of that user."""

    def add_item(self, item: str, attributes: Mapping[str, Any]) -> None:
        """Register an item, which is a candidate from then on. Called once per item, before its first event."""

    def train(self, events: Sequence[Event]) -> None:
        """Train on past events (step 1), in any number of passes. Called at most once, before any `learn`."""

    def recommend(self, user: str, n: int, *, context: Mapping[str, Any], time: float | None) -> Sequence[str]:
        """Return the best n candidates, best first; ties go to the item registered first. Changes no state."""

    def rank(self, user: str, item: str, *, context: Mapping[str, Any], time: float | None) -> Rank:
        """Return the rank of an item among the candidates and itself; ties count half. Changes no state."""

    def learn(self, event: Event) -> None:
        """Learn an event after it was tested (step 3)."""


@runtime_checkable
class TakesMany(Protocol):
    """A method that takes users, items and events in batches, with the same result as one at a time."""

    def add_many(self, users: Mapping[str, Mapping[str, Any]], items: Mapping[str, Mapping[str, Any]]) -> None:
        """Register users and items with their attributes."""

    def learn_many(self, events: Sequence[Event]) -> None:
        """Learn events in the order given."""
