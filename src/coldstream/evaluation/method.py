"""What a recommender under test has to do: ours, the paper's and the baselines alike."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from coldstream.events.event import Event
from coldstream.scoring.ranking import Rank


class Method(Protocol):
    """A recommender under test. Whether items that a user had stay candidates is settled when it is built."""

    def add_user(self, user: str, attributes: Mapping[str, Any]) -> None:
        """A user comes. Called once, before the first event of the user."""

    def add_item(self, item: str, attributes: Mapping[str, Any]) -> None:
        """An item comes, and is a candidate from now on. Called once, before the first event of the item."""

    def train(self, events: Sequence[Event]) -> None:
        """Step 1: learn the past, in as many passes as the method likes. Called once at most, before any `learn`."""

    def recommend(self, user: str, n: int, *, context: Mapping[str, Any], time: float | None) -> Sequence[str]:
        """The best n candidates, best first; ties go to the item that came first. Changes nothing."""

    def rank(self, user: str, item: str, *, context: Mapping[str, Any], time: float | None) -> Rank:
        """Where an item stands among the candidates and itself; ties count half. Changes nothing."""

    def learn(self, event: Event) -> None:
        """Step 3: the event has happened."""


@runtime_checkable
class TakesMany(Protocol):
    """A method that takes many at once, with the same outcome as one by one."""

    def add_many(self, users: Mapping[str, Mapping[str, Any]], items: Mapping[str, Mapping[str, Any]]) -> None:
        """Users and items come, with their attributes."""

    def learn_many(self, events: Sequence[Event]) -> None:
        """The events have happened, in their order."""
