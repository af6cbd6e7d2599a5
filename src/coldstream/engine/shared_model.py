"""The shared part of the state: the encoder, the machine and the catalogue, kept in step with each other.

Every change happens in an order that can be rolled back: everything that can be refused is checked first, all new features
of an event are admitted at once, and only an update that succeeded is committed.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from coldstream.bounds.bounds import Bounds
from coldstream.bounds.usage import Usage
from coldstream.catalogue.admitted_item import AdmittedItem, Layout
from coldstream.catalogue.catalogue import Catalogue, Savepoint
from coldstream.catalogue.combinations import entries_of
from coldstream.catalogue.contrast import EventBatch, batch_of_one, learn_events
from coldstream.catalogue.negative_sampling import NOTHING_PASSED_OVER, NegativeDraw
from coldstream.catalogue.neighbours import neighbours_of
from coldstream.catalogue.shapes import UserHistory
from coldstream.catalogue.trends import trends_of
from coldstream.config import Hyperparameters
from coldstream.errors import InvalidInput, shown
from coldstream.events.availability import ALWAYS, Availability
from coldstream.events.clock import Clock
from coldstream.events.event import Event
from coldstream.features.encoded_user import EncodedUser
from coldstream.features.encoder import Encoder, ItemAttribute
from coldstream.features.feedback import CHOICE, Feedback
from coldstream.features.fields import Again, Follows, Together, Trend
from coldstream.features.history import Features
from coldstream.features.schema import SIDES, Schema
from coldstream.features.sparse import Sparse, continued, sparse
from coldstream.features.vocabulary import Vocabulary
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.model.keyed_random import key_of
from coldstream.scoring.scorer import scorer_of
from coldstream.support.arrays import Flags, Integers, Longs
from coldstream.support.compiled import unchecked_entry

_learn_events = unchecked_entry(learn_events)


class DescribedItem(NamedTuple):
    """A checked item: its id, its attributes as given, the features they stand for, and its availability."""

    item: str
    attributes: Mapping[str, Any]
    fields: Sequence[ItemAttribute]
    availability: Availability = ALWAYS


class Transaction(NamedTuple):
    """A point to roll an event back to: the schema before it, and the catalogue before its item arrived."""

    schema: Schema
    savepoint: Savepoint | None


class SharedModel:
    """The encoder, the machine, the catalogue and the scorer. Its input was checked before, and it keeps no clock."""

    def __init__(
        self, schema: Schema, hyperparameters: Hyperparameters, seed: int, vocabulary: Vocabulary, bounds: Bounds
    ) -> None:
        self.encoder = Encoder(schema, vocabulary, bounds)
        self.admissions = self.encoder.admissions
        self.usage = Usage()
        """Usefulness of each column of the bounded fields."""
        self.item_usage = Usage()
        """Usefulness of each item, by slot, where items may be evicted."""
        self.gone: Counter[str] = Counter()
        """Number of entries evicted or expired so far, by kind and reason."""
        self.pairs = 0
        """Number of neighbours of all items at the last count."""
        self.waits_for_merge = False
        """Whether evictions wait for the next merge: several learners evict the same entries at the same moment."""
        self.machine = FactorizationMachine(hyperparameters, seed, vocabulary)
        self._expect_columns(bounds)
        self.machine.parameters.grow(0, len(vocabulary.fields))
        self._tell_linear_fields()
        derived = self.encoder.derived_features
        columns = {
            kind: [vocabulary.admit(*feature) for feature in derived(kind)] for kind in (Trend, Follows, Together, Again)
        }
        crossed = [*(columns[Follows] or [-1]), *(columns[Together] or [-1]), *(columns[Again] or [-1])]
        self.machine.start(0)
        vocabulary.commit()
        half_lives = [field.half_life for field in schema.item if isinstance(field, Trend)]
        self.catalogue = Catalogue(
            Layout(*self.encoder.item_layout()),
            trends_of(half_lives, columns[Trend]),
            neighbours_of(np.array(crossed, np.int32)),
        )
        self.admissions.is_live = self.catalogue.__contains__
        self.scorer = scorer_of(self.machine, self.catalogue)
        self._draw_key = key_of(seed, "negatives")

    @property
    def bounds(self) -> Bounds:
        """The bounds in use, except those of single fields."""
        return self.admissions.bounds

    @property
    def hyperparameters(self) -> Hyperparameters:
        """The hyperparameters in use."""
        return self.machine.hyperparameters

    # Adding, changing and removing items, user ids and fields

    def put_items(
        self, items: Sequence[DescribedItem], clock: Clock, is_due: Callable[[], bool], evict: Callable[[], None]
    ) -> None:
        """Add items, or replace their attributes, as if one by one; evict in between whenever eviction is due."""
        put: list[AdmittedItem] = []
        for at, item in enumerate(items):
            put.append(self._admitted(item))
            self.admissions.commit()
            if self.may_lose_items:
                self._put_admitted(put, clock)
                put = []
            if is_due():
                self._put_admitted(put, clock)
                put = []
                evict()
                for own in (own for other in items[at + 1 :] for own in other.fields):
                    own.entries = None  # an eviction may have given its columns to other values
        self._put_admitted(put, clock)
        self.encoder.vocabulary.commit()

    def _admitted(self, described: DescribedItem) -> AdmittedItem:
        """Return an item with columns for those of its features that could be admitted."""
        item, attributes, fields, availability = described
        encoder, new = self.encoder, [own for own in fields if own.entries is None]
        features = [(own.field, value, weight) for own in new for value, weight in own.features]
        columns = iter(self.admissions.admit_all(features) if features else ())
        kept: list[ItemAttribute] = []
        for own in fields:
            if own.entries is None:
                given = [(next(columns), weight) for _, weight in own.features]
                known = [(column, weight) for column, weight in given if column is not None]
                if len(known) < len(given):  # not shared: another item's values may be admitted
                    own = ItemAttribute(own.field, own.features)
                own.entries = entries_of(known)
            if own.entries:
                kept.append(own)
        id_field = encoder.id_field("item")
        id_column = -1 if id_field is None else encoder.vocabulary.admit(id_field, item)
        last_item_features = encoder.history.last_item_features(item, attributes)
        return AdmittedItem(item, id_column, kept, attributes, last_item_features, availability)

    def _put_admitted(self, items: Sequence[AdmittedItem], clock: Clock) -> None:
        self._start(clock)
        come = [one.item for one in items if one.item not in self.catalogue]
        self.catalogue.put_all(items, clock.events)
        if self.catalogue.windows.limited or any(one.availability is not ALWAYS for one in items):
            self.catalogue.limit((self.catalogue.slot(one.item), one.availability) for one in items)
        self._begin_use(come, clock)

    @property
    def may_lose_items(self) -> bool:
        """Whether items may be evicted, so that their number and usefulness matter after each record."""
        return self.bounds.items is not None or self.bounds.memory is not None

    def _begin_use(self, items: Iterable[str], clock: Clock) -> None:
        """Start counting the use of items that arrived."""
        if self.may_lose_items:
            slots = np.array(sorted(set(self.catalogue.slots(items))), np.int32)
            self.item_usage.start(slots, clock, self._item_half_life)

    def remove_item(self, item: str, clock: Clock) -> None:
        """Remove an item and wipe its columns: the one of its id, and those of histories it stood in."""
        self.catalogue.limit([(self.catalogue.slot(item), ALWAYS)])
        self.catalogue.remove(item, clock.events)
        self.item_usage.forget([self.catalogue.slot(item)])
        self.release("item", item)
        for field, limit in self.admissions.limits.items():
            if limit.items and (column := self.encoder.vocabulary.find(field, item)) is not None:
                self._wipe([column])
                self.encoder.vocabulary.release(field, item)
        self.catalogue.settle()

    def release(self, side: str, name: str) -> None:
        """Wipe the id column of an item or a user, if there is one."""
        field = self.encoder.id_field(side)
        if field is not None and self.encoder.vocabulary.find(field, name) is not None:
            self._wipe([self.encoder.vocabulary.release(field, name)])

    def release_columns(self, by_field: Mapping[int, Sequence[int]]) -> int:
        """Wipe columns, given by field, release the values they stood for, and return the number of columns."""
        for field, columns in by_field.items():
            self.encoder.vocabulary.release_all(field, columns)
        released = list(chain.from_iterable(by_field.values()))
        if released:
            self._wipe(released)
        return len(released)

    def release_values(self, columns: Iterable[int]) -> None:
        """Wipe columns of users' attributes and of contexts, and release the values they stood for; gaps are skipped."""
        vocabulary, own = self.encoder.vocabulary, list[int]()
        for column in columns:
            (field,), (value,) = vocabulary.fields_of(column, column + 1), vocabulary.values_of(column, column + 1)
            if value is not None:
                vocabulary.release(field, value)
                own.append(column)
        self._wipe(own)

    def _wipe(self, columns: Sequence[int]) -> None:
        self.usage.forget(columns)
        self.machine.parameters.release(columns)

    def unheld(self, field: int) -> Integers:
        """Return the columns of a field of items that no item has any more, in ascending order."""
        unheld = np.array(self.catalogue.unheld(), np.int32)
        own: Integers = unheld[self.machine.parameters.rows.field[unheld] == field]
        return own

    def admit(self, features: Features) -> None:
        """Admit the features of one record and commit the admission counts. Call `start` before any other change."""
        self.admissions.admit(features)
        self.admissions.commit()

    def start(self, clock: Clock) -> None:
        """Start the parameters of admitted features, and commit the vocabulary."""
        self._start(clock)
        self.encoder.vocabulary.commit()

    def take_schema(self, schema: Schema, clock: Clock) -> None:
        """Switch to a schema that has all present fields, and perhaps more, or other bounds of fields."""
        tracked = self._tracked_half_lives()
        self.encoder.take_schema(schema)
        self.machine.start(clock.position)
        self._tell_linear_fields()
        self._track(tracked, clock)
        self.encoder.vocabulary.commit()
        self.catalogue.take_layout(Layout(*self.encoder.item_layout()))
        # New fields may need attributes of last items that were not kept before.
        self.catalogue.describe_again(self.encoder.history.last_item_features)

    def take_bounds(self, bounds: Bounds, clock: Clock) -> None:
        """Switch to other bounds."""
        tracked = self._tracked_half_lives()
        counted, half_life = self.may_lose_items, self._item_half_life
        self.admissions.bounds = bounds
        self._expect_columns(bounds)
        if counted:
            self.item_usage.rescale(np.sort(self.catalogue.live()), clock, half_life, self._item_half_life)
        else:
            self._begin_use(self.catalogue.registered(), clock)
        self.admissions.follow(self.encoder.schema)
        self._track(tracked, clock)

    def follow_learners(self, learners: int) -> None:
        """Switch to so many learners of the same stream."""
        self.waits_for_merge = learners > 1
        if learners > 1:
            self.encoder.vocabulary.keep_items_apart()
        else:
            self.encoder.vocabulary.fill_any_gap()

    def check_learners(self) -> None:
        """Raise `InvalidInput` for `admit_after`, on which learners could not agree: each counts only its own uses."""
        for number, limit in self.admissions.limits.items():
            if limit.admit_after > 1:
                name, own = self.encoder.vocabulary.fields[number], shown(limit.admit_after)
                message = f"field {name!r} must not have admit_after where several learn, got {own}"
                raise InvalidInput(f"{message}; leave it out, or learn with one")

    # One event

    def effect_of(self, event: Event) -> Feedback:
        """Return the feedback that an event stands for; raise if the schema does not declare its kind."""
        return CHOICE if event.kind is None else self.encoder.schema.effect_of(event.kind)

    def check(self, event: Event, coming: Container[str] = ()) -> None:
        """Raise `InvalidInput` for an undeclared kind, or an item neither put nor in `coming` where items must be put."""
        self.effect_of(event)
        if not self.encoder.schema.open_items and event.item not in self.catalogue and event.item not in coming:
            error = InvalidInput(f"item must be one that was put, got {shown(event.item)}; put it first, or set open_items")
            error.field = "item"
            raise error

    def begin(self, event: Event) -> Transaction:
        """Open a transaction, before an event is admitted."""
        return Transaction(self.encoder.schema, self.catalogue.savepoint(event.item))

    def admit_event(self, event: Event, user: EncodedUser | None, features: Features, clock: Clock) -> tuple[Sparse, int]:
        """Admit all that is new about an event; return its request features as a sparse vector, and its item's slot.

        The features of the user are encoded already, or given as `features`.
        """
        columns, values, slot = self.admit_columns(event, features, clock)
        return (sparse(columns, values) if user is None else continued(user.column, user.value, columns, values)), slot

    def admit_columns(self, event: Event, features: Features, clock: Clock) -> tuple[list[int], list[float], int]:
        """Admit all that is new about an event; return the columns and weights of all features, and the item's slot."""
        features = features + self.encoder.describe_event(event.context, event.time)
        columns, weights = self.admissions.admit(features)
        return columns, weights, self._admit_item(event.item, clock)

    def admit_item(self, event: Event, clock: Clock) -> int:
        """Admit the item and context fields of an event whose user is unknown here, and return the item's slot."""
        if event.context and self.encoder.undeclared(event.context):
            self.encoder.describe_event(event.context, event.time)
        return self._admit_item(event.item, clock)

    def _admit_item(self, item: str, clock: Clock) -> int:
        if item in self.catalogue:
            self._start(clock)
        else:
            field = self.encoder.id_field("item")
            id_column = -1 if field is None else self.encoder.vocabulary.admit(field, item)
            self._start(clock)
            kept = self.encoder.history.last_item_features(item, {})
            self.catalogue.put(AdmittedItem(item, id_column, (), {}, kept), clock.events)
            self._begin_use([item], clock)
        return self.catalogue.slot(item)

    def note_use(self, columns: Sequence[int] | Integers, slot: int, after: Clock) -> None:
        """Count the use of the columns that an event brought, and of the item it chose."""
        if self.may_lose_items:
            self.item_usage.note_one(slot, after, self._item_half_life)
        if self.admissions.tracked:
            used = np.asarray(columns, np.int32)
            half_life = self.admissions.half_lives[self.machine.parameters.rows.field[used]]
            tracked = half_life > 0
            self.usage.note(used[tracked], after, half_life[tracked])

    def checkpoint_bounds(self) -> Callable[[], None]:
        """Copy everything bounds depend on, except vocabulary and parameters, and return a function that restores it."""
        undo_admissions, gone = self.admissions.checkpoint(), self.gone.copy()
        usage = self.usage.copy(len(self.encoder.vocabulary))
        undo_unheld, pairs = self.catalogue.checkpoint_unheld(), self.pairs

        def undo() -> None:
            undo_admissions()
            undo_unheld()
            self.usage, self.gone, self.pairs = usage, gone, pairs

        return undo

    def last_learned(self, columns: Integers, clock: Clock) -> Longs:
        """Return the event at which each column was last learned, estimated from positions: not only events have them."""
        own: Longs = clock.events - (clock.position - self.machine.parameters.rows.touched_at[columns])
        return own

    def user_last_learned(self, user: str, clock: Clock) -> int | None:
        """Return the event at which a user's id was last learned, or None where user ids are no features."""
        field = self.encoder.id_field("user")
        column = None if field is None else self.encoder.vocabulary.find(field, user)
        return None if column is None else int(self.last_learned(np.array([column], np.int32), clock)[0])

    @property
    def _item_half_life(self) -> float:
        return self.bounds.half_life_of(self.bounds.items)

    def _tracked_half_lives(self) -> dict[int, float]:
        return {field: float(self.admissions.half_lives[field]) for field in self.admissions.tracked}

    def _track(self, before: Mapping[int, float], clock: Clock) -> None:
        """Count values of newly bounded fields as used once, when last learned; rescale others to their new half-life."""
        for field in self.admissions.tracked:
            listed, after = self.encoder.vocabulary.listed(field), float(self.admissions.half_lives[field])
            if field not in before:
                self.usage.start_as_used(listed, self.last_learned(listed, clock), clock, after)
            elif before[field] != after:
                self.usage.rescale(listed, clock, before[field], after)

    @property
    def uncommitted(self) -> bool:
        """Whether any admission or refusal is not committed yet."""
        return self.encoder.vocabulary.uncommitted or self.admissions.uncommitted

    def commit(self) -> None:
        """Commit pending admissions."""
        self.encoder.vocabulary.commit()
        self.admissions.commit()
        self.catalogue.settle()

    def rollback(self, transaction: Transaction, clock: Clock) -> None:
        """Roll back the admissions of a transaction."""
        if transaction.savepoint is not None:
            self.item_usage.forget([self.catalogue.slot(transaction.savepoint.item)])
            self.catalogue.undo(transaction.savepoint, clock.events)
        freed = self.encoder.return_to(transaction.schema)
        self.usage.forget(freed)
        self.machine.undo(freed)

    def learn(
        self,
        x: Sparse,
        slot: int,
        history: UserHistory,
        weight: float,
        counted: bool,
        passed_over: Sequence[int],
        time: float,
        clock: Clock,
    ) -> bool:
        """Learn from an event against negatives of its time and count it; return False, changing nothing, if it diverged."""
        parameters = self.machine.parameters
        parameters.make_room(self.most_touched(len(x.column), len(passed_over)))
        self.catalogue.make_room(len(history.recent))
        above = np.array(passed_over, np.int32) if passed_over else NOTHING_PASSED_OVER
        batch = batch_of_one(x, slot, clock.position, time, weight, counted, history, above)
        learned = self._learned(batch, 0, clock.events) == 1
        parameters.changes += learned
        return learned

    def learn_batch(self, batch: EventBatch, first: int, longest: int, clock: int) -> int:
        """Learn from a batch from event `first` on, with at most `longest` columns each.

        Return the number of the event whose update diverged, or the size of the batch.
        """
        parameters = self.machine.parameters
        passed_over = int(np.diff(batch.passed_offset).max())
        parameters.make_room(self.most_touched(longest, passed_over))
        self.catalogue.make_room(len(batch.recent) + 2 * len(batch.slot))
        parameters.changes += 1
        return self._learned(batch, first, clock)

    def _learned(self, batch: EventBatch, first: int, clock: int) -> int:
        """Learn from events from the first on; return the number of the one that diverged, or of all."""
        parameters, items, drawn = self.machine.parameters, self.catalogue.items, self.draw(0, 0.0)
        own = (parameters.rows, parameters.optimizer, self.machine.rule, items, drawn)
        return int(_learn_events(*own, batch, first, clock))

    def draw(self, position: int, time: float) -> NegativeDraw:
        """Return how to draw the negatives of an event at a position and a time."""
        exclude_seen = self.encoder.schema.exclude_seen
        negatives = self.hyperparameters.negatives
        return NegativeDraw(self._draw_key, position, negatives, exclude_seen, time, NOTHING_PASSED_OVER)

    def most_touched(self, context: int, passed_over: int = 0) -> int:
        """Return the most columns that one update can touch, given the sizes of its context and of its items passed over."""
        return context + (1 + self.hyperparameters.negatives + passed_over) * self.catalogue.most_features()

    def passed_over(self, event: Event, effect: Feedback) -> list[int]:
        """Return the slots of the items shown above an event's item and not taken, which it is contrasted with.

        The last ones are kept: they stood next to the item, and so were the likeliest to be seen.
        """
        most = self.hyperparameters.passed_over
        if not most or not event.passed_over or effect.weight <= 0:
            return []
        return self.catalogue.slots(event.passed_over[-most:])

    def _start(self, clock: Clock) -> None:
        if not self.encoder.vocabulary.uncommitted:
            return
        tracked = self.admissions.tracked
        started = [one.column for one in self.machine.start(clock.position) if one.field in tracked]
        if started:
            new = np.array(started, np.int32)
            self.usage.start(new, clock, self.admissions.half_lives[self.machine.parameters.rows.field[new]])

    def _expect_columns(self, bounds: Bounds) -> None:
        """Reserve the columns that a budget has room for, so that nothing is copied when they are admitted."""
        parameters = self.machine.parameters
        parameters.most_columns = self.usage.most_rows = (bounds.memory_bytes or 0) // parameters.row_bytes

    def _tell_linear_fields(self) -> None:
        """Tell the machine which fields are left out of the interactions."""
        factored: Flags = self.machine.parameters.optimizer.factored
        for side in SIDES:
            for field in getattr(self.encoder.schema, side):
                factored[self.encoder.vocabulary.field(f"{side}.{field.name}")] = not field.linear
