"""Adapters that put a `Recommender` to the test: incremental or static, with all fields or with ids only."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coldstream.evaluation.method import Method
from coldstream.events.event import Event
from coldstream.recommender import Recommender
from coldstream.scoring.ranking import Rank


class Model:
    """A `Recommender` under test. `on_events` decides what events do: the incremental model learns, the static observes."""

    def __init__(self, recommender: Recommender, on_events: Callable[[Sequence[Event]], None], learns: bool) -> None:
        self.recommender = recommender
        self.learns = learns
        """True if events after training change the parameters."""
        self._on_events = on_events

    def add_user(self, user: str, attributes: Mapping[str, Any]) -> None:
        self.recommender.put_user(user, attributes)

    def add_item(self, item: str, attributes: Mapping[str, Any]) -> None:
        self.recommender.put_item(item, attributes)

    def train(self, events: Sequence[Event]) -> None:
        self.recommender.train(events)

    def recommend(self, user: str, n: int, *, context: Mapping[str, Any], time: float | None) -> list[str]:
        return [best.item for best in self.recommender.recommend(user, n, context=context, time=time)]

    def rank(self, user: str, item: str, *, context: Mapping[str, Any], time: float | None) -> Rank:
        return self.recommender.rank(user, item, context=context, time=time)

    def learn(self, event: Event) -> None:
        self._on_events([event])

    def add_many(self, users: Mapping[str, Mapping[str, Any]], items: Mapping[str, Mapping[str, Any]]) -> None:
        self.recommender.put_users(users.items())
        self.recommender.put_items(items.items())

    def learn_many(self, events: Sequence[Event]) -> None:
        self._on_events(events)


def incremental(recommender: Recommender) -> Model:
    """Return a model that learns from every event."""

    def learn(events: Sequence[Event]) -> None:
        recommender.learn(events[0] if len(events) == 1 else events)

    return Model(recommender, learn, learns=True)


def static(recommender: Recommender) -> Model:
    """Return a model whose parameters stay fixed after training, while histories of users go on."""

    def observe(events: Sequence[Event]) -> None:
        for event in events:
            recommender.observe(event)

    return Model(recommender, observe, learns=False)


EVERYONE = "everyone"
"""Id of the single user that `OneUser` passes on."""


class IdsOnly:
    """A wrapper that passes ids and kinds of events to a method, but no attributes, context or time."""

    def __init__(self, method: Method) -> None:
        self._method = method

    def add_user(self, user: str, attributes: Mapping[str, Any]) -> None:  # noqa: ARG002
        self._method.add_user(user, {})

    def add_item(self, item: str, attributes: Mapping[str, Any]) -> None:  # noqa: ARG002
        self._method.add_item(item, {})

    def train(self, events: Sequence[Event]) -> None:
        self._method.train([Event(event.user, event.item, kind=event.kind) for event in events])

    def recommend(self, user: str, n: int, *, context: Mapping[str, Any], time: float | None) -> Sequence[str]:  # noqa: ARG002
        return self._method.recommend(user, n, context={}, time=None)

    def rank(self, user: str, item: str, *, context: Mapping[str, Any], time: float | None) -> Rank:  # noqa: ARG002
        return self._method.rank(user, item, context={}, time=None)

    def learn(self, event: Event) -> None:
        self._method.learn(Event(event.user, event.item, kind=event.kind))


class OneUser:
    """A wrapper that merges all users into one, as the paper's matrix factorization does where no user returns."""

    def __init__(self, method: Method) -> None:
        self._method = method
        method.add_user(EVERYONE, {})

    def add_user(self, user: str, attributes: Mapping[str, Any]) -> None:
        """Do nothing, because the single user was added at the start."""

    def add_item(self, item: str, attributes: Mapping[str, Any]) -> None:
        self._method.add_item(item, attributes)

    def train(self, events: Sequence[Event]) -> None:
        self._method.train([Event(EVERYONE, event.item, kind=event.kind) for event in events])

    def recommend(self, user: str, n: int, *, context: Mapping[str, Any], time: float | None) -> Sequence[str]:  # noqa: ARG002
        return self._method.recommend(EVERYONE, n, context=context, time=time)

    def rank(self, user: str, item: str, *, context: Mapping[str, Any], time: float | None) -> Rank:  # noqa: ARG002
        return self._method.rank(EVERYONE, item, context=context, time=time)

    def learn(self, event: Event) -> None:
        self._method.learn(Event(EVERYONE, event.item, event.time, event.context, event.kind))
