"""All that is known: features, parameters, items and users, kept in step with each other.

Every change happens in an order that can be taken back: what can be refused is checked first, what is admitted is journaled,
and only an update that succeeded is remembered.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import Flags, Floats, Integers, frozen
from coldstream.catalogue.catalogue import Catalogue
from coldstream.catalogue.contrast import Draws, learn_epoch, learn_event
from coldstream.catalogue.neighbours import neighbours_of
from coldstream.catalogue.shapes import Person
from coldstream.catalogue.trends import copied, trends_of
from coldstream.config import Hyperparameters
from coldstream.errors import Diverged
from coldstream.events.event import Event
from coldstream.features import users as registry
from coldstream.features.encoder import Encoder
from coldstream.features.fields import Again, Field, Follows, Together, Trend
from coldstream.features.history import Features, Past
from coldstream.features.portrait import Portrait
from coldstream.features.schema import SIDES, Schema
from coldstream.features.sparse import Sparse, joined
from coldstream.features.users import Seen, User
from coldstream.features.vocabulary import Vocabulary
from coldstream.model.compiled import direct
from coldstream.model.counter import key_of, shuffled
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.model.kernels import fold
from coldstream.training import Users, batch_of, count_in_order, replayed

_learn_event, _fold = direct(learn_event), direct(fold)

NOBODY = User({}, [], Past(), Seen())
_NO_SLOTS = np.zeros(0, np.int32)


class Knowledge:
    """The encoder, the machine, the catalogue and the users. Takes only what was checked before."""

    def __init__(self, schema: Schema, hyperparameters: Hyperparameters, seed: int, vocabulary: Vocabulary) -> None:
        self.encoder = Encoder(schema, vocabulary)
        self.machine = FactorizationMachine(hyperparameters, seed, vocabulary)
        self.machine.parameters.grow(0, len(vocabulary.fields))
        self._settle_linear_fields()
        trends = [field for field in schema.item if isinstance(field, Trend)]
        columns = {
            kind: [vocabulary.admit(*feature) for feature in self.encoder.derived_features(kind)]
            for kind in (Trend, Follows, Together, Again)
        }
        ties = [*(columns[Follows] or [-1]), *(columns[Together] or [-1]), *(columns[Again] or [-1])]
        self.machine.take_up()
        vocabulary.commit()
        self.catalogue = Catalogue(
            self.machine.rule.sign,
            hyperparameters.factors,
            hyperparameters.rank,
            trends_of([t.half_life for t in trends], columns[Trend], not all(t.linear for t in trends)),
            neighbours_of(np.array(ties, np.int32)),
        )
        self.users: dict[str, User] = {}
        self.events = 0
        self._draw_key, self._train_key = key_of(seed, "negatives"), key_of(seed, "training")

    @property
    def hyperparameters(self) -> Hyperparameters:
        """All hyperparameters in use."""
        return self.machine.hyperparameters

    # Users, items and context fields come, change and go

    def put_user(self, user: str, attributes: Mapping[str, Any], features: Features) -> None:
        """Add a user, or give one other attributes."""
        known = self.users.get(user, NOBODY)
        self.encoder.admit(features)
        self._take_up_fresh()
        self.encoder.vocabulary.commit()
        self.users[user] = User(attributes, features, known.past, known.seen if user in self.users else Seen())

    def put_item(self, item: str, attributes: Mapping[str, Any], features: Features) -> None:
        """Add an item, or give one other attributes."""
        self._put_item(item, attributes, features)
        self._settle()

    def remove_item(self, item: str) -> None:
        """Take an item out and wipe its id column."""
        place = self.catalogue.remove(item, self.events)
        feature = self.encoder.own_feature("item", item)
        if feature is not None:
            self.machine.parameters.release(self.encoder.vocabulary.release_near(*feature, place))
        self._settle()

    def forget_user(self, user: str) -> None:
        """Drop a user's record and wipe the id column."""
        del self.users[user]
        feature = self.encoder.own_feature("user", user)
        if feature is not None:
            self.machine.parameters.release(self.encoder.vocabulary.release(*feature))

    def add_context(self, fields: Sequence[Field]) -> None:
        """Take up declared context fields."""
        self.take_schema(self.encoder.schema.with_context(*fields))

    def take_schema(self, schema: Schema) -> None:
        """Go on with a schema that has all fields there are, and perhaps more."""
        self.encoder.take_schema(schema)
        self.machine.take_up()
        self._settle_linear_fields()
        self.encoder.vocabulary.commit()
        # New fields may ask for attributes of last items that no note was taken of.
        self.catalogue.take_notes(self.encoder.history.note)

    # Reading

    def request(
        self, user: User, name: str, context: Mapping[str, Any], time: float | None, attributes: Mapping[str, Any] | None
    ) -> Sparse:
        """What a request fixes, in known features: the user, the context and the user's past."""
        if attributes is None:
            return self.encoder.encode_after(self._portrait(user), self.encoder.describe_moment(context, time))
        described = self.encoder.describe_user(name, {**user.attributes, **attributes})
        return self.encoder.encode(described + self.encoder.describe_context(context, time, user.past))

    def with_item(self, x: Sparse, slot: int, user: User) -> Sparse:
        """A request together with one item."""
        return joined(x, self.catalogue.features(slot, self.events, self.person(user)))

    def scores(self, x: Sparse, user: User) -> tuple[float, Floats]:
        """A request's own part of the score, and what every live item adds to it."""
        theta = self.machine.parameters.theta
        factors = np.empty(theta.V.shape[1], np.float32)
        own = float(theta.w0[0]) + _fold(theta, self.machine.rule.sign, x, factors)
        return own, self.catalogue.scores(theta, factors, self.events, self.person(user))

    # Learning

    def learn(self, event: Event) -> None:
        """One event: admit what is new, contrast, and remember; or raise `Diverged` with nothing changed."""
        schema, mark = self.encoder.schema, self.catalogue.mark(event.item)
        x, slot = self.admit_event(event)
        parameters, negatives = self.machine.parameters, self.machine.hyperparameters.negatives
        parameters.make_room(self.most_touched(len(x.column)))
        person = self.person(self.users.get(event.user, NOBODY))
        draws = Draws(self._draw_key, self.events, negatives, self.encoder.schema.exclude_seen)
        args = (self.machine.rule, self.catalogue.items, draws, x, slot, person, self.events)
        if not _learn_event(parameters.theta, parameters.memory, *args):
            if mark is not None:
                self.catalogue.take_back(event.item, mark, self.events)
            self.machine.take_back(self.encoder.return_to(schema))
            raise Diverged(self.machine.divergence(_named(event)))
        self._count(slot, person.past)
        self._remember(event, slot)
        self.catalogue.touch(parameters.theta, parameters.memory.touched[: parameters.memory.touches[0]])
        if self.encoder.vocabulary.fresh or mark is not None or schema is not self.encoder.schema:
            self._settle()

    def observe(self, event: Event) -> None:
        """One event that happened without being learned."""
        _, slot = self.admit_event(event)
        self._count(slot, self._window(self.users.get(event.user, NOBODY).past))
        self._remember(event, slot)
        self._settle()

    def train(self, events: Sequence[Event], epochs: int) -> None:
        """Epochs over events in order of time. Where it raises, what it changed has to be restored."""
        contexts, slots, numbers, pasts, came = [], [], [], [], []
        number = {user: n for n, user in enumerate(dict.fromkeys(event.user for event in events))}
        before = [Seen(*self.users.get(user, NOBODY).seen.distinct()) for user in number]
        clock = self.events
        untried = self.catalogue.items.trends.untried.copy()  # before any item comes: the replay lets them in again, in time
        for event in events:  # in order: a context is what was known before its event
            came.append(event.item not in self.catalogue)
            context, slot = self.admit_event(event)
            self._settle()
            contexts.append(context)
            slots.append(slot)
            numbers.append(number[event.user])
            pasts.append(self._window(self.users.get(event.user, NOBODY).past))
            self._remember(event, slot)
        seen = [self.users[user].seen.slots() for user in number]
        parameters, items = self.machine.parameters, self.catalogue.items
        parameters.make_room(self.most_touched(max(len(context.column) for context in contexts)))
        chosen_slots = np.array(slots, np.int32)
        before_batch = copied(items.trends)._replace(untried=untried)
        arrived = np.array(came, np.uint8)
        replay = replayed(before_batch, chosen_slots, arrived, clock)
        batch = batch_of(items, contexts, chosen_slots, np.array(numbers, np.int32), seen, replay)
        # The paper adapts λ in the stream only; the per-field λ has no start worth keeping.
        rule = self.machine.rule._replace(adapt=self.hyperparameters.regularization != "paper")
        n = len(events)
        orders = [shuffled(key_of(self.machine.seed, "epoch", str(clock), str(epoch)), n) for epoch in range(epochs)]
        drawn = (self.hyperparameters.negatives, self.encoder.schema.exclude_seen)
        draws = [Draws(self._train_key, clock + epoch * n, *drawn) for epoch in range(epochs)]
        tied = count_in_order(self.catalogue, batch, Users(pasts, before), arrived, orders, draws)
        items = self.catalogue.items
        for order, own, ties in zip(orders, draws, tied, strict=True):
            failed = learn_epoch(parameters.theta, parameters.memory, rule, items, own, batch, ties, order)
            if failed >= 0:
                raise Diverged(self.machine.divergence(f"training on {_named(events[order[failed]])}"))
        self.catalogue.adopt(replay.trends)
        self.catalogue.rebuild(parameters.theta)

    def admit_event(self, event: Event) -> tuple[Sparse, int]:
        """The context of an event as a sparse vector, and the item's slot; whatever is new is admitted."""
        if event.context and (new := self.encoder.undeclared(event.context)):
            self.encoder.add_context(new)
            self.machine.take_up()
        x = self._admit_context(event)
        if event.item not in self.catalogue:
            self._put_item(event.item, {}, [])
        return x, self.catalogue.slot(event.item)

    def _admit_context(self, event: Event) -> Sparse:
        user = self.users.get(event.user)
        kept = None if user is None else self._kept(user)
        if kept is not None:
            x = self.encoder.admit_after(kept, self.encoder.describe_moment(event.context, event.time))
        else:
            described = self.encoder.describe_user(event.user, {}) if user is None else user.features
            past = NOBODY.past if user is None else user.past
            x = self.encoder.admit(described + self.encoder.describe_context(event.context, event.time, past))
        self._take_up_fresh()
        return x

    def most_touched(self, context: int) -> int:
        """The most columns one update can touch."""
        items = self.catalogue.items
        each = 1 + self.catalogue.longest + len(items.trends.rate) + len(items.neighbours.column)
        return context + (1 + self.machine.hyperparameters.negatives) * each

    # What survives

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything, as one JSON document and named arrays. Equal states behave equally for ever after."""
        catalogue, catalogue_arrays = self.catalogue.state()
        users, user_arrays = registry.state(self.users)
        parts = {"model": self.machine.state(), "catalogue": catalogue_arrays, "users": user_arrays}
        document = {
            "schema": self.encoder.schema.document(),
            "hyperparameters": self.hyperparameters.document(),
            "seed": self.machine.seed,
            "events": self.events,
            "vocabulary": self.encoder.vocabulary.document(),
            "catalogue": catalogue,
            "users": users,
        }
        return document, {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    @classmethod
    def from_state(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "Knowledge":
        """The inverse of `state`."""
        parts: dict[str, dict[str, NDArray[Any]]] = {"model": {}, "catalogue": {}, "users": {}}
        for name, array in arrays.items():
            part, _, rest = name.partition(".")
            parts.setdefault(part, {})[rest] = array  # others may keep parts of their own in the same file
        known = cls(
            Schema.from_document(document["schema"]),
            Hyperparameters.from_document(document["hyperparameters"]),
            document["seed"],
            Vocabulary.from_document(document["vocabulary"]),
        )
        known.machine.restore(parts["model"])
        if known.machine.parameters.columns != len(known.encoder.vocabulary):
            raise ValueError("the vocabulary and the parameters have not the same columns")
        known.catalogue.restore(known.machine.parameters.theta, document["catalogue"], parts["catalogue"])
        users = document["users"]
        slots = len(known.catalogue.ids)
        records = (users["ids"], users["attributes"], registry.pasts(users), registry.seen_slots(parts["users"], slots))
        for name, raw, past, seen in zip(*records, strict=True):
            attributes = {field: frozen(value) for field, value in raw.items()}
            known.users[name] = User(attributes, known.encoder.describe_user(name, attributes), past, seen)
        known.events = document["events"]
        if (known.catalogue.items.trends.clock > known.events).any():
            raise ValueError("a trend has a clock of the future")
        return known

    def _take_up_fresh(self) -> None:
        if self.encoder.vocabulary.fresh:
            self.machine.take_up()

    def _put_item(self, item: str, attributes: Mapping[str, Any], features: Features) -> None:
        shared = self.encoder.admit(features)
        feature, place = self.encoder.own_feature("item", item), self.catalogue.neighbourhood(shared)
        own = -1 if feature is None else self.encoder.vocabulary.admit_near(*feature, place)
        self._take_up_fresh()
        note = self.encoder.history.note(item, attributes)
        self.catalogue.put(self.machine.parameters.theta, item, own, shared, attributes, note, self.events)

    def _settle(self) -> None:
        """What was admitted stays."""
        self.encoder.vocabulary.commit()
        self.catalogue.settle(self.machine.parameters.theta)

    def person(self, user: User) -> Person:
        """What a user did so far, in slots."""
        kept = self._kept(user)
        window = self._window(user.past) if kept is None else kept.window
        return Person(window, user.seen.slots(), user.seen.times())

    def _portrait(self, user: User) -> Portrait:
        """What a user brings to every request. Kept with the user, where it can be neither seen nor wrong."""
        kept = self._kept(user)
        if kept is not None:
            return kept
        history, departures = self.encoder.history, self.encoder.vocabulary.departures
        features = user.features + history.features(user.past)
        x, window = self.encoder.encode(features), self._window(user.past)
        complete = len(x.column) == len(features)
        portrait = Portrait(x.column.tobytes(), x.value.tobytes(), window, user.past, history, departures, complete)
        user.portrait = portrait
        return portrait

    def _kept(self, user: User) -> Portrait | None:
        """The portrait of a user who has asked since the last event. Learning makes none: it would not outlive the event."""
        kept = user.portrait
        holds = kept is not None and kept.holds(user.past, self.encoder.history, self.encoder.vocabulary.departures)
        return kept if holds else None

    def _window(self, past: Past) -> Integers:
        """The slots of those of a user's last items whose neighbours count, each once, the latest at the end."""
        if not self.encoder.history.window or not past.items:
            return _NO_SLOTS
        latest = dict.fromkeys(reversed(past.items[-self.encoder.history.window :]))
        return self.catalogue.slots(latest)[::-1].copy()

    def _count(self, slot: int, past: Integers) -> None:
        """An item was chosen, now and after these."""
        self.catalogue.count_trend(slot, self.events)
        self.catalogue.count_neighbours(slot, past)

    def _remember(self, event: Event, slot: int) -> None:
        """An event has happened: it is part of the user's past from now on."""
        user = self.users.get(event.user)
        if user is None:
            user = User({}, self.encoder.describe_user(event.user, {}), Past(), Seen())
            self.users[event.user] = user
        user.past = self.encoder.history.after(user.past, event.item, self.catalogue.notes[slot], event.time)
        user.seen.add(slot)
        self.events += 1

    def _settle_linear_fields(self) -> None:
        """Tell the machine which fields stay out of the interactions."""
        factored: Flags = self.machine.parameters.memory.factored
        for side in SIDES:
            for field in getattr(self.encoder.schema, side):
                factored[self.encoder.vocabulary.fields.index(f"{side}.{field.name}")] = not field.linear


def _named(event: Event) -> str:
    return f"event of user {event.user!r} with item {event.item!r}"
