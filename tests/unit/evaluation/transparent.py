"""Methods that can be seen through, to test a protocol with, and one that wraps the real thing."""

from collections.abc import Mapping, Sequence
from typing import Any

from coldstream import Event, Recommender
from coldstream.scoring.ranking import Rank


class Counting:
    """Plain popularity: how often an item was taken. Ties go to the item that came first."""

    def __init__(self, repeats: bool) -> None:
        self.repeats = repeats
        self.count: dict[str, int] = {}
        self.had: dict[str, set[str]] = {}

    def add_user(self, user: str, attributes: Mapping[str, Any]) -> None:
        self.had[user] = set()

    def add_item(self, item: str, attributes: Mapping[str, Any]) -> None:
        self.count[item] = 0

    def train(self, events: Sequence[Event]) -> None:
        for event in events:
            self.learn(event)

    def learn(self, event: Event) -> None:
        self.count[event.item] += 1
        self.had[event.user].add(event.item)

    def recommend(self, user: str, n: int, *, context: Mapping[str, Any], time: float | None) -> Sequence[str]:
        return sorted(self._candidates(user), key=lambda item: -self.count[item])[:n]

    def rank(self, user: str, item: str, *, context: Mapping[str, Any], time: float | None) -> Rank:
        others = [self.count[other] for other in self._candidates(user) if other != item]
        better = sum(count > self.count[item] for count in others)
        equal = sum(count == self.count[item] for count in others)
        return Rank(better + equal / 2, len(others) + 1)

    def _candidates(self, user: str) -> list[str]:
        return [item for item in self.count if self.repeats or item not in self.had[user]]


class Ours:
    """A coldstream recommender as a method."""

    def __init__(self, recommender: Recommender) -> None:
        self.recommender = recommender
        self.add_user, self.add_item = recommender.put_user, recommender.put_item
        self.train, self.rank, self.learn = recommender.train, recommender.rank, recommender.learn

    def recommend(self, user: str, n: int, *, context: Mapping[str, Any], time: float | None) -> Sequence[str]:
        return [best.item for best in self.recommender.recommend(user, n, context=context, time=time)]


class Recording:
    """Another method, and every call to it with what it answered."""

    def __init__(self, method: Any) -> None:
        self.method = method
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        own = getattr(self.method, name)

        def call(*args: Any, **options: Any) -> Any:
            answer = own(*args, **options)
            self.calls.append((name, *args, *options.values(), *([] if answer is None else [answer])))
            return answer

        return call

    def answers(self, name: str) -> list[Any]:
        return [call[-1] for call in self.calls if call[0] == name]
