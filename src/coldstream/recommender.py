"""The whole path on one page: put, recommend, learn, explain, forget."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import Flags, Floats
from coldstream.catalogue.catalogue import Catalogue, trends_of
from coldstream.catalogue.filters import Predicate, barred_slots
from coldstream.catalogue.kernels import Draws, learn_epoch, learn_event
from coldstream.catalogue.ranking import Rank
from coldstream.config import Hyperparameters
from coldstream.errors import Diverged, InvalidInput, InvalidSnapshot, UnknownId, shown
from coldstream.events.event import Event, checked_id, checked_names, checked_time
from coldstream.features import users as registry
from coldstream.features.encoder import Encoder
from coldstream.features.fields import Field, Trend
from coldstream.features.history import Features, Past
from coldstream.features.schema import Schema
from coldstream.features.sparse import Sparse, joined
from coldstream.features.users import User
from coldstream.features.vocabulary import Vocabulary
from coldstream.model.compiled import direct
from coldstream.model.counter import key_of
from coldstream.model.explanation import Explanation, explained
from coldstream.model.factorization_machine import FactorizationMachine, checked_seed, chosen
from coldstream.model.kernels import fold
from coldstream.snapshot import read_snapshot, write_snapshot
from coldstream.training import batch_of


class Recommendation(NamedTuple):
    """An item and its score for one request."""

    item: str
    score: float


_learn_event, _fold = direct(learn_event), direct(fold)

_NOBODY = User({}, [], Past(), set())
_NO_SLOTS = np.zeros(0, np.int32)


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
        chosen_hyperparameters = chosen(preset, **hyperparameters)
        schema = schema.completed(chosen_hyperparameters.history, chosen_hyperparameters.trends)
        self._build(schema, Vocabulary(), chosen_hyperparameters, checked_seed(seed))

    def _build(self, schema: Schema, vocabulary: Vocabulary, hyperparameters: Hyperparameters, seed: int) -> None:
        self._encoder = Encoder(schema, vocabulary)
        self._machine = FactorizationMachine(hyperparameters, seed, vocabulary)
        self._machine.parameters.grow(0, len(vocabulary.fields))
        self._settle_linear_fields()
        trends = [field for field in schema.item if isinstance(field, Trend)]
        columns = [vocabulary.admit(*feature) for feature in self._encoder.trend_features()]
        self._machine.take_up()
        vocabulary.commit()
        self._catalogue = Catalogue(
            self._machine.rule.sign,
            hyperparameters.factors,
            hyperparameters.rank,
            trends_of([t.half_life for t in trends], columns, not all(t.linear for t in trends)),
        )
        self._users: dict[str, User] = {}
        self._draw_key, self._train_key = key_of(seed, "negatives"), key_of(seed, "training")
        self._events = 0

    # What is known

    @property
    def schema(self) -> Schema:
        """The schema in use: as given, completed by the preset, and with the context fields admitted since."""
        return self._encoder.schema

    @property
    def hyperparameters(self) -> Hyperparameters:
        """All hyperparameters in use."""
        return self._machine.hyperparameters

    @property
    def seed(self) -> int:
        """The seed that every random number follows from."""
        return self._machine.seed

    @property
    def events(self) -> int:
        """How many events were learned."""
        return self._events

    def items(self) -> list[str]:
        """The ids of all items, in order of registration."""
        live, born = self._catalogue.items.live, self._catalogue.items.born
        return [self._catalogue.ids[slot] for slot in live[np.argsort(born[live])]]

    def users(self) -> list[str]:
        """The ids of all users, in order of registration."""
        return list(self._users)

    def item(self, item: str) -> dict[str, Any]:
        """An item's attributes as they were put."""
        return copy.deepcopy(dict(self._catalogue.attributes[self._slot(item)]))

    def user(self, user: str) -> dict[str, Any]:
        """A user's attributes as they were put."""
        return copy.deepcopy(dict(self._user(user).attributes))

    # Step 0: users, items and context variables come, change and go

    def put_user(self, user: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Add a user, or give one other attributes."""
        given = checked_names(f"user {checked_id('user', user)!r}", {} if attributes is None else attributes)
        features = self._encoder.describe_user(user, given)
        known = self._users.get(user, _NOBODY)
        self._admit(features)
        self._encoder.vocabulary.commit()
        self._users[user] = User(copy.deepcopy(dict(given)), features, known.past, set(known.seen))

    def put_item(self, item: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Add an item, or give one other attributes: a price changes. What was learned of its id stays."""
        given = checked_names(f"item {checked_id('item', item)!r}", {} if attributes is None else attributes)
        features = self._encoder.describe_item(item, given)
        self._put_item(item, copy.deepcopy(dict(given)), features)
        self._settle()

    def remove_item(self, item: str) -> None:
        """Take an item out of the catalogue and forget what was learned of its id."""
        self._slot(item)
        place = self._catalogue.remove(item)
        feature = self._encoder.own_feature("item", item)
        if feature is not None:
            self._machine.parameters.release(self._encoder.vocabulary.release_near(*feature, place))
        self._settle()

    def forget_user(self, user: str) -> None:
        """Forget a user: attributes, history and everything learned of the id. What others share stays learned."""
        self._user(user)
        del self._users[user]
        feature = self._encoder.own_feature("user", user)
        if feature is not None:
            self._machine.parameters.release(self._encoder.vocabulary.release(*feature))

    def add_context(self, *fields: Field) -> None:
        """Declare context fields in mid-stream."""
        self._encoder.add_context(fields)
        self._machine.take_up()
        self._settle_linear_fields()
        self._encoder.vocabulary.commit()

    # Step 1: batch training

    def train(self, events: Iterable[Event], epochs: int | None = None) -> None:
        """Learn from past events, in order of time, in several reshuffled passes. λ adapts only in the stream.

        Users' histories, what they had and the items' trends are as if the events had been learned one by one.
        """
        epochs = self.hyperparameters.epochs if epochs is None else epochs
        if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
            raise InvalidInput(f"epochs must be a whole number of 1 or more, got {shown(epochs)}")
        given = [self._checked_event(event) for event in events]
        if not given:
            return
        before = self.state()
        try:
            self._train(given, epochs)
        except (Diverged, InvalidInput):
            self._restore(*before)
            raise

    def _train(self, events: Sequence[Event], epochs: int) -> None:
        contexts, slots, numbers = [], [], []
        number = {user: n for n, user in enumerate(dict.fromkeys(event.user for event in events))}
        clock = self._events
        for event in events:  # in order: a context is what was known before its event
            context, slot = self._admit_event(event)
            self._settle()
            contexts.append(context)
            slots.append(slot)
            numbers.append(number[event.user])
            self._remember(event, slot)
        seen = [self._users[user].seen if self.schema.exclude_seen else set() for user in number]
        catalogue, parameters = self._catalogue, self._machine.parameters
        args = (contexts, np.array(slots, np.int32), np.array(numbers, np.int32), seen, clock)
        batch = batch_of(catalogue.items, *args)
        parameters.make_room(self._most_touched(max(len(context.column) for context in contexts)))
        rule = self._machine.rule._replace(adapt=self.hyperparameters.regularization != "paper")
        for epoch in range(epochs):
            order = np.random.default_rng((abs(self.seed), clock, epoch)).permutation(len(events)).astype(np.int32)
            first = (clock + epoch * len(events)) if epoch else clock
            draws = Draws(self._train_key, first, self.hyperparameters.negatives)
            failed = learn_epoch(parameters.theta, parameters.memory, rule, catalogue.items, draws, batch, order)
            if failed >= 0:
                raise Diverged(self._machine.divergence(f"training on {_named(events[order[failed]])}"))
        for slot in slots:
            self._catalogue.count(slot, clock)
            clock += 1
        self._catalogue.rebuild(parameters.theta)

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
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InvalidInput(f"n must be a whole number of 1 or more, got {shown(n)}")
        x, seen = self._request(user, context, time, attributes)
        if not (self.schema.exclude_seen if exclude_seen is None else exclude_seen):
            seen = set()
        barred = barred_slots(self._catalogue, self._encoder, seen, allow, deny, where)
        scores = self._scores(x)
        ids, live = self._catalogue.ids, self._catalogue.items.live
        best = self._catalogue.top(scores, barred, n)
        return [
            Recommendation(ids[slot], score) for slot, score in zip(live[best].tolist(), scores[best].tolist(), strict=True)
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
        """Where an item stands for a user: among all items, less what the user had, and itself."""
        slot = self._slot(item)
        x, seen = self._request(user, context, time, attributes)
        if not (self.schema.exclude_seen if exclude_seen is None else exclude_seen):
            seen = set()
        barred = barred_slots(self._catalogue, self._encoder, seen, None, None, None)
        return self._catalogue.rank(self._scores(x), barred, slot)

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
        return self._machine.predict(self._sample(user, item, context, time, attributes))

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
        x = self._sample(user, item, context, time, attributes)
        owners = [self._encoder.vocabulary.owner(int(column)) for column in x.column]
        names = [f"{field}={value}" if value else field for field, value in owners]
        return explained(self._machine.parameters.theta, self._machine.rule.sign, x, names)

    # Step 3: learn

    def learn(self, event: Event) -> None:
        """Learn from one event, now. Users, items and context fields that are new are admitted on the way."""
        event = self._checked_event(event)
        schema, slots, is_new = self.schema, len(self._catalogue.ids), event.item not in self._catalogue
        x, slot = self._admit_event(event)
        user, parameters = self._users.get(event.user, _NOBODY), self._machine.parameters
        parameters.make_room(self._most_touched(len(x.column)))
        avoided = user.seen if self.schema.exclude_seen and self.hyperparameters.negatives else None
        had = np.fromiter(avoided, np.int32, len(avoided)) if avoided else _NO_SLOTS
        draws = Draws(self._draw_key, self._events, self.hyperparameters.negatives)
        args = (self._machine.rule, self._catalogue.items, draws, x, slot, had, self._events)
        if not _learn_event(parameters.theta, parameters.memory, *args):
            if is_new:
                self._catalogue.take_back(event.item, slots)
            self._machine.take_back(self._encoder.return_to(schema))
            raise Diverged(self._machine.divergence(_named(event)))
        self._catalogue.count(slot, self._events)
        self._remember(event, slot)
        self._catalogue.touch(parameters.theta, parameters.memory.touched[: parameters.memory.touches[0]])
        if self._encoder.vocabulary.fresh or is_new:
            self._settle()

    # What survives

    def save(self, path: str | Path) -> None:
        """Write everything to a file. Loaded again, it goes on with the same bits as if it had never stopped."""
        write_snapshot(path, *self.state())

    @classmethod
    def load(cls, path: str | Path) -> "Recommender":
        """The recommender that `save` wrote."""
        recommender = cls.__new__(cls)
        try:
            recommender._restore(*read_snapshot(path))
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            message = f"snapshot {str(path)!r} does not hold a recommender ({error}); use an older one"
            raise InvalidSnapshot(message) from error
        return recommender

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything, as one JSON document and named arrays. Equal states behave equally for ever after."""
        catalogue, catalogue_arrays = self._catalogue.state()
        users, user_arrays = registry.state(self._users)
        parts = {"model": self._machine.state(), "catalogue": catalogue_arrays, "users": user_arrays}
        document = {
            "schema": self.schema.document(),
            "hyperparameters": self.hyperparameters.document(),
            "seed": self.seed,
            "events": self._events,
            "vocabulary": self._encoder.vocabulary.document(),
            "catalogue": catalogue,
            "users": users,
        }
        return document, {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    def _restore(self, document: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        parts: dict[str, dict[str, NDArray[Any]]] = {"model": {}, "catalogue": {}, "users": {}}
        for name, array in arrays.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = array
        schema = Schema.from_document(document["schema"])
        hyperparameters = Hyperparameters.from_document(document["hyperparameters"])
        self._build(schema, Vocabulary.from_document(document["vocabulary"]), hyperparameters, document["seed"])
        self._machine.restore(parts["model"])
        self._catalogue.restore(self._machine.parameters.theta, document["catalogue"], parts["catalogue"])
        people = document["users"]
        records = (people["ids"], people["attributes"], registry.pasts(people), registry.seen_slots(parts["users"]))
        for name, attributes, past, seen in zip(*records, strict=True):
            self._users[name] = User(attributes, self._encoder.describe_user(name, attributes), past, seen)
        self._events = document["events"]

    # Rooms behind the page

    def _slot(self, item: str) -> int:
        if item not in self._catalogue:
            checked_id("item", item)
            raise UnknownId(f"item {item!r} is not in the catalogue; put_item({item!r}, …) first")
        return self._catalogue.slot(item)

    def _user(self, user: str) -> User:
        if user not in self._users:
            checked_id("user", user)
            raise UnknownId(f"user {user!r} is not known; put_user({user!r}, …) first")
        return self._users[user]

    def _checked_event(self, event: object) -> Event:
        if not isinstance(event, Event):
            raise InvalidInput(f"event must be an Event, got {shown(event)}; write Event(user=…, item=…)")
        if event.context:
            self._encoder.describe_context(event.context, None, Past())
        return event

    def _request(
        self,
        user: str | None,
        context: Mapping[str, Any] | None,
        time: float | datetime | None,
        attributes: Mapping[str, Any] | None,
    ) -> tuple[Sparse, set[int]]:
        """The sparse vector of a request, of known features only, and what the user already had."""
        known = _NOBODY if user is None else self._users.get(checked_id("user", user), _NOBODY)
        described: Features = known.features
        if attributes is not None:
            merged = {**known.attributes, **checked_names(f"user {user!r}", attributes)}
            described = self._encoder.describe_user(user or "", merged)
        given = {} if context is None else checked_names("context", context)
        described = described + self._encoder.describe_context(given, checked_time(time), known.past)
        return self._encoder.encode(described), known.seen

    def _sample(
        self,
        user: str | None,
        item: str,
        context: Mapping[str, Any] | None,
        time: float | datetime | None,
        attributes: Mapping[str, Any] | None,
    ) -> Sparse:
        """The whole sparse vector of a request and one item."""
        own = self._catalogue.features(self._slot(item), self._events)
        x, _ = self._request(user, context, time, attributes)
        return joined(x, own)

    def _scores(self, x: Sparse) -> Floats:
        theta = self._machine.parameters.theta
        factors = np.empty(theta.V.shape[1], np.float32)
        bias = float(theta.w0[0]) + _fold(theta, self._machine.rule.sign, x, factors)
        return self._catalogue.scores(theta, bias, factors, self._events)

    def _admit_event(self, event: Event) -> tuple[Sparse, int]:
        """The context of an event as a sparse vector, and the item's slot; whatever is new is admitted."""
        if self._encoder.admit_fields(event.context):
            self._machine.take_up()
        user = self._users.get(event.user)
        described = self._encoder.describe_user(event.user, {}) if user is None else user.features
        past = _NOBODY.past if user is None else user.past
        x = self._admit(described + self._encoder.describe_context(event.context, event.time, past))
        if event.item not in self._catalogue:
            self._put_item(event.item, {}, [])
        return x, self._catalogue.slot(event.item)

    def _admit(self, features: Features) -> Sparse:
        x = self._encoder.admit(features)
        if self._encoder.vocabulary.fresh:
            self._machine.take_up()
        return x

    def _put_item(self, item: str, attributes: Mapping[str, Any], features: Features) -> None:
        shared = self._encoder.admit(features)
        feature, place = self._encoder.own_feature("item", item), self._catalogue.neighbourhood(shared)
        own = -1 if feature is None else self._encoder.vocabulary.admit_near(*feature, place)
        if self._encoder.vocabulary.fresh:
            self._machine.take_up()
        note = self._encoder.history.note(item, attributes)
        self._catalogue.put(self._machine.parameters.theta, item, own, shared, attributes, note)

    def _settle(self) -> None:
        """What was admitted stays."""
        self._encoder.vocabulary.commit()
        self._catalogue.settle(self._machine.parameters.theta)

    def _remember(self, event: Event, slot: int) -> None:
        """An event has happened: it is part of the user's past from now on."""
        user = self._users.get(event.user)
        if user is None:
            user = User({}, self._encoder.describe_user(event.user, {}), Past(), set())
            self._users[event.user] = user
        user.past = self._encoder.history.after(user.past, event.item, self._catalogue.notes[slot], event.time)
        user.seen.add(slot)
        self._events += 1

    def _most_touched(self, context: int) -> int:
        """The most columns one update can touch."""
        each = 1 + self._catalogue.longest + len(self._catalogue.items.trends.rate)
        return context + (1 + self.hyperparameters.negatives) * each

    def _settle_linear_fields(self) -> None:
        """Tell the machine which fields stay out of the interactions."""
        factored: Flags = self._machine.parameters.memory.factored
        for side in ("user", "item", "context"):
            for field in getattr(self.schema, side):
                factored[self._encoder.vocabulary.fields.index(f"{side}.{field.name}")] = not field.linear


def _named(event: Event) -> str:
    return f"event of user {event.user!r} with item {event.item!r}"
