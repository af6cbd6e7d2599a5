"""What can be asked of what is known: recommend, rank, predict, explain. Nothing here changes anything."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from coldstream.arguments import checked_count
from coldstream.arrays import Doubles, Flags, Integers
from coldstream.errors import InvalidInput, shown
from coldstream.events.event import checked_id, checked_names, checked_time
from coldstream.frames import Request, frame_of, is_frame, requests_of
from coldstream.known import Known, Size
from coldstream.lists import newest, similar, trending
from coldstream.model.explanation import Addends, Explanation, explained, side_of
from coldstream.rules import Rules, look_up_in_steps, ruled
from coldstream.scoring.filters import Predicate, checked_ids, excluded_slots
from coldstream.scoring.ranking import Rank, rank_by
from coldstream.scoring.requests import EncodedRequest
from coldstream.user_states import UserState

MOST_EXPLAINED = 25_000
"""Features that a call to `addends_batch` copies at most: everybody waits meanwhile."""

MOST_AT_ONCE = 64
"""Requests that are scored together: beyond a few dozen nothing is gained, and all their scores are in memory at once."""

__all__ = ["Reader", "Recommendation", "Size"]

_NO_SLOTS: Integers = np.zeros(0, np.int32)


class Recommendation(NamedTuple):
    """An item and its score for one request."""

    item: str
    score: float


# What Recommendation(item, score) does, without a call into Python for each: a list is made for every request.
_recommendation = partial(tuple.__new__, Recommendation)


class Reader(Known):
    """What a recommender knows, as far as it can be asked.

    Reading (`recommend`, `rank`, `predict`, `explain`) never changes anything: they take the `context` of a request, its
    `time`, and `attributes` that stand in for what was never put of the user, or take precedence in this call.
    """

    # Step 2: recommend

    def recommend(
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
        rules: Rules | None = None,
        history: Iterable[str] | None = None,
    ) -> list[Recommendation]:
        """The best n items for a user in a context, best first.

        The user may be unknown, or None. What the user had is left out if `exclude_seen` says so, or else the schema. Of the
        items, `allow` names those that may come back, `deny` those that may not, and `where` asks for attributes: a mapping
        from field to a value, or to a list of values of which an item must have one, or to conditions (`any`, `all`, `not`
        of values, `min` and `max` of numbers); or a function of an item's attributes. `rules` say what else holds for the
        list: what comes forward, how many of a kind, what is pinned, how different items are. Of a visitor without a user,
        `history` names the items so far, the latest at the end: they count as the past of one who chose them.
        Items that are hidden, or not available at the `time`, do not come back; without a time, that of the stream counts.
        Fewer than n come back where fewer are left.
        """
        request = self.encode_request(
            user,
            n,
            context=context,
            time=time,
            attributes=attributes,
            exclude_seen=exclude_seen,
            allow=allow,
            deny=deny,
            where=where,
            history=history,
        )
        return self.recommend_batch([request])[0] if rules is None else self.recommend_ruled(request, rules)

    def recommend_ruled(self, request: EncodedRequest, rules: Rules) -> list[Recommendation]:
        """What `recommend` answers to an encoded `request` under `rules`."""
        if not isinstance(rules, Rules):
            raise InvalidInput(f"rules must be Rules, got {shown(rules)}; write Rules(most_per={{'brand': 2}})")
        return self._named(ruled(self._shared, request, rules, self._clock.events))

    def look_up_in_steps(self, rules: Rules) -> Generator[None, None, None]:
        """Find out in steps which items the boosts of `rules` are for; `recommend_ruled` then need not."""
        return look_up_in_steps(self._shared, rules)

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
        """What `recommend` would answer, checked and encoded, for `recommend_batch`. It holds until anything changes."""
        n = checked_count("n", n)
        visitor = None if history is None else self._visitor(user, history)
        request = self._request(user, context, time, attributes, exclude_seen, visitor)
        return request._replace(n=n, excluded=self._excluded(request.excluded, allow, deny, where))

    def _excluded(
        self,
        unavailable: Flags,
        allow: Iterable[str] | None,
        deny: Iterable[str] | None,
        where: Predicate | None,
    ) -> Flags:
        """Per slot, whether an item is not available or filtered; empty where nothing is. To be read only."""
        if allow is None and deny is None and where is None:
            return unavailable
        excluded = excluded_slots(self._shared.catalogue, self._shared.encoder, allow, deny, where)
        return excluded | unavailable if len(unavailable) else excluded

    def similar(
        self,
        item: str,
        n: int = 10,
        *,
        time: float | datetime | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        where: Predicate | None = None,
    ) -> list[Recommendation]:
        """The n items most like one, best first: chosen together with it, and alike in what was learned of them.

        A new item is known by its attributes. The score is a cosine, of 1 at most. The `time` and the filters `allow`,
        `deny` and `where` are those of `recommend`.
        """
        slot, excluded = self._slot(item), self._listed(time, allow, deny, where)
        return self._named(similar(self._shared, slot, checked_count("n", n), excluded))

    def trending(
        self,
        n: int = 10,
        *,
        half_life: float | None = None,
        time: float | datetime | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        where: Predicate | None = None,
    ) -> list[Recommendation]:
        """The n items that were chosen most lately, best first; the score is how often, of which half is forgotten every
        `half_life` events.

        Of the half-lives that are counted the nearest is taken, without one the shortest. The `time` and the filters
        `allow`, `deny` and `where` are those of `recommend`.
        """
        excluded = self._listed(time, allow, deny, where)
        return self._named(trending(self._shared, half_life, checked_count("n", n), excluded, self._clock.events))

    def newest(
        self,
        n: int = 10,
        *,
        time: float | datetime | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        where: Predicate | None = None,
    ) -> list[Recommendation]:
        """The n items that came last, the latest first; the score is which of all arrivals an item was.

        The `time` and the filters `allow`, `deny` and `where` are those of `recommend`.
        """
        return self._named(newest(self._shared, checked_count("n", n), self._listed(time, allow, deny, where)))

    def _listed(
        self,
        time: float | datetime | None,
        allow: Iterable[str] | None,
        deny: Iterable[str] | None,
        where: Predicate | None,
    ) -> Flags:
        return self._excluded(self._unavailable(checked_time(time)), allow, deny, where)

    def _named(self, best: Iterable[tuple[int, float]]) -> list[Recommendation]:
        name = self._shared.catalogue.ids.__getitem__
        return [_recommendation((name(slot), score)) for slot, score in best]

    def recommend_batch(self, requests: Sequence[EncodedRequest]) -> list[list[Recommendation]]:
        """What `recommend` answers to each of several requests; items' vectors are read once for all of them."""
        if not requests:
            return []
        return [self._named(best) for best in self._shared.scorer.top(requests, self._clock.events)]

    def recommend_many(
        self,
        requests: Iterable[str | None] | Any,
        n: int = 10,
        *,
        columns: Mapping[str, str] | None = None,
        exclude_seen: bool | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        where: Predicate | None = None,
    ) -> Any:
        """What `recommend` answers to many requests: to a list of users, a list of lists.

        To a data frame with a column `user`, perhaps `time` and fields of the context, one frame of the same kind:
        `request`, the number of the row that asked, `user`, `rank` from 1 on, `item` and `score`. `columns` is that of
        `learn`; what else can be asked is that of `recommend`.
        """
        frame = is_frame(requests)
        if not frame and (isinstance(requests, str) or not isinstance(requests, Iterable)):
            raise InvalidInput(f"requests must be a list of users or a data frame, got {shown(requests)}")
        asked = requests_of(requests, self.schema, columns) if frame else [Request(user, None, {}) for user in requests]
        kept = [list(ids) if isinstance(ids, Iterator) else ids for ids in (allow, deny)]  # each request reads them anew
        said: dict[str, Any] = {"exclude_seen": exclude_seen, "allow": kept[0], "deny": kept[1], "where": where}
        answers: list[list[Recommendation]] = []
        for first in range(0, len(asked), MOST_AT_ONCE):
            some = asked[first : first + MOST_AT_ONCE]
            answers += self.recommend_batch(
                [self.encode_request(one.user, n, context=one.context, time=one.time, **said) for one in some]
            )
        return frame_of(answers, asked, requests) if frame else answers

    def rank(
        self,
        user: str | None,
        item: str,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
        exclude_seen: bool | None = None,
    ) -> Rank:
        """Where an item stands for a user: among all items, less what the user had (`exclude_seen`), and itself.

        Nor do items count that are hidden or not available at the `time`; the item itself does, whatever it is.
        """
        slot = self._slot(item)
        request = self._request(user, context, time, attributes, exclude_seen)
        return self._shared.scorer.rank(request, slot, self._clock.events)

    def rank_by(self, user: str | None, item: str, *scores: Doubles, time: float | datetime | None = None) -> list[Rank]:
        """Where an item would stand for a user at a `time` by other `scores`, each an array with a number per place."""
        slot, catalogue = self._slot(item), self._shared.catalogue
        state = self._users.of(None if user is None else checked_id("user", user))
        unavailable = np.flatnonzero(self._unavailable(checked_time(time))).astype(np.int32)
        seen = self._users.past(state)[1].slots() if self.schema.exclude_seen else _NO_SLOTS
        excluded = np.union1d(seen, unavailable) if len(unavailable) else np.unique(seen)
        return [Rank(*rank_by(own, catalogue.items.choices, excluded, slot)) for own in scores]

    def predict(
        self,
        user: str | None,
        item: str,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> float:
        """The score of one item for a user in a context, whether it is available or not."""
        slot = self._slot(item)
        request = self._request(user, context, time, attributes, False)
        return self._shared.scorer.score(request, slot, self._clock.events)

    def explain(
        self,
        user: str | None,
        item: str,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Explanation:
        """The linear and pairwise terms of the score of an item for a user in a context.

        The score has the digits that `recommend` and `predict` give it; the terms add up to it but for float32's rounding.
        An item that is not available is explained as well; `is_available` says whether it is.
        There are at most 1,000: where features make more, those of a field go together, and what is lightest is one term.
        """
        return explained(self.addends(user, item, context=context, time=time, attributes=attributes))

    def addends(
        self,
        user: str | None,
        item: str,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Addends:
        """What `explain` explains, in copies: terms can be made of it in another thread, whatever is learned meanwhile."""
        slot = self._slot(item)
        request = self._request(user, context, time, attributes, False)
        score = self._shared.scorer.score(request, slot, self._clock.events)
        return self.addends_batch(request, [Recommendation(item, score)])[0]

    def addends_batch(self, request: EncodedRequest, items: Iterable[Recommendation]) -> list[Addends]:
        """The same for all `items` that were recommended for a `request`."""
        shared, features = self._shared, len(request.x.column)
        machine, own = shared.machine, side_of(shared.machine, request.x)
        gathered = []
        for item, score in items:
            x = shared.catalogue.features(self._slot(item), self._clock.events, request.history)
            features += len(x.column)
            if features > MOST_EXPLAINED:
                message = f"the items to explain have more than {MOST_EXPLAINED} features together, got {features}"
                raise InvalidInput(f"{message} by item {item!r}; explain fewer of them in one call")
            side = side_of(machine, x)
            gathered.append(Addends(score, float(machine.parameters.theta.w0[0]), machine.hyperparameters.pairs, own, side))
        return gathered

    def _request(
        self,
        user: str | None,
        context: Mapping[str, Any] | None,
        time: float | datetime | None,
        attributes: Mapping[str, Any] | None,
        exclude_seen: bool | None,
        visitor: UserState | None = None,
    ) -> EncodedRequest:
        state = self._users.of(None if user is None else checked_id("user", user)) if visitor is None else visitor
        given = {} if context is None else checked_names("context", context)
        if attributes is not None:
            checked_names(f"user {user!r}", attributes)
        if not isinstance(exclude_seen, bool | None):
            raise InvalidInput(f"exclude_seen must be true, false or left out, got {shown(exclude_seen)}")
        moment = checked_time(time)
        x = self._users.request(state, user or "", given, moment, attributes)
        exclude = self.schema.exclude_seen if exclude_seen is None else exclude_seen
        unavailable = self._unavailable(moment)
        return EncodedRequest(x, self._users.history(state), exclude_seen=exclude, excluded=unavailable)

    def _visitor(self, user: str | None, history: Iterable[str]) -> UserState:
        """Somebody without a user, who had these items; unknown ones count for nothing."""
        if user is not None:
            message = f"history must be left out for a user, got it for {shown(user)}, whose past is known"
            error = InvalidInput(f"{message}; leave out one of the two")
            error.field = "history"
            raise error
        return self._users.visitor(self._shared.catalogue.slots(checked_ids("history", history)))
