"""The whole path on one page: put, train, recommend, learn, explain, forget, save."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import Doubles, Integers, frozen, plain
from coldstream.catalogue.filters import NOTHING_BARRED, Predicate, barred_slots
from coldstream.catalogue.ranking import Rank
from coldstream.config import Hyperparameters
from coldstream.crowd import Prepared, best_of_all
from coldstream.errors import InvalidInput, InvalidSnapshot, UnknownId, shown
from coldstream.events.event import Event, checked_id, checked_names, checked_time
from coldstream.features.fields import Field
from coldstream.features.history import Features
from coldstream.features.schema import Schema, extended
from coldstream.features.sparse import Sparse
from coldstream.features.users import User
from coldstream.features.vocabulary import Vocabulary
from coldstream.insight import Insight
from coldstream.knowledge import NOBODY, Knowledge
from coldstream.model.explanation import Explanation, explained
from coldstream.model.factorization_machine import checked_seed, chosen
from coldstream.snapshot import NOT_WHAT_IT_SHOULD_BE, read_snapshot, write_snapshot

NO_FIELDS: Mapping[str, Field] = MappingProxyType({})


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

    Whatever raises a `ColdstreamError` has changed nothing. Reading (`recommend`, `rank`, `predict`, `explain`) never
    changes anything.
    """

    def __init__(
        self, schema: Schema, preset: str | Hyperparameters = "default", seed: int = 0, **hyperparameters: Any
    ) -> None:
        if not isinstance(schema, Schema):
            raise InvalidInput(f"schema must be a Schema, got {shown(schema)}; use Schema.from_toml(path)")
        settled = chosen(preset, **hyperparameters)
        completed = schema.completed(settled.history, settled.trends, settled.neighbours)
        self._known = Knowledge(completed, settled, checked_seed(seed), Vocabulary())

    # What is known

    @property
    def schema(self) -> Schema:
        """The schema in use: as given, completed by the preset, and with the context fields admitted since."""
        return self._known.encoder.schema

    @property
    def hyperparameters(self) -> Hyperparameters:
        """All hyperparameters in use."""
        return self._known.hyperparameters

    @property
    def seed(self) -> int:
        """The seed that every random number follows from."""
        return self._known.machine.seed

    @property
    def events(self) -> int:
        """How many events there were: learned, or observed."""
        return self._known.events

    @property
    def size(self) -> Size:
        """How much is known."""
        known = self._known
        return Size(len(known.catalogue), len(known.users), known.encoder.vocabulary.features(), known.catalogue.births)

    def items(self) -> list[str]:
        """The ids of all items, in order of registration."""
        live, born = self._known.catalogue.items.live, self._known.catalogue.items.born
        return [self._known.catalogue.ids[slot] for slot in live[np.argsort(born[live])]]

    def users(self) -> list[str]:
        """The ids of all users, in order of registration."""
        return list(self._known.users)

    def item(self, item: str) -> dict[str, Any]:
        """An item's attributes as they were put."""
        return {name: plain(raw) for name, raw in self._known.catalogue.attributes[self._slot(item)].items()}

    def user(self, user: str) -> dict[str, Any]:
        """A user's attributes as they were put."""
        return {name: plain(raw) for name, raw in self._user(user).attributes.items()}

    def place(self, item: str) -> int:
        """The number of an item, from 0 in the order of first registration. An id keeps its number for ever."""
        return self._slot(item)

    def places(self) -> int:
        """How many numbers `place` has given out."""
        return len(self._known.catalogue.ids)

    def has_item(self, item: str) -> bool:
        """Whether an item is in the catalogue."""
        return item in self._known.catalogue

    def has_user(self, user: str) -> bool:
        """Whether anything is known of a user."""
        return user in self._known.users

    def has_past(self, user: str) -> bool:
        """Whether a user ever chose anything."""
        return user in self._known.users and len(self._known.users[user].seen.slots()) > 0

    @property
    def insight(self) -> Insight:
        """A closer look at what was learned: features by name, which are alike, which have changed."""
        return Insight(self._known)

    # Step 0: users, items and context variables come, change and go

    def put_user(self, user: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Add a user, or give one other attributes. What was learned of the id stays."""
        given, features = self._described_user(user, attributes)
        self._known.put_user(user, {name: frozen(raw) for name, raw in given.items()}, features)

    def put_item(self, item: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Add an item, or give one other attributes: a price changes. What was learned of the id stays."""
        given, features = self._described_item(item, attributes)
        self._known.put_item(item, {name: frozen(raw) for name, raw in given.items()}, features)

    def remove_item(self, item: str) -> None:
        """Take an item out of the catalogue and forget what was learned of its id."""
        self._slot(item)
        self._known.remove_item(item)

    def forget_user(self, user: str) -> None:
        """Forget a user: attributes, history and everything learned of the id. What others share stays learned."""
        self._user(user)
        self._known.forget_user(user)

    def add_context(self, *fields: Field) -> None:
        """Declare context fields in mid-stream."""
        self._known.add_context(fields)

    def extend(self, schema: Schema) -> None:
        """Take up the fields that a schema declares beyond those in use, and whether its context is open.

        Fields in use stay; one that is declared otherwise, or a kind that counts from the first event on, is refused.
        """
        self._known.take_schema(self.check_extension(schema))

    # What would be refused

    def check_user(self, user: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Raise what `put_user` would raise."""
        self._described_user(user, attributes)

    def check_item(self, item: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Raise what `put_item` would raise."""
        self._described_item(item, attributes)

    def check_extension(self, schema: Schema) -> Schema:
        """The schema that `extend` would lead to; raises what it would raise."""
        settled = self.hyperparameters
        return extended(self.schema, schema.completed(settled.history, settled.trends, settled.neighbours))

    def check_event(self, event: Event, coming: Mapping[str, Field] = NO_FIELDS) -> dict[str, Field]:
        """The context fields that an event would admit, after others that are coming; raises what `learn` would refuse."""
        return self._known.encoder.admissible(_checked(event).context, coming)

    # Step 1: batch training

    def train(self, events: Iterable[Event], epochs: int | None = None) -> None:
        """Learn from past events, given in order of time, in several reshuffled passes.

        Histories, what users had, and items' trends and neighbours are then as if the events had been learned one by one.
        """
        epochs = self.hyperparameters.epochs if epochs is None else _counted("epochs", epochs)
        if not isinstance(events, Iterable):
            raise InvalidInput(f"events must be a list of events, got {shown(events)}")
        given = [_checked(event) for event in events]
        if not given:
            return
        before = self._known.state()
        try:
            self._known.train(given, epochs)
        except BaseException:
            self._known = Knowledge.from_state(*before)
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

        The user may be unknown, or None; `attributes` then stand in for what was never put, and for a known user they
        take precedence in this call. Fewer than n come back where fewer are allowed.
        """
        n = _counted("n", n)
        x, asking = self._request(user, context, time, attributes)
        catalogue, had, barred = self._known.catalogue, self._left_out(asking, exclude_seen), NOTHING_BARRED
        if not (allow is None and deny is None and where is None):
            barred = barred_slots(catalogue, self._known.encoder, had, allow, deny, where)
        own, scores = self._known.scores(x, asking)
        slots, totals = catalogue.top(scores, own, barred, had, n)
        return list(map(_recommendation, zip(map(catalogue.ids.__getitem__, slots), totals, strict=True)))

    def prepared(
        self,
        user: str | None,
        n: int,
        context: Mapping[str, Any] | None,
        time: float | datetime | None,
        attributes: Mapping[str, Any] | None,
        exclude_seen: bool | None,
    ) -> Prepared:
        """A request that is to be answered with others, before anything changes."""
        x, asking = self._request(user, context, time, attributes)
        excluded = self.schema.exclude_seen if exclude_seen is None else exclude_seen
        return Prepared(x, asking, _counted("n", n), excluded)

    def recommend_prepared(self, prepared: Sequence[Prepared]) -> list[list[tuple[str, float]]]:
        """What `recommend` answers to each of several requests, nothing having changed since they were prepared."""
        return best_of_all(self._known, prepared) if prepared else []

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
        """Where an item stands for a user: among all items, less what the user had, and itself."""
        slot = self._slot(item)
        x, asking = self._request(user, context, time, attributes)
        seen = self._left_out(asking, exclude_seen)
        barred = barred_slots(self._known.catalogue, self._known.encoder, seen, None, None, None)
        own, scores = self._known.scores(x, asking)
        return self._known.catalogue.rank(scores, own, barred, slot)

    def rank_by(self, user: str | None, item: str, *scores: Doubles) -> list[Rank]:
        """Where an item would stand for a user by other scores, each an array with a number for every `place`."""
        slot = self._slot(item)
        asking = NOBODY if user is None else self._known.users.get(checked_id("user", user), NOBODY)
        catalogue = self._known.catalogue
        barred = barred_slots(catalogue, self._known.encoder, self._left_out(asking, None), None, None, None)
        return [catalogue.rank_by(own, barred, slot) for own in scores]

    def predict(
        self,
        user: str | None,
        item: str,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> float:
        """The score of one item for a user in a context."""
        slot = self._slot(item)
        x, asking = self._request(user, context, time, attributes)
        return self._known.machine.predict(self._known.with_item(x, slot, asking))

    def explain(
        self,
        user: str | None,
        item: str,
        *,
        context: Mapping[str, Any] | None = None,
        time: float | datetime | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Explanation:
        """The linear and pairwise terms whose sum is the score of an item for a user in a context."""
        slot = self._slot(item)
        request, asking = self._request(user, context, time, attributes)
        x, machine = self._known.with_item(request, slot, asking), self._known.machine
        owners = [machine.vocabulary.owner(int(column)) for column in x.column]
        names = [f"{field}={value}" if value else field for field, value in owners]
        return explained(machine.parameters.theta, machine.rule.sign, x, names)

    # Step 3: learn

    def learn(self, event: Event) -> None:
        """Learn from one event, now. Users, items and context fields that are new are admitted on the way."""
        self._known.learn(_checked(event))

    def observe(self, event: Event) -> None:
        """Remember an event without learning from it: it is part of the user's past, and the parameters stay."""
        self._known.observe(_checked(event))

    # What survives

    def save(self, path: str | Path) -> None:
        """Write everything to a file. Loaded again, it goes on with the same bits as if it had never stopped."""
        write_snapshot(path, *self.state())

    @classmethod
    def load(cls, path: str | Path) -> "Recommender":
        """The recommender that `save` wrote."""
        document, arrays = read_snapshot(path)
        try:
            return cls.from_state(document, arrays)
        except InvalidSnapshot as error:
            raise InvalidSnapshot(f"snapshot {str(path)!r}: {error}") from error

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything, as one JSON document and named arrays. Equal states behave equally for ever after."""
        return self._known.state()

    @classmethod
    def from_state(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "Recommender":
        """The inverse of `state`."""
        recommender = cls.__new__(cls)
        try:
            recommender._known = Knowledge.from_state(document, arrays)
        except NOT_WHAT_IT_SHOULD_BE as error:
            raise InvalidSnapshot(f"this does not hold a recommender ({error!r}); use an older one") from error
        return recommender

    def _described_user(self, user: str, attributes: Mapping[str, Any] | None) -> tuple[Mapping[str, Any], Features]:
        given = checked_names(f"user {checked_id('user', user)!r}", {} if attributes is None else attributes)
        return given, self._known.encoder.describe_user(user, given)

    def _described_item(self, item: str, attributes: Mapping[str, Any] | None) -> tuple[Mapping[str, Any], Features]:
        given = checked_names(f"item {checked_id('item', item)!r}", {} if attributes is None else attributes)
        return given, self._known.encoder.describe_item(item, given)

    def _slot(self, item: str) -> int:
        if not isinstance(item, str) or item not in self._known.catalogue:
            checked_id("item", item)
            raise UnknownId(f"item {item!r} is not in the catalogue; put_item({item!r}, …) first")
        return self._known.catalogue.slot(item)

    def _user(self, user: str) -> User:
        if not isinstance(user, str) or user not in self._known.users:
            checked_id("user", user)
            raise UnknownId(f"user {user!r} is not known; put_user({user!r}, …) first")
        return self._known.users[user]

    def _left_out(self, user: User, exclude_seen: bool | None) -> Integers:
        """The slots of what the user had, where that is to be excluded."""
        if not isinstance(exclude_seen, bool | None):
            raise InvalidInput(f"exclude_seen must be true, false or left out, got {shown(exclude_seen)}")
        excluded = self.schema.exclude_seen if exclude_seen is None else exclude_seen
        return user.seen.slots() if excluded else NOBODY.seen.slots()

    def _request(
        self,
        user: str | None,
        context: Mapping[str, Any] | None,
        time: float | datetime | None,
        attributes: Mapping[str, Any] | None,
    ) -> tuple[Sparse, User]:
        asking = NOBODY if user is None else self._known.users.get(checked_id("user", user), NOBODY)
        given = {} if context is None else checked_names("context", context)
        if attributes is not None:
            checked_names(f"user {user!r}", attributes)
        return self._known.request(asking, user or "", given, checked_time(time), attributes), asking


def _checked(event: object) -> Event:
    if not isinstance(event, Event):
        raise InvalidInput(f"event must be an Event, got {shown(event)}; write Event(user=…, item=…)")
    return event


def _counted(what: str, value: object) -> int:
    if type(value) is int and value > 0:
        return value
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidInput(f"{what} must be a whole number of 1 or more, got {shown(value)}")
    return number
