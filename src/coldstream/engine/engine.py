"""The engine: one transaction over the model, the catalogue and the users, and the clock that all of them follow.

`Recommender` is its public face. The runtime, and learners in other processes, also call methods that no guide documents.
"""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from coldstream.bounds.bounds import Bounds
from coldstream.catalogue.slot_table import Place
from coldstream.config import Hyperparameters
from coldstream.engine.eviction import Departed, evict, is_due, settle
from coldstream.engine.learning import learn_all, learn_one, learn_or_observe, observe_all, observe_one
from coldstream.engine.memory import Memory, least_budget, memory_of
from coldstream.engine.shared_model import DescribedItem, SharedModel
from coldstream.engine.shared_state import MODEL, parts_of, shared_model_of, view_of
from coldstream.engine.training import train
from coldstream.errors import InvalidInput, InvalidSnapshot, UnknownId, shown
from coldstream.events.arguments import checked_event, checked_events
from coldstream.events.availability import Availability
from coldstream.events.clock import Clock
from coldstream.events.event import Event, checked_id, checked_names
from coldstream.features.encoder import ItemMemo
from coldstream.features.fields import Field
from coldstream.features.history import Features
from coldstream.features.schema import Schema, extended, with_fields
from coldstream.features.vocabulary import Vocabulary
from coldstream.model.factorization_machine import checked_seed
from coldstream.snapshots.archive import NOT_WHAT_IT_SHOULD_BE
from coldstream.support.amounts import in_mebibytes
from coldstream.support.arrays import Flags, Longs, frozen_values, saved_count
from coldstream.support.memory_tuning import collection_paused
from coldstream.users.states import UserState, UserStates

NO_FIELDS: Mapping[str, Field] = MappingProxyType({})


class Engine:
    """The model, the catalogue, the users and the clock of one recommender, changed together or not at all."""

    def __init__(self, schema: Schema, hyperparameters: Hyperparameters, seed: int, bounds: Bounds) -> None:
        completed = schema.completed(hyperparameters.history, hyperparameters.trends, hyperparameters.neighbours)
        self.shared = SharedModel(completed, hyperparameters, checked_seed(seed), Vocabulary(), bounds)
        self.users = UserStates(self.shared.encoder, self.shared.catalogue)
        self.clock = self._merged_at = Clock()
        self.users.follow(bounds, self.clock)

    @property
    def schema(self) -> Schema:
        """The fields in use: those declared, those the preset added, and context fields admitted on the way."""
        return self.shared.encoder.schema

    @property
    def memory(self) -> Memory:
        """Bytes in use, by purpose, and counts of what was refused or evicted to keep within the bounds."""
        return memory_of(self.shared, self.users)

    # Looking things up

    def has_item(self, item: str) -> bool:
        """Return whether an item is in the catalogue."""
        return item in self.shared.catalogue

    def has_user(self, user: str) -> bool:
        """Return whether anything is known of a user."""
        return user in self.users

    def has_past(self, user: str) -> bool:
        """Return whether any event of a user is remembered."""
        return user in self.users and bool(len(self.users[user].seen) or self.users[user].recent.items)

    def sessions(self, user: str) -> tuple[str, ...]:
        """Return the sessions that were merged into a user."""
        return self.users.sessions.get(user, ())

    def has_session(self, session: str) -> bool:
        """Return whether a session was merged into any user who is known."""
        return any(session in own for own in self.users.sessions.values())

    def slot(self, item: str) -> int:
        """Return the number of an item's slot in the catalogue, or raise `UnknownId`."""
        if not isinstance(item, str) or item not in self.shared.catalogue:
            checked_id("item", item)
            raise UnknownId(f"item {item!r} is not in the catalogue; put_item({item!r}, …) first")
        return self.shared.catalogue.slot(item)

    def user(self, user: str) -> UserState:
        """Return the state of a user, or raise `UnknownId`."""
        if not isinstance(user, str) or user not in self.users:
            checked_id("user", user)
            raise UnknownId(f"user {user!r} is not known; put_user({user!r}, …) first")
        return self.users[user]

    def place(self, item: str) -> Place:
        """Return the slot of an item and its generation, also if the item was removed a moment ago."""
        catalogue = self.shared.catalogue
        found = catalogue.slots([checked_id("item", item)])
        slot = found[0] if found else self.slot(item)
        return catalogue.place(slot)

    def arrivals_by_place(self) -> Longs:
        """Return, by slot, the number of the arrival of the item there. Do not write to it."""
        return self.shared.catalogue.arrivals_by_slot()

    def unavailable(self, time: float | None) -> Flags:
        """Return, by slot, whether an item may not be recommended at a time; an empty array if all may."""
        catalogue = self.shared.catalogue
        return catalogue.windows.excluded(self.clock.moment(time), len(catalogue.ids))

    # Validation: raise what a change would raise, and change nothing

    def described_user(self, user: str, attributes: Mapping[str, Any] | None) -> tuple[Mapping[str, Any], Features]:
        """Return the checked attributes of a user and the features that they stand for."""
        given = checked_names(f"user {checked_id('user', user)!r}", {} if attributes is None else attributes)
        return given, self.shared.encoder.describe_user(user, given)

    def described_item(
        self, item: str, attributes: Mapping[str, Any] | None, availability: Availability, memo: ItemMemo
    ) -> DescribedItem:
        """Return an item with its checked attributes and the features that they stand for."""
        checked_id("item", item)
        if attributes is None:
            return DescribedItem(item, {}, (), availability)
        if type(attributes) is not dict:
            checked_names(f"item {item!r}", attributes)
        if not attributes:
            return DescribedItem(item, {}, (), availability)
        described = self.shared.encoder.describe_item(item, attributes, memo)
        return DescribedItem(item, frozen_values(attributes), described, availability)

    def check_user(self, user: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Raise the exceptions that `Recommender.put_user` would raise."""
        self.described_user(user, attributes)

    def check_item(
        self,
        item: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        available_from: float | datetime | None = None,
        available_until: float | datetime | None = None,
        hidden: bool = False,
    ) -> None:
        """Raise the exceptions that `Recommender.put_item` would raise."""
        self.described_item(item, attributes, Availability.of(item, available_from, available_until, hidden), {})

    def check_event(
        self, event: Event, coming: Mapping[str, Field] = NO_FIELDS, items: Container[str] = ()
    ) -> dict[str, Field]:
        """Return the context fields that an event would admit, or raise what learning from it would raise.

        `coming` are context fields, and `items` the ids of items, that records before the event will bring.
        """
        self.shared.check(checked_event(event), items)
        return self.shared.encoder.admissible(event.context, coming)

    def check_extension(self, schema: Schema) -> Schema:
        """Return the schema that `extend` would lead to, or raise what it would raise."""
        own = self.shared.hyperparameters
        return extended(self.schema, schema.completed(own.history, own.trends, own.neighbours))

    def check_fields(self, fields: Mapping[str, Sequence[Field]]) -> Schema:
        """Return the schema that `Recommender.add_fields` would lead to, or raise what it would raise."""
        return with_fields(self.schema, _checked_fields(fields))

    def check_bounds(self, bounds: Bounds) -> None:
        """Raise what `Recommender.change_bounds` would raise."""
        if not isinstance(bounds, Bounds):
            raise InvalidInput(f"bounds must be Bounds, got {shown(bounds)}; use Bounds(memory='2 GiB')")
        least, memory, own = least_budget(self.shared), bounds.memory_bytes, self.shared.bounds.memory_bytes
        if memory is not None and memory < least and (own is None or memory < own):
            wanted = f"memory must be at least {shown(in_mebibytes(least))} for what is here already"
            why = "rows of features and slots of items that were taken once are filled again, and never given back"
            error = InvalidInput(
                f"{wanted}, got {shown(bounds.memory)}: {why}; set a larger budget, or begin in an empty store"
            )
            error.field = "memory"
            raise error

    def check_learners(self, learners: int) -> None:
        """Raise `InvalidInput` for fields on which so many learners could not agree."""
        if learners > 1:
            self.shared.check_learners()

    def check_merge(self, session: str, user: str) -> None:
        """Raise what `Recommender.merge_user` would raise."""
        if not self.has_user(checked_id("user", session)):
            raise UnknownId(f"user {session!r} is not known; there is nothing to merge")
        if session == checked_id("user", user):
            raise InvalidInput(f"session must be another than the user, got {shown(session)} for both")

    # Users, items and fields

    def put_users(self, described: Iterable[tuple[str, Mapping[str, Any], Features]]) -> None:
        """Add users who were checked, or replace their attributes."""
        for user, given, features in described:
            self.shared.admit(features)
            self.users.put(user, frozen_values(given), features)
            self.users.note_put(user, self.clock)
            if self._is_due():
                self.shared.start(self.clock)
                self._evict()
        self.shared.start(self.clock)

    def put_items(self, described: Sequence[DescribedItem]) -> None:
        """Add items that were checked, or replace their attributes."""
        self.shared.put_items(described, self.clock, self._is_due, self._evict)

    def remove_item(self, item: str) -> None:
        """Remove an item that is known, and forget what was learned of its id."""
        self.shared.remove_item(item, self.clock)

    def forget_user(self, user: str) -> None:
        """Forget a user who is known."""
        self.users.forget(user)
        self.shared.release("user", user)

    def merge_user(self, session: str, user: str) -> None:
        """Move the past of a session that is known to a user, and forget the session."""
        self.users.merge(session, user, self.clock)
        self.shared.admit(self.users[user].features)
        self.shared.start(self.clock)
        self.shared.release("user", session)
        if self._is_due():
            self._evict()

    def forget_session(self, session: str) -> None:
        """Forget that a session was merged into a user; its events stay part of the user's past."""
        self.users.forget_session(session)

    def names_of(self, columns: Iterable[int]) -> list[tuple[str, str]]:
        """Return field and value of each column that stands for a feature."""
        vocabulary = self.shared.encoder.vocabulary
        return [name for column in columns if (name := vocabulary.owner_or_none(column)) is not None]

    def release_values(self, columns: Iterable[int]) -> None:
        """Forget values of users' attributes and of contexts, by their columns, and what was learned of them."""
        self.shared.release_values(columns)

    def release_named(self, names: Iterable[tuple[str, str]]) -> None:
        """Forget features given by field and value, and what was learned of them; unknown ones are skipped."""
        vocabulary = self.shared.encoder.vocabulary
        numbers = [(vocabulary.field(field), value) for field, value in names]
        found = [vocabulary.find(field, value) for field, value in numbers if field is not None]
        self.shared.release_values(column for column in found if column is not None)

    def take_schema(self, schema: Schema) -> None:
        """Switch to a schema that has all fields in use, and perhaps more."""
        self.shared.take_schema(schema, self.clock)
        self._evict()

    def extend(self, schema: Schema) -> None:
        """Add the fields that a schema declares beyond those in use, and adopt whether its context is open.

        Raise `InvalidSchema` for a field that is declared differently, or of a kind that counts from the first event on.
        """
        self.take_schema(self.check_extension(schema))

    def follow_bounds(self, bounds: Bounds) -> None:
        """Apply bounds that were already logged, without validating them."""
        self.shared.take_bounds(bounds, self.clock)
        self.users.follow(bounds, self.clock, partial(self.shared.user_last_learned, clock=self.clock))
        self._evict()

    def _is_due(self) -> bool:
        return is_due(self.shared, self.users, self.clock, self.clock)

    def _evict(self) -> None:
        if not self.shared.waits_for_merge:
            evict(self.shared, self.users, self.clock, self.clock)
            self.shared.commit()

    # Learning

    def train(self, events: Sequence[Event], epochs: int) -> None:
        """Learn from past events in several reshuffled passes: all of them, or none if an update diverges."""
        for event in events:
            self.shared.check(event)
        saved = self.state()
        try:
            before, self.clock = self.clock, train(self.shared, self.users, events, epochs, self.clock)
            settle(self.shared, self.users, before, self.clock)
        except BaseException:
            self._restore(*saved)
            raise

    def learn(self, event: Event, position: int | None = None) -> None:
        """Learn from one event, at its position in the log."""
        clock = self.clock.at(self._checked_position(position))
        self.shared.check(event)
        self.clock = learn_one(self.shared, self.users, event, clock)

    def observe(self, event: Event, position: int | None = None) -> None:
        """Remember and count one event, without learning parameters from it."""
        clock = self.clock.at(self._checked_position(position))
        self.shared.check(checked_event(event))
        self.clock = observe_one(self.shared, self.users, event, clock)

    def learn_many(self, events: Iterable[Event]) -> None:
        """Learn from events in their order: all of them, or none if an update diverges."""
        given = checked_events(events)
        coming: dict[str, Field] = {}
        for event in given:
            self.shared.check(event)
            if event.context:
                coming |= self.check_event(event, coming)
        # Items that were evicted cannot be taken back one by one.
        saved = self.state() if self.shared.may_lose_items else None
        try:
            with collection_paused():
                self.clock = learn_all(self.shared, self.users, given, self.clock)
        except BaseException:
            if saved is not None:
                self._restore(*saved)
            raise

    def replay(self, events: Sequence[tuple[int, Event]]) -> list[Place]:
        """Learn from events of a log, each with its position, and return where the item of each was kept.

        An event whose update diverges is observed, as it was when it came.
        """
        coming, last = dict[str, Field](), self.clock.position
        for position, event in events:
            self.shared.check(checked_event(event))
            if event.context:
                coming |= self.check_event(event, coming)
            if type(position) is not int or not last < position < 2**62:
                raise InvalidInput(f"position must be a whole number beyond {last} and below 2**62, got {shown(position)}")
            last = position
        with collection_paused():
            self.clock, places = learn_or_observe(self.shared, self.users, events, self.clock)
        return places

    def replay_observed(self, events: Sequence[tuple[int, Event]]) -> list[Place]:
        """Observe events of a log that other processes learn from, and return where the item of each was kept."""
        with collection_paused():
            self.clock, places = observe_all(self.shared, self.users, events, self.clock)
        return places

    def _checked_position(self, position: int | None) -> int | None:
        if position is not None and (isinstance(position, bool) or not isinstance(position, int) or position >= 2**62):
            raise InvalidInput(f"position must be a whole number below 2**62, got {shown(position)}")
        if position is not None and position <= self.clock.position:
            message = f"position must be beyond the last one, {self.clock.position}, got {position}"
            raise InvalidInput(f"{message}; a log is learned in its order, and every line once")
        return position

    # Several learners of one stream

    def follow_learners(self, learners: int) -> None:
        """Continue as one of so many learners of a stream, or as the process that answers requests for them."""
        self._merged_at = self.clock
        self.shared.follow_learners(learners)

    def let_go(self) -> Departed:
        """Evict what is due since the last merge of several learners, and return what was removed."""
        if not self.shared.waits_for_merge:
            return Departed.nobody()
        before, self._merged_at = self._merged_at, self.clock
        gone = evict(self.shared, self.users, before, self.clock)
        self.shared.commit()
        return gone

    # State

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all that is known as a JSON document and named arrays. Engines of equal states go on with equal bits."""
        document, arrays = self.view()
        return document, {name: array.copy() if name.startswith(MODEL) else array for name, array in arrays.items()}

    def view(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Like `state`, without a copy of the largest arrays: use it before anything changes."""
        document, arrays = view_of(self.shared)
        document |= {"events": self.clock.events, "position": self.clock.position, "time": self.clock.time}
        return document, arrays | {f"users.{name}": array for name, array in self.users.state().items()}

    @classmethod
    def from_state(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "Engine":
        """Return the engine that `state` described, or raise `InvalidSnapshot`."""
        engine = cls.__new__(cls)
        try:
            engine._restore(document, arrays)
        except NOT_WHAT_IT_SHOULD_BE as error:
            raise InvalidSnapshot(f"this does not hold a recommender ({error!r}); use an older one") from error
        return engine

    def _restore(self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        parts = parts_of(arrays, "model", "vocabulary", "catalogue", "users", "usage", "item_usage", "admissions")
        shared = shared_model_of(document, parts)
        users = UserStates(shared.encoder, shared.catalogue)
        position, events = (saved_count(name, document[name]) for name in ("position", "events"))
        time = document.get("time")
        clock = Clock(position, events, None if time is None else float(time))
        if clock.time is not None and not math.isfinite(clock.time):
            raise ValueError("the time is not finite")
        users.follow(shared.bounds, clock)
        users.restore(parts["users"])
        users.epoch = clock.position
        if (parts["catalogue"]["counted_at"] > clock.events).any():
            raise ValueError("a trend has a clock of the future")
        self.shared, self.users, self.clock = shared, users, clock
        self._merged_at = clock


def _checked_fields(given: object) -> Mapping[str, Sequence[Field]]:
    """Return lists of fields by side, or raise `InvalidInput`."""
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
