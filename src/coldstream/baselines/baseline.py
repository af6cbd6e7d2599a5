"""A scorer made a recommender that can be put to the test: who is known, who had what, candidates, ranks."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from coldstream.baselines.user_past import UserPast
from coldstream.errors import UnknownId, shown
from coldstream.events.event import Event
from coldstream.features.feedback import CHOICE, Feedback, effect_of
from coldstream.scoring.ranking import Rank
from coldstream.support.arrays import Doubles, Longs

_NOBODY = UserPast()


class Scorer(Protocol):
    """What tells one baseline from another. Items are numbers in order of registration."""

    def grow(self, items: int, /) -> None:
        """There are so many items now. Whatever raises has changed nothing."""

    def scores(self, past: UserPast, /) -> Doubles:
        """A finite score for every item, the higher the better, to be read before anything changes. Changes nothing."""

    def learn(self, past: UserPast, item: int, /) -> None:
        """A user with this past chose an item, which is not part of the past yet."""


@runtime_checkable
class BatchScorer(Scorer, Protocol):
    """A scorer that learns its first choices faster at once than one by one, with the same result."""

    def train(self, choices: Sequence[tuple[UserPast, int]], /) -> None:
        """Users chose these items in this order. The pasts hold all of them already, and nothing else."""


class Baseline:
    """A recommender that knows ids and choices, and nothing of attributes, context or time.

    Of kinds of feedback it knows which count as choices, and which as had; one choice is as good as another.
    """

    def __init__(self, scorer: Scorer, repeats: bool, feedback: Sequence[Feedback] = ()) -> None:
        self._scorer = scorer
        self._repeats = repeats
        self._feedback = feedback
        self._ids: list[str] = []
        self._numbers: dict[str, int] = {}
        self._pasts: dict[str, UserPast] = {}
        self._had: dict[str, UserPast] = {}  # the same, unless some kinds count as one and not as the other

    def add_user(self, user: str, attributes: Mapping[str, Any]) -> None:  # noqa: ARG002
        past = self._pasts.setdefault(user, UserPast())
        self._had.setdefault(user, UserPast() if self._feedback else past)

    def add_item(self, item: str, attributes: Mapping[str, Any]) -> None:  # noqa: ARG002
        if item not in self._numbers:
            self._scorer.grow(len(self._ids) + 1)
            self._numbers[item] = len(self._ids)
            self._ids.append(item)

    def train(self, events: Sequence[Event]) -> None:
        if self._feedback:
            for event in events:
                self.learn(event)
            return
        choices = [self._looked_up(event) for event in events]
        if isinstance(self._scorer, BatchScorer):
            for past, item in choices:
                past.append(item)
            self._scorer.train(choices)
        else:
            for past, item in choices:
                self._learn(past, item)

    def recommend(self, user: str, n: int, *, context: Mapping[str, Any], time: float | None) -> list[str]:  # noqa: ARG002
        past = self._pasts.get(user, _NOBODY)
        scores = self._scorer.scores(past)
        allowed = np.ones(len(scores), np.bool_)
        allowed[self._left_out(user)] = False
        candidates = np.flatnonzero(allowed)
        return [self._ids[number] for number in candidates[_best(scores[candidates], n)].tolist()]

    def rank(self, user: str, item: str, *, context: Mapping[str, Any], time: float | None) -> Rank:  # noqa: ARG002
        number = self._number(item)
        past = self._pasts.get(user, _NOBODY)
        scores = self._scorer.scores(past)
        own = scores[number]
        left_out = self._left_out(user)
        others_left_out = scores[left_out[left_out != number]]
        better = np.count_nonzero(scores > own) - np.count_nonzero(others_left_out > own)
        equal = np.count_nonzero(scores == own) - np.count_nonzero(others_left_out == own)
        return Rank(float(better + 0.5 * (equal - 1)), len(scores) - len(others_left_out))

    def learn(self, event: Event) -> None:
        past, item = self._looked_up(event)
        effect = effect_of(self._feedback, event.kind) if self._feedback else CHOICE
        if effect.trends:
            self._learn(past, item)
        if self._feedback and effect.had:
            self._had[event.user].append(item)

    def _learn(self, past: UserPast, item: int) -> None:
        self._scorer.learn(past, item)
        past.append(item)

    def _left_out(self, user: str) -> Longs:
        return _NOBODY.distinct if self._repeats else self._had.get(user, _NOBODY).distinct

    def _looked_up(self, event: Event) -> tuple[UserPast, int]:
        if event.user not in self._pasts:
            raise UnknownId(f"user {shown(event.user)} is not known; add_user({shown(event.user)}, …) first")
        return self._pasts[event.user], self._number(event.item)

    def _number(self, item: str) -> int:
        if item not in self._numbers:
            raise UnknownId(f"item {shown(item)} is not known; add_item({shown(item)}, …) first")
        return self._numbers[item]


def _best(scores: Doubles, n: int) -> Longs:
    """Where the n highest are, highest first; ties go to the front."""
    if n < len(scores):
        least = np.partition(scores, -n)[-n]
        places = np.flatnonzero(scores >= least)
    else:
        places = np.arange(len(scores))
    return places[np.argsort(-scores[places], kind="stable")[:n]]
