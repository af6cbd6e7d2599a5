"""The whole path on one page: put, train, recommend, learn, explain, forget, save."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.arguments import checked_count, checked_event, checked_events, checked_items, checked_pairs
from coldstream.arrays import Doubles, Flags, Integers, Longs, frozen, plain
from coldstream.bounds import Bounds
from coldstream.catalogue.slot_table import Place
from coldstream.config import Hyperparameters
from coldstream.errors import InvalidInput, InvalidSnapshot, UnknownId, shown
from coldstream.events.availability import Availability
from coldstream.events.clock import Clock
from coldstream.events.event import Event, checked_id, checked_names, checked_time
from coldstream.eviction import evict, is_due, settle
from coldstream.exchange import Changes, Exchange, adopt, refuse_bounds
from coldstream.features.encoder import ItemMemo
from coldstream.features.fields import Field
from coldstream.features.history import Features
from coldstream.features.schema import Schema, extended, with_fields
from coldstream.features.vocabulary import Vocabulary
from coldstream.frames import Request, events_of, frame_of, is_frame, items_of, requests_of, users_of
from coldstream.garbage import collection_paused
from coldstream.increments import is_increment
from coldstream.inspection import Inspection
from coldstream.learning import Elsewhere, learn_all, learn_one, learn_or_observe, learn_own, observe_all, observe_one
from coldstream.memory import Memory, memory_of
from coldstream.model.explanation import Addends, Explanation, explained, side_of
from coldstream.model.factorization_machine import checked_seed, resolve_hyperparameters
from coldstream.model.renewal import RENEWED
from coldstream.scoring.filters import Predicate, excluded_slots
from coldstream.scoring.ranking import Rank, rank_by
from coldstream.scoring.requests import EncodedRequest
from coldstream.shared_model import DescribedItem, SharedModel, parts_of
from coldstream.snapshot import NOT_WHAT_IT_SHOULD_BE, read_snapshot, write_snapshot
from coldstream.training import train
from coldstream.user_states import UserState, UserStates

MOST_EXPLAINED = 25_000
"""Features that a call to `addends_batch` copies at most: everybody waits meanwhile."""

MOST_AT_ONCE = 64
"""Requests that are scored together: beyond a few dozen nothing is gained, and all their scores are in memory at once."""

BOUNDS = Bounds()
"""Those of a recommender that is not told any."""

NO_FIELDS: Mapping[str, Field] = MappingProxyType({})
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


class Recommender:
    """Recommends items to users in a context, and learns from every event the moment it happens.

    It is made from a `schema` and a `preset` with some `hyperparameters` changed; the `seed` is what all its random numbers
    follow from, and `bounds` limit what is learned and remembered. Whatever raises a `ColdstreamError` has changed nothing.
    Reading (`recommend`, `rank`, `predict`, `explain`) never changes anything: they take the `context` of a request, its
    `time`, and `attributes` that stand in for what was never put of the user, or take precedence in this call.
    """

    def __init__(
        self,
        schema: Schema,
        preset: str | Hyperparameters = "default",
        seed: int = 0,
        bounds: Bounds = BOUNDS,
        **hyperparameters: Any,
    ) -> None:
        if not isinstance(schema, Schema):
            raise InvalidInput(f"schema must be a Schema, got {shown(schema)}; use Schema.from_toml(path)")
        if not isinstance(bounds, Bounds):
            raise InvalidInput(f"bounds must be Bounds, got {shown(bounds)}; use Bounds(memory='2 GiB')")
        resolved = resolve_hyperparameters(preset, **hyperparameters)
        completed = schema.completed(resolved.history, resolved.trends, resolved.neighbours)
        self._shared = SharedModel(completed, resolved, checked_seed(seed), Vocabulary(), bounds)
        self._users = UserStates(self._shared.encoder, self._shared.catalogue)
        self._clock = Clock()
        self._users.follow(bounds, self._clock)

    def __repr__(self) -> str:
        size, h = self.size, self.hyperparameters
        known = f"{size.items:,} items, {size.users:,} users, {size.features:,} features, {self.events:,} events"
        return f"<Recommender: {known}; loss={h.loss!r}, factors={h.factors}, seed={self.seed}>"

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

    # Step 0: users, items and context variables come, change and go

    def put_user(self, user: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Add a user, or give one other attributes. What was learned of the id stays."""
        self.put_users([(user, attributes)])

    def put_users(
        self, users: Iterable[tuple[str, Mapping[str, Any] | None]] | Any, columns: Mapping[str, str] | None = None
    ) -> None:
        """Add many users, or give them other attributes: pairs of id and attributes. All are taken, or none.

        Or a data frame with a column `user` and others for attributes, where `columns` says what it calls them.
        """
        if is_frame(users):
            users = users_of(users, self.schema, columns)
        with collection_paused():
            described = [(user, *self._described_user(user, given)) for user, given in checked_pairs("users", users)]
            for user, given, features in described:
                self._shared.admit(features)
                self._users.put(user, {name: frozen(raw) for name, raw in given.items()}, features)
                self._users.note_put(user, self._clock)
                if self._is_due():
                    self._shared.start(self._clock)
                    self._evict()
            self._shared.start(self._clock)

    def put_item(
        self,
        item: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        available_from: float | datetime | None = None,
        available_until: float | datetime | None = None,
        hidden: bool = False,
    ) -> None:
        """Add an item, or give one other attributes: a price changes. What was learned of the id stays.

        It may be recommended from `available_from` on and until `available_until`, where these are given, and not while it
        is `hidden`. A put says all of it: what it leaves out is as if it had never been said.
        """
        availability = Availability.of(item, available_from, available_until, hidden)
        self._put_items([self._described_item(item, attributes, availability, {})])

    def put_items(
        self,
        items: Iterable[tuple[str, Mapping[str, Any] | None] | tuple[str, Mapping[str, Any] | None, Availability | None]]
        | Any,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        """Add many items, or give them other attributes: pairs of id and attributes. All are taken, or none.

        A third part of a pair is its `Availability`. Or a data frame with a column `item` and others for attributes,
        `available_from`, `available_until` and `hidden`, where `columns` says what it calls them.
        """
        if is_frame(items):
            items = items_of(items, self.schema, columns)
        memo: ItemMemo = {}
        with collection_paused():
            described = [self._described_item(*one, memo) for one in checked_items(items)]
            self._put_items(described)

    def _put_items(self, described: Sequence[DescribedItem]) -> None:
        self._shared.put_items(described, self._clock, self._is_due, self._evict)

    def _is_due(self) -> bool:
        return is_due(self._shared, self._users, self._clock, self._clock)

    def _evict(self) -> None:
        evict(self._shared, self._users, self._clock, self._clock)
        self._shared.commit()

    def remove_item(self, item: str) -> None:
        """Take an item out of the catalogue and forget what was learned of its id."""
        if not self.has_item(checked_id("item", item)):
            raise UnknownId(f"item {item!r} is not in the catalogue; there is nothing to remove")
        self._shared.remove_item(item, self._clock)

    def forget_user(self, user: str) -> None:
        """Forget a user: attributes, history and everything learned of the id. What others share stays learned."""
        if not self.has_user(checked_id("user", user)):
            raise UnknownId(f"user {user!r} is not known; there is nothing to forget")
        self._users.forget(user)
        self._shared.release("user", user)

    def names_of(self, columns: Iterable[int]) -> list[tuple[str, str]]:
        """The fields and values that `columns` stand for; those that stand for nothing are left out."""
        vocabulary = self._shared.encoder.vocabulary
        return [name for column in columns if (name := vocabulary.owner_or_none(column)) is not None]

    def release_named(self, names: Iterable[tuple[str, str]]) -> None:
        """The same as `release_values`, by the `names` of features that `names_of` gives; some may not be known here."""
        vocabulary = self._shared.encoder.vocabulary
        numbers = [(vocabulary.field(field), value) for field, value in names]
        found = [vocabulary.find(field, value) for field, value in numbers if field is not None]
        self._shared.release_values(column for column in found if column is not None)

    def release_values(self, columns: Iterable[int]) -> None:
        """Forget values of users' attributes and of contexts, by their `columns`, and what was learned of them."""
        self._shared.release_values(columns)

    def add_context(self, *fields: Field) -> None:
        """Declare context fields in mid-stream."""
        self._take_schema(self.schema.with_context(*fields))

    def add_fields(self, fields: Mapping[str, Sequence[Field]]) -> None:
        """Declare `fields` in mid-stream, by side: an attribute of items, of users, or of the context.

        A field that is there already stays; declared otherwise, or of a kind that counts from the first event on, it is
        refused.
        """
        self._take_schema(self.check_fields(fields))

    def extend(self, schema: Schema) -> None:
        """Take up the fields that a schema declares beyond those in use, and whether its context is open.

        Fields in use stay; one that is declared otherwise, or a kind that counts from the first event on, is refused.
        """
        self._take_schema(self.check_extension(schema))

    def change_bounds(self, bounds: Bounds) -> None:
        """Go on within other `bounds`; what does not fit goes now."""
        if not isinstance(bounds, Bounds):
            raise InvalidInput(f"bounds must be Bounds, got {shown(bounds)}; use Bounds(memory='2 GiB')")
        self._shared.take_bounds(bounds, self._clock)
        self._users.follow(bounds, self._clock)
        self._evict()

    def _take_schema(self, schema: Schema) -> None:
        self._shared.take_schema(schema, self._clock)
        self._evict()

    # What would be refused

    def check_user(self, user: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Raise what `put_user` would raise."""
        self._described_user(user, attributes)

    def check_item(
        self,
        item: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        available_from: float | datetime | None = None,
        available_until: float | datetime | None = None,
        hidden: bool = False,
    ) -> None:
        """Raise what `put_item` would raise."""
        self._described_item(item, attributes, Availability.of(item, available_from, available_until, hidden), {})

    def check_extension(self, schema: Schema) -> Schema:
        """The schema that `extend` would lead to; raises what it would raise."""
        own = self.hyperparameters
        return extended(self.schema, schema.completed(own.history, own.trends, own.neighbours))

    def check_fields(self, fields: Mapping[str, Sequence[Field]]) -> Schema:
        """The schema that `add_fields` would lead to; raises what it would raise."""
        return with_fields(self.schema, _checked_fields(fields))

    def check_event(self, event: Event, coming: Mapping[str, Field] = NO_FIELDS) -> dict[str, Field]:
        """The context fields that an event would admit, after others that are coming; raises what `learn` would refuse."""
        return self._shared.encoder.admissible(checked_event(event).context, coming)

    # Step 1: batch training

    def train(
        self, events: Iterable[Event] | Any, epochs: int | None = None, columns: Mapping[str, str] | None = None
    ) -> None:
        """Learn from past events, given in order of time, in as many reshuffled passes as there are `epochs`.

        Histories, what users had, and items' trends and neighbours are then as if the events had been learned one by one.
        The events may be a data frame, as in `learn`.
        """
        if is_frame(events):
            events = events_of(events, self.schema, columns)
        epochs = self.hyperparameters.epochs if epochs is None else checked_count("epochs", epochs)
        given = checked_events(events)
        if not given:
            return
        saved = self.state()
        try:
            before, self._clock = self._clock, train(self._shared, self._users, given, epochs, self._clock)
            settle(self._shared, self._users, before, self._clock)
        except BaseException:
            self._restore(*saved)
            raise

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

    # Step 3: learn

    def learn(
        self,
        events: Event | Iterable[Event] | Any,
        *,
        position: int | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        """Learn from an event, now; or from many, in their order. What is new about them is admitted on the way.

        The position is that of the event in a log; without one, events are numbered as they come. What is drawn for an
        event depends on it, so a log that is replayed leads to the same bits. Of many events, all are learned or none.

        Many events may be a data frame of pandas, polars or Arrow: columns `user`, `item`, perhaps `time`, and the fields of
        the context that the schema declares. `columns` says what the frame calls them, {"user": "customer_id"}, and names
        fields of the context that are not declared. Other columns are not read.
        """
        if is_frame(events):
            events = events_of(events, self.schema, columns)
        if isinstance(events, Event):
            clock = self._clock.at(self._checked_position(position))
            self._clock = learn_one(self._shared, self._users, events, clock)
        elif position is not None:
            raise InvalidInput(f"position must be left out for many events, got {shown(position)}; use replay for a log")
        else:
            self._learn_many(events)

    def observe(self, event: Event, *, position: int | None = None) -> None:
        """Remember an event without learning from it: it is part of the user's past, and the parameters stay.

        The `position` is that of `learn`.
        """
        clock = self._clock.at(self._checked_position(position))
        self._clock = observe_one(self._shared, self._users, checked_event(event), clock)

    def replay(self, events: Sequence[tuple[int, Event]]) -> list[Place]:
        """Learn `events` of a log, each with its position; one whose update diverges is observed, as when it came.

        Where the item of each was kept.
        """
        coming, last = dict[str, Field](), self._clock.position
        for position, event in events:
            if checked_event(event).context:
                coming |= self.check_event(event, coming)
            if type(position) is not int or not last < position < 2**62:
                raise InvalidInput(f"position must be a whole number beyond {last} and below 2**62, got {shown(position)}")
            last = position
        with collection_paused():
            self._clock, places = learn_or_observe(self._shared, self._users, events, self._clock)
        return places

    # Step 3 by several learners, each with users of its own

    def exchange(self, learner: int, learners: int) -> Exchange:
        """What this recommender tells others, as number `learner` of several `learners` of one stream."""
        return Exchange(self._shared, self._users, learner, learners)

    def check_learners(self, learners: int) -> None:
        """Raise what `exchange` would raise of so many `learners`."""
        if learners > 1:
            refuse_bounds(self._shared)

    def replay_own(self, lines: Sequence[tuple[int, Event | Elsewhere]], slots: list[int]) -> None:
        """Learn events of a log, each with its position, and count those of users who belong to others.

        The `lines` are part of a batch: `slots` has those of the items of its events before, and gets those of these.
        """
        with collection_paused():
            self._clock = learn_own(self._shared, self._users, lines, slots, self._clock)

    def replay_observed(self, events: Sequence[tuple[int, Event]]) -> list[Place]:
        """Observe `events` of a log, which others learn, each with its position. Where the item of each was kept."""
        with collection_paused():
            self._clock, places = observe_all(self._shared, self._users, events, self._clock)
        return places

    def merge(self, exchange: Exchange, changes: Sequence[Changes]) -> int:
        """Take up the `changes` of all learners of an `exchange`; how many rows of parameters that were."""
        return exchange.merge(changes, self._clock)

    def adopt(self, changes: Sequence[Changes]) -> None:
        """Take over `changes` that others have merged; what was learned here since is lost."""
        adopt(self._shared, changes, self._clock)

    def _learn_many(self, events: Iterable[Event]) -> None:
        given = checked_events(events)
        coming: dict[str, Field] = {}
        for event in given:
            if event.context:
                coming |= self.check_event(event, coming)
        # Items that had to go cannot be taken back one by one.
        saved = self.state() if self._shared.may_lose_items else None
        try:
            with collection_paused():
                self._clock = learn_all(self._shared, self._users, given, self._clock)
        except BaseException:
            if saved is not None:
                self._restore(*saved)
            raise

    def _checked_position(self, position: int | None) -> int | None:
        if position is not None and (isinstance(position, bool) or not isinstance(position, int) or position >= 2**62):
            raise InvalidInput(f"position must be a whole number below 2**62, got {shown(position)}")
        if position is not None and position <= self._clock.position:
            message = f"position must be beyond the last one, {self._clock.position}, got {position}"
            raise InvalidInput(f"{message}; a log is learned in its order, and every line once")
        return position

    # What survives

    def save(self, path: str | Path) -> None:
        """Write everything to a file at `path`. Loaded again, it goes on with the same bits as if it had never stopped."""
        write_snapshot(path, *self.state())

    @classmethod
    def load(cls, path: str | Path) -> "Recommender":
        """The recommender that `save` wrote to `path`."""
        document, arrays = read_snapshot(path)
        if document.get("machine"):
            raise InvalidSnapshot(
                f"snapshot {str(path)!r} holds a FactorizationMachine; load it with FactorizationMachine.load"
            )
        if is_increment((document, arrays)):
            message = f"snapshot {str(path)!r} holds an increment of a service, not everything"
            raise InvalidSnapshot(f"{message}; load a full one, or what save() wrote")
        try:
            return cls.from_state(document, arrays)
        except InvalidSnapshot as error:
            raise InvalidSnapshot(f"snapshot {str(path)!r}: {error}") from error

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything, as one JSON document and named arrays. Equal states behave equally for ever after."""
        document, arrays = self._shared.state()
        document |= {"events": self._clock.events, "position": self._clock.position, "time": self._clock.time}
        return document, arrays | {f"users.{name}": array for name, array in self._users.state().items()}

    @classmethod
    def from_state(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "Recommender":
        """The inverse of `state`."""
        recommender = cls.__new__(cls)
        try:
            recommender._restore(document, arrays)
        except NOT_WHAT_IT_SHOULD_BE as error:
            raise InvalidSnapshot(f"this does not hold a recommender ({error!r}); use an older one") from error
        return recommender

    def _restore(self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        parts = parts_of(arrays, "model", "vocabulary", "catalogue", "users", "usage", "item_usage", "admissions")
        shared = SharedModel.from_state(document, parts)
        users = UserStates(shared.encoder, shared.catalogue)
        time = document.get("time")
        clock = Clock(int(document["position"]), int(document["events"]), None if time is None else float(time))
        users.follow(shared.bounds, clock)
        users.restore(parts["users"])
        users.epoch = clock.position
        if (parts["catalogue"]["counted_at"] > clock.events).any():
            raise ValueError("a trend has a clock of the future")
        self._shared, self._users, self._clock = shared, users, clock

    def _described_user(self, user: str, attributes: Mapping[str, Any] | None) -> tuple[Mapping[str, Any], Features]:
        given = checked_names(f"user {checked_id('user', user)!r}", {} if attributes is None else attributes)
        return given, self._shared.encoder.describe_user(user, given)

    def _described_item(
        self, item: str, attributes: Mapping[str, Any] | None, availability: Availability, memo: ItemMemo
    ) -> DescribedItem:
        checked_id("item", item)
        if attributes is None:
            return DescribedItem(item, {}, (), availability)
        if type(attributes) is not dict:
            checked_names(f"item {item!r}", attributes)
        if not attributes:
            return DescribedItem(item, {}, (), availability)
        described = self._shared.encoder.describe_item(item, attributes, memo)
        return DescribedItem(item, {name: frozen(raw) for name, raw in attributes.items()}, described, availability)

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


def _checked_fields(given: object) -> Mapping[str, Sequence[Field]]:
    """Lists of fields by side."""
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f'fields must be lists of fields by side, got {shown(given)}; write {{"item": [Category("brand")]}}'
        )
    for side, fields in given.items():
        if not isinstance(fields, list | tuple) or not all(isinstance(field, Field) for field in fields):
            raise InvalidInput(
                f'fields of {shown(side)} must be a list of fields, got {shown(fields)}; write [Category("brand")]'
            )
    return given
