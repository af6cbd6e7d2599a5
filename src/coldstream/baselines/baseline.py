"""Adapter from a baseline's scorer to a method under test: ids, users' pasts, candidates and ranks."""

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
"""The empty past of an unknown user."""


class Scorer(Protocol):
    """The scoring model of a baseline. Items are numbers from 0 in order of registration."""

    def grow(self, items: int, /) -> None:
        """Make room for `items` items in all. A call that raises changes nothing."""

    def scores(self, past: UserPast, /) -> Doubles:
        """Return a finite score for each item; higher is better. The array is valid until the next change of state."""

    def learn(self, past: UserPast, item: int, /) -> None:
        """Learn that a user with this past chose an item, which is not appended to the past yet."""


@runtime_checkable
class BatchScorer(Scorer, Protocol):
    """A scorer that learns the training choices faster as a batch than one by one, with the same result."""

    def train(self, choices: Sequence[tuple[UserPast, int]], /) -> None:
        """Learn choices in order. The pasts already hold all of these choices, and no others."""


class Baseline:
    """A recommender from ids and choices only, without attributes, context or time.

    Kinds of feedback decide which events count as choices and which items count as had; their weights are ignored.
    """

    def __init__(self, scorer: Scorer, repeats: bool, feedback: Sequence[Feedback] = ()) -> None:
        self._scorer = scorer
        self._repeats = repeats
        self._feedback = feedback
        self._ids: list[str] = []
        self._numbers: dict[str, int] = {}
        self._pasts: dict[str, UserPast] = {}
        self._had: dict[str, UserPast] = {}  # Shares the pasts above unless there are kinds of feedback.

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
    """Return the indices of the n highest scores, highest first; ties go to the lower index."""
    if n < len(scores):
        least = np.partition(scores, -n)[-n]
        places = np.flatnonzero(scores >= least)
    else:
        places = np.arange(len(scores))
    return places[np.argsort(-scores[places], kind="stable")[:n]]
