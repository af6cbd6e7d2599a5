"""What can be asked of what is known: recommend, rank, predict, explain. Nothing here changes anything."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from coldstream.arguments import checked_count
from coldstream.arrays import Doubles, Flags, Integers, Longs, plain
from coldstream.bounds import Bounds
from coldstream.catalogue.slot_table import Place
from coldstream.config import Hyperparameters
from coldstream.errors import InvalidInput, UnknownId, shown
from coldstream.events.availability import Availability
from coldstream.events.clock import Clock
from coldstream.events.event import checked_id, checked_names, checked_time
from coldstream.features.schema import Schema
from coldstream.inspection import Inspection
from coldstream.memory import Memory, memory_of
from coldstream.model.explanation import Addends, Explanation, explained, side_of
from coldstream.model.renewal import RENEWED
from coldstream.scoring.filters import Predicate, excluded_slots
from coldstream.scoring.ranking import Rank, rank_by
from coldstream.scoring.requests import EncodedRequest
from coldstream.shared_model import SharedModel
from coldstream.user_states import UserState, UserStates

MOST_EXPLAINED = 25_000
"""Features that a call to `addends_batch` copies at most: everybody waits meanwhile."""

_NO_SLOTS: Integers = np.zeros(0, np.int32)


class Recommendation(NamedTuple):
    """An item and its score for one request."""

    item: str
    score: float


# What Recommendation(item, score) does, without a call into Python for each: a list is made for every request.
_recommendation = partial(tuple.__new__, Recommendation)


class Size(NamedTuple):
    """How many items, users and features are known."""

    items: int
    users: int
    features: int
    arrivals: int
    """Items that ever came."""


class Reader:
    """What a recommender knows, as far as it can be asked.

    Reading (`recommend`, `rank`, `predict`, `explain`) never changes anything: they take the `context` of a request, its
    `time`, and `attributes` that stand in for what was never put of the user, or take precedence in this call.
    """

    _shared: SharedModel
    _users: UserStates
    _clock: Clock

    # What is known

    @property
    def schema(self) -> Schema:
        """The fields in use: those declared, those the preset added, and context fields admitted on the way."""
        return self._shared.encoder.schema

    @property
    def hyperparameters(self) -> Hyperparameters:
        """All hyperparameters in use."""
        return self._shared.hyperparameters

    @property
    def bounds(self) -> Bounds:
        """All bounds in use, but for those of fields, which the schema has."""
        return self._shared.bounds

    @property
    def seed(self) -> int:
        """The seed that every random number follows from."""
        return self._shared.machine.seed

    @property
    def events(self) -> int:
        """How many events there were: learned, or observed."""
        return self._clock.events

    @property
    def position(self) -> int:
        """The position in the log of the last event, or its number where there is no log."""
        return self._clock.position

    @property
    def renewed_at(self) -> int | None:
        """The position of the event at which choices had become so surprising that AdaGrad's sums began anew, if ever."""
        after = int(self._shared.machine.parameters.optimizer.surprise[RENEWED])
        return after - 1 if after else None

    @property
    def size(self) -> Size:
        """How much is known."""
        catalogue, vocabulary = self._shared.catalogue, self._shared.encoder.vocabulary
        return Size(len(catalogue), len(self._users), vocabulary.features(), catalogue.arrivals)

    @property
    def memory(self) -> Memory:
        """What all of it weighs, by what it is; and what had to be left out or to go."""
        return memory_of(self._shared, self._users)

    def items(self) -> list[str]:
        """The ids of all items, in order of registration."""
        return self._shared.catalogue.registered()

    def users(self) -> list[str]:
        """The ids of all users, in order of registration."""
        return list(self._users)

    def item(self, item: str) -> dict[str, Any]:
        """An item's attributes as they were put."""
        return {name: plain(raw) for name, raw in self._shared.catalogue.attributes[self._slot(item)].items()}

    def availability(self, item: str) -> Availability:
        """When an item may be recommended, as it was put."""
        return self._shared.catalogue.windows.of(self._slot(item))

    def is_available(self, item: str, time: float | datetime | None = None) -> bool:
        """Whether `recommend` could return an item at a `time`; without one, at the time of the stream."""
        slot, excluded = self._slot(item), self._unavailable(checked_time(time))
        return not len(excluded) or not excluded[slot]

    def user(self, user: str) -> dict[str, Any]:
        """A user's attributes as they were put."""
        return {name: plain(raw) for name, raw in self._user(user).attributes.items()}

    def place(self, item: str) -> Place:
        """Where an item is kept, also if it went lately."""
        catalogue = self._shared.catalogue
        found = catalogue.slots([checked_id("item", item)])
        slot = found[0] if found else self._slot(item)
        return catalogue.place(slot)

    def arrivals_by_place(self) -> Longs:
        """By place, which of all arrivals the item was that is kept there; to be read only."""
        return self._shared.catalogue.arrivals_by_slot()

    def has_item(self, item: str) -> bool:
        """Whether an item is in the catalogue."""
        return item in self._shared.catalogue

    def has_user(self, user: str) -> bool:
        """Whether anything is known of a user."""
        return user in self._users

    def has_past(self, user: str) -> bool:
        """Whether a user ever chose anything."""
        return user in self._users and len(self._users[user].seen.slots()) > 0

    @property
    def inspection(self) -> Inspection:
        """A closer look at what was learned: features by name, which are alike, which have changed."""
        return Inspection(self._shared, self._users, self._clock.events)

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
    ) -> list[Recommendation]:
        """The best n items for a user in a context, best first.

        The user may be unknown, or None. What the user had is left out if `exclude_seen` says so, or else the schema. Of the
        items, `allow` names those that may come back, `deny` those that may not, and `where` asks for attributes: a mapping
        from field to a value, or to a list of values of which an item must have one; or a function of an item's attributes.
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
        )
        return self.recommend_batch([request])[0]

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
    ) -> EncodedRequest:
        """What `recommend` would answer, checked and encoded, for `recommend_batch`. It holds until anything changes."""
        n = checked_count("n", n)
        request = self._request(user, context, time, attributes, exclude_seen)
        if not (allow is None and deny is None and where is None):
            excluded = excluded_slots(self._shared.catalogue, self._shared.encoder, allow, deny, where)
            if len(request.excluded):
                excluded |= request.excluded
            return request._replace(n=n, excluded=excluded)
        return request._replace(n=n)

    def recommend_batch(self, requests: Sequence[EncodedRequest]) -> list[list[Recommendation]]:
        """What `recommend` answers to each of several requests; items' vectors are read once for all of them."""
        if not requests:
            return []
        name = self._shared.catalogue.ids.__getitem__
        return [
            [_recommendation((name(slot), score)) for slot, score in best]
            for best in self._shared.scorer.top(requests, self._clock.events)
        ]

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

    def _slot(self, item: str) -> int:
        if not isinstance(item, str) or item not in self._shared.catalogue:
            checked_id("item", item)
            raise UnknownId(f"item {item!r} is not in the catalogue; put_item({item!r}, …) first")
        return self._shared.catalogue.slot(item)

    def _user(self, user: str) -> UserState:
        if not isinstance(user, str) or user not in self._users:
            checked_id("user", user)
            raise UnknownId(f"user {user!r} is not known; put_user({user!r}, …) first")
        return self._users[user]

    def _request(
        self,
        user: str | None,
        context: Mapping[str, Any] | None,
        time: float | datetime | None,
        attributes: Mapping[str, Any] | None,
        exclude_seen: bool | None,
    ) -> EncodedRequest:
        state = self._users.of(None if user is None else checked_id("user", user))
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

    def _unavailable(self, time: float | None) -> Flags:
        """Per slot, whether its item may not be recommended at a time; empty where all may."""
        catalogue = self._shared.catalogue
        return catalogue.windows.excluded(self._clock.moment(time), len(catalogue.ids))
