"""The factorization machine under test: as it learns, as it stands still, and where it knows ids only."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coldstream.evaluation.method import Method
from coldstream.events.event import Event
from coldstream.recommender import Recommender
from coldstream.scoring.ranking import Rank


class Model:
    """A recommender under test. What events do to it, `learn` or `observe`, tells the incremental from the static."""

    def __init__(self, recommender: Recommender, on_events: Callable[[Sequence[Event]], None], learns: bool) -> None:
        self.recommender = recommender
        self.learns = learns
        """Whether events teach it anything once it is trained."""
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
    """A model that learns from every event."""

    def learn(events: Sequence[Event]) -> None:
        recommender.learn(events[0] if len(events) == 1 else events)

    return Model(recommender, learn, learns=True)


def static(recommender: Recommender) -> Model:
    """A model that stops learning once it is trained: users go on having a past, and parameters stay."""

    def observe(events: Sequence[Event]) -> None:
        for event in events:
            recommender.observe(event)

    return Model(recommender, observe, learns=False)


EVERYONE = "everyone"


class IdsOnly:
    """A method that is told ids, and neither attributes nor context nor time."""

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
    """A method to which all users are one, as the paper's matrix factorization has it where nobody comes twice."""

    def __init__(self, method: Method) -> None:
        self._method = method
        method.add_user(EVERYONE, {})

    def add_user(self, user: str, attributes: Mapping[str, Any]) -> None:
        """All are here already."""

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
