"""Encoded requests and their answers: what the service batches, rules and explains."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from coldstream.engine.engine import Engine
from coldstream.errors import InvalidInput, shown
from coldstream.events.arguments import checked_count
from coldstream.events.event import checked_id, checked_names, checked_time
from coldstream.lists.explanation import Addends, side_of
from coldstream.lists.rules import Rules, look_up_in_steps, ruled
from coldstream.scoring.filters import Predicate, checked_ids, excluded_slots
from coldstream.scoring.ranking import Rank, rank_by
from coldstream.scoring.requests import EncodedRequest
from coldstream.support.arrays import Doubles, Flags, Integers
from coldstream.users.states import UserState

MAX_EXPLAINED_FEATURES = 25_000
"""Features that one call to `addends_batch` copies at most, because the event loop waits meanwhile."""

_NO_SLOTS: Integers = np.zeros(0, np.int32)


class Recommendation(NamedTuple):
    """An item and its score for one request."""

    item: str
    score: float


# Builds a Recommendation like its constructor, without a call into Python for each: a list is made for every request.
_recommendation = partial(tuple.__new__, Recommendation)


class Serving:
    """Encodes requests to an engine and answers them. It only reads, and an encoded request holds until anything changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def encode_request(
        self,
        user: str | None,
        n: int = 10,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
        exclude_seen: bool | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        where: Predicate | None = None,
        history: Iterable[str] | None = None,
    ) -> EncodedRequest:
        """Check and encode the arguments of `Recommender.recommend`."""
        n = checked_count("n", n)
        visitor = None if history is None else self._visitor(user, history)
        request = self.encode(user, context, time, attributes, exclude_seen, visitor)
        return request._replace(n=n, excluded=self._excluded(request.excluded, allow, deny, where))

    def encode(
        self,
        user: str | None,
        context: Mapping[str, Any] | None,
        time: float | datetime | None,
        attributes: Mapping[str, Any] | None,
        exclude_seen: bool | None,
        visitor: UserState | None = None,
    ) -> EncodedRequest:
        """Check and encode a request without filters, for a user or for a visitor with a history."""
        users = self._engine.users
        state = users.of(None if user is None else checked_id("user", user)) if visitor is None else visitor
        given = {} if context is None else checked_names("context", context)
        if attributes is not None:
            checked_names(f"user {user!r}", attributes)
        if not isinstance(exclude_seen, bool | None):
            raise InvalidInput(f"exclude_seen must be true, false or left out, got {shown(exclude_seen)}")
        moment = checked_time(time)
        x = users.request(state, user or "", given, moment, attributes)
        exclude = self._engine.schema.exclude_seen if exclude_seen is None else exclude_seen
        unavailable = self._engine.unavailable(moment)
        return EncodedRequest(x, users.history(state), exclude_seen=exclude, excluded=unavailable)

    def excluded(
        self,
        time: float | datetime | None,
        allow: Iterable[str] | None,
        deny: Iterable[str] | None,
        where: Predicate | None,
    ) -> Flags:
        """Return, by slot, whether an item is unavailable or filtered; an empty array if none is. Do not write to it."""
        return self._excluded(self._engine.unavailable(checked_time(time)), allow, deny, where)

    def named(self, best: Iterable[tuple[int, float]]) -> list[Recommendation]:
        """Return recommendations for pairs of slot and score."""
        name = self._engine.shared.catalogue.ids.__getitem__
        return [_recommendation((name(slot), score)) for slot, score in best]

    def recommend_batch(self, requests: Sequence[EncodedRequest]) -> list[list[Recommendation]]:
        """Return the list of each of several requests; the vectors of items are read once for all of them."""
        if not requests:
            return []
        engine = self._engine
        return [self.named(best) for best in engine.shared.scorer.top(requests, engine.clock.events)]

    def recommend_ruled(self, request: EncodedRequest, rules: Rules) -> list[Recommendation]:
        """Return the list of a request under rules: boosts, caps, pins and diversity."""
        if not isinstance(rules, Rules):
            raise InvalidInput(f"rules must be Rules, got {shown(rules)}; write Rules(most_per={{'brand': 2}})")
        return self.named(ruled(self._engine.shared, request, rules, self._engine.clock.events))

    def look_up_in_steps(self, rules: Rules) -> Generator[None, None, None]:
        """Look up in steps which items the boosts of rules are for, so that `recommend_ruled` need not."""
        return look_up_in_steps(self._engine.shared, rules)

    def rank_by(self, user: str | None, item: str, *scores: Doubles, time: float | datetime | None = None) -> list[Rank]:
        """Return the rank of an item for a user by each of several arrays of scores, which have a number per slot."""
        engine, slot = self._engine, self._engine.slot(item)
        state = engine.users.of(None if user is None else checked_id("user", user))
        unavailable = np.flatnonzero(engine.unavailable(checked_time(time))).astype(np.int32)
        seen = engine.users.past(state)[1].slots() if engine.schema.exclude_seen else _NO_SLOTS
        excluded = np.union1d(seen, unavailable) if len(unavailable) else np.unique(seen)
        return [Rank(*rank_by(own, engine.shared.catalogue.items.choices, excluded, slot)) for own in scores]

    def addends(
        self,
        user: str | None,
        item: str,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Addends:
        """Copy what an explanation needs, so that another thread can compose its terms while learning goes on."""
        slot = self._engine.slot(item)
        request = self.encode(user, context, time, attributes, False)
        score = self._engine.shared.scorer.score(request, slot, self._engine.clock.events)
        return self.addends_batch(request, [Recommendation(item, score)])[0]

    def addends_batch(self, request: EncodedRequest, items: Iterable[Recommendation]) -> list[Addends]:
        """Copy what the explanations of all items of a list need; raise `InvalidInput` where that is too much."""
        shared, features = self._engine.shared, len(request.x.column)
        machine, own = shared.machine, side_of(shared.machine, request.x)
        gathered = []
        for item, score in items:
            x = shared.catalogue.features(self._engine.slot(item), self._engine.clock.events, request.history)
            features += len(x.column)
            if features > MAX_EXPLAINED_FEATURES:
                message = f"the items to explain have more than {MAX_EXPLAINED_FEATURES} features together, got {features}"
                raise InvalidInput(f"{message} by item {item!r}; explain fewer of them in one call")
            side = side_of(machine, x)
            gathered.append(Addends(score, float(machine.parameters.theta.w0[0]), machine.hyperparameters.pairs, own, side))
        return gathered

    def _visitor(self, user: str | None, history: Iterable[str]) -> UserState:
        """Return the state of an unknown user with a history of items; unknown items are passed over."""
        if user is not None:
            message = f"history must be left out for a user, got it for {shown(user)}, whose past is known"
            error = InvalidInput(f"{message}; leave out one of the two")
            error.field = "history"
            raise error
        return self._engine.users.visitor(self._engine.shared.catalogue.slots(checked_ids("history", history)))

    def _excluded(
        self,
        unavailable: Flags,
        allow: Iterable[str] | None,
        deny: Iterable[str] | None,
        where: Predicate | None,
    ) -> Flags:
        if allow is None and deny is None and where is None:
            return unavailable
        excluded = excluded_slots(self._engine.shared.catalogue, self._engine.shared.encoder, allow, deny, where)
        return excluded | unavailable if len(unavailable) else excluded
