"""The whole path on one page: put, train, recommend, learn, explain, forget, save."""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from numpy.typing import NDArray

from coldstream.amounts import in_mebibytes
from coldstream.arguments import checked_count, checked_event, checked_events, checked_items, checked_pairs
from coldstream.arrays import frozen_values, saved_count
from coldstream.bounds import Bounds
from coldstream.catalogue.slot_table import Place
from coldstream.config import Hyperparameters
from coldstream.errors import InvalidInput, InvalidSnapshot, UnknownId, shown
from coldstream.events.availability import Availability
from coldstream.events.clock import Clock
from coldstream.events.event import Event, checked_id, checked_names
from coldstream.eviction import Departed, evict, is_due, settle
from coldstream.features.encoder import ItemMemo
from coldstream.features.fields import Field
from coldstream.features.history import Features
from coldstream.features.schema import Schema, extended, with_fields
from coldstream.features.vocabulary import Vocabulary
from coldstream.frames import events_of, is_frame, items_of, users_of
from coldstream.increments import is_increment
from coldstream.learning import learn_all, learn_one, learn_or_observe, observe_all, observe_one
from coldstream.memory import least_budget
from coldstream.memory_tuning import collection_paused
from coldstream.model.factorization_machine import checked_seed, resolve_hyperparameters
from coldstream.reader import Reader, Recommendation, Size
from coldstream.shared_model import DescribedItem, SharedModel
from coldstream.shared_state import MODEL, parts_of, shared_model_of, view_of
from coldstream.snapshot import NOT_WHAT_IT_SHOULD_BE, read_snapshot, write_snapshot
from coldstream.training import train
from coldstream.user_states import UserStates

__all__ = ["Recommendation", "Recommender", "Size"]

BOUNDS = Bounds()
"""Those of a recommender that is not told any."""

NO_FIELDS: Mapping[str, Field] = MappingProxyType({})


class Recommender(Reader):
    """Recommends items to users in a context, and learns from every event the moment it happens.

    It is made from a `schema` and a `preset` with some `hyperparameters` changed; the `seed` is what all its random numbers
    follow from, and `bounds` limit what is learned and remembered. Whatever raises a `ColdstreamError` has changed nothing.
    What only reads (`recommend`, `rank`, `predict`, `explain`) is that of a `Reader`, and never changes anything.
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
        self._clock = self._merged_at = Clock()
        self._users.follow(bounds, self._clock)

    def __repr__(self) -> str:
        size, h = self.size, self.hyperparameters
        known = f"{size.items:,} items, {size.users:,} users, {size.features:,} features, {self.events:,} events"
        return f"<Recommender: {known}; loss={h.loss!r}, factors={h.factors}, seed={self.seed}>"

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
                self._users.put(user, frozen_values(given), features)
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
        if not self._shared.waits_for_merge:
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

    def merge_user(self, session: str, user: str) -> None:
        """Fold what a `session` did into a `user` who has logged in, and forget the session.

        The session is a user like any other, under an id that nobody has logged in with. Its last items stand behind those
        of the user; what it had, the user had. What was learned of its id goes.
        """
        self.check_merge(session, user)
        self._users.merge(session, user, self._clock)
        self._shared.admit(self._users[user].features)
        self._shared.start(self._clock)
        self._shared.release("user", session)
        if self._is_due():
            self._evict()

    def forget_session(self, session: str) -> None:
        """Forget that a `session` was folded into a user; what it did stays part of the user's past."""
        self._users.forget_session(session)

    def check_merge(self, session: str, user: str) -> None:
        """Raise what `merge_user` would raise."""
        if not self.has_user(checked_id("user", session)):
            raise UnknownId(f"user {session!r} is not known; there is nothing to merge")
        if session == checked_id("user", user):
            raise InvalidInput(f"session must be another than the user, got {shown(session)} for both")

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
        """Go on within other `bounds`; what does not fit goes now, and where several learn, at the next merge.

        A budget that what is there cannot be brought within is refused.
        """
        self.check_bounds(bounds)
        self.follow_bounds(bounds)

    def check_bounds(self, bounds: Bounds) -> None:
        """Raise what `change_bounds` would raise of these `bounds`."""
        if not isinstance(bounds, Bounds):
            raise InvalidInput(f"bounds must be Bounds, got {shown(bounds)}; use Bounds(memory='2 GiB')")
        least, memory, own = least_budget(self._shared), bounds.memory_bytes, self.bounds.memory_bytes
        if memory is not None and memory < least and (own is None or memory < own):
            wanted = f"memory must be at least {shown(in_mebibytes(least))} for what is here already"
            why = "rows of features and slots of items that were taken once are filled again, and never given back"
            error = InvalidInput(
                f"{wanted}, got {shown(bounds.memory)}: {why}; set a larger budget, or begin in an empty store"
            )
            error.field = "memory"
            raise error

    def follow_bounds(self, bounds: Bounds) -> None:
        """The same as `change_bounds` for a line of a log, which nobody can refuse any more."""
        self._shared.take_bounds(bounds, self._clock)
        self._users.follow(bounds, self._clock, partial(self._shared.user_last_learned, clock=self._clock))
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

    def check_event(
        self, event: Event, coming: Mapping[str, Field] = NO_FIELDS, items: Container[str] = ()
    ) -> dict[str, Field]:
        """The context fields that an event would admit, after others that are coming; raises what `learn` would refuse.

        Some `items` may be coming, too.
        """
        self._shared.check(checked_event(event), items)
        return self._shared.encoder.admissible(event.context, coming)

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
        for event in given:
            self._shared.check(event)
        saved = self.state()
        try:
            before, self._clock = self._clock, train(self._shared, self._users, given, epochs, self._clock)
            settle(self._shared, self._users, before, self._clock)
        except BaseException:
            self._restore(*saved)
            raise

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
            self._shared.check(events)
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
        self._shared.check(checked_event(event))
        self._clock = observe_one(self._shared, self._users, event, clock)

    def replay(self, events: Sequence[tuple[int, Event]]) -> list[Place]:
        """Learn `events` of a log, each with its position; one whose update diverges is observed, as when it came.

        Where the item of each was kept.
        """
        coming, last = dict[str, Field](), self._clock.position
        for position, event in events:
            self._shared.check(checked_event(event))
            if event.context:
                coming |= self.check_event(event, coming)
            if type(position) is not int or not last < position < 2**62:
                raise InvalidInput(f"position must be a whole number beyond {last} and below 2**62, got {shown(position)}")
            last = position
        with collection_paused():
            self._clock, places = learn_or_observe(self._shared, self._users, events, self._clock)
        return places

    # Step 3 by several learners, each with users of its own

    def follow_learners(self, learners: int) -> None:
        """Go on as one of so many `learners` of a stream, or as who answers for them."""
        self._merged_at = self._clock
        self._shared.follow_learners(learners)

    def let_go(self) -> Departed:
        """Let go what has to go since the last merge, where several learn; what that was, for whoever has to know."""
        if not self._shared.waits_for_merge:
            return Departed.nobody()
        before, self._merged_at = self._merged_at, self._clock
        gone = evict(self._shared, self._users, before, self._clock)
        self._shared.commit()
        return gone

    def check_learners(self, learners: int) -> None:
        """Raise `InvalidInput` for fields that so many `learners` could not agree on."""
        if learners > 1:
            self._shared.check_learners()

    def replay_observed(self, events: Sequence[tuple[int, Event]]) -> list[Place]:
        """Observe `events` of a log, which others learn, each with its position. Where the item of each was kept."""
        with collection_paused():
            self._clock, places = observe_all(self._shared, self._users, events, self._clock)
        return places

    def update_parameters(self, update: Callable[[SharedModel, Clock], None]) -> None:
        """Let an `update` change what everybody shares, as of now: so is taken over what was learned elsewhere."""
        update(self._shared, self._clock)

    def _learn_many(self, events: Iterable[Event]) -> None:
        given = checked_events(events)
        coming: dict[str, Field] = {}
        for event in given:
            self._shared.check(event)
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
        write_snapshot(path, *self.view())

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
        document, arrays = self.view()
        return document, {name: array.copy() if name.startswith(MODEL) else array for name, array in arrays.items()}

    def view(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The same where it is read at once: the largest arrays are not copied, and hold until anything changes."""
        document, arrays = view_of(self._shared)
        document |= {"events": self._clock.events, "position": self._clock.position, "time": self._clock.time}
        return document, arrays | {f"users.{name}": array for name, array in self._users.state().items()}

    @classmethod
    def from_state(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `state`."""
        recommender = cls.__new__(cls)
        try:
            recommender._restore(document, arrays)
        except NOT_WHAT_IT_SHOULD_BE as error:
            raise InvalidSnapshot(f"this does not hold a recommender ({error!r}); use an older one") from error
        return recommender

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
        self._shared, self._users, self._clock = shared, users, clock
        self._merged_at = clock

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
        return DescribedItem(item, frozen_values(attributes), described, availability)


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
