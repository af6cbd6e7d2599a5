"""What everybody shares: the encoder, the machine and the catalogue, kept in step with each other.

Every change happens in an order that can be taken back: what can be refused is checked first, all that is new about an event
is admitted at once, and only an update that succeeded is committed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coldstream.arrays import Flags, checked_columns
from coldstream.catalogue.catalogue import AdmittedItem, Catalogue, Layout, Savepoint
from coldstream.catalogue.combinations import entries_of
from coldstream.catalogue.learning import EventBatch, learn_event, learn_events
from coldstream.catalogue.negative_sampling import NegativeDraw
from coldstream.catalogue.neighbours import neighbours_of
from coldstream.catalogue.shapes import UserHistory
from coldstream.catalogue.trends import trends_of
from coldstream.config import Hyperparameters
from coldstream.events.clock import Clock
from coldstream.events.event import Event
from coldstream.features.encoded_user import EncodedUser
from coldstream.features.encoder import Encoder, ItemAttribute
from coldstream.features.fields import Again, Follows, Together, Trend
from coldstream.features.history import Features
from coldstream.features.schema import SIDES, Schema
from coldstream.features.sparse import Sparse, continued, sparse
from coldstream.features.vocabulary import Vocabulary
from coldstream.model.compiled import unchecked_entry
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.model.keyed_random import key_of
from coldstream.ragged import documents, joined_documents, joined_texts, parted_texts, texts
from coldstream.scoring.scorer import scorer_of

_learn_event, _learn_events = unchecked_entry(learn_event), unchecked_entry(learn_events)


class DescribedItem(NamedTuple):
    """An item that was checked: its id, its attributes as given, and what they make."""

    item: str
    attributes: Mapping[str, Any]
    fields: Sequence[ItemAttribute]


class Transaction(NamedTuple):
    """What it takes to take an event back: the schema before it, and the catalogue before its item came."""

    schema: Schema
    savepoint: Savepoint | None


class SharedModel:
    """The encoder, the machine, the catalogue and the scorer. Takes only what was checked before, and keeps no clock."""

    def __init__(self, schema: Schema, hyperparameters: Hyperparameters, seed: int, vocabulary: Vocabulary) -> None:
        self.encoder = Encoder(schema, vocabulary)
        self.machine = FactorizationMachine(hyperparameters, seed, vocabulary)
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
        self.scorer = scorer_of(self.machine, self.catalogue)
        self._draw_key = key_of(seed, "negatives")

    @property
    def hyperparameters(self) -> Hyperparameters:
        """All hyperparameters in use."""
        return self.machine.hyperparameters

    # Items, users' ids and fields come, change and go

    def put_items(self, items: Iterable[DescribedItem], clock: Clock) -> None:
        """Add items, or give them other attributes."""
        encoder, admit = self.encoder, self.encoder.vocabulary.admit
        id_field, keep = encoder.id_field("item"), encoder.history.last_item_features
        put = []
        for item, attributes, fields in items:
            for own in fields:
                if own.entries is None:
                    own.entries = entries_of([(admit(own.field, value), weight) for value, weight in own.features])
            id_column = -1 if id_field is None else admit(id_field, item)
            put.append(AdmittedItem(item, id_column, fields, attributes, keep(item, attributes)))
        self._start(clock)
        self.catalogue.put_all(put, clock.events)
        self.encoder.vocabulary.commit()

    def remove_item(self, item: str, clock: Clock) -> None:
        """Take an item out and wipe its id column."""
        self.catalogue.remove(item, clock.events)
        self.release("item", item)
        self.catalogue.settle()

    def release(self, side: str, name: str) -> None:
        """Wipe the id column of an item or a user, where there is one."""
        field = self.encoder.id_field(side)
        if field is not None and self.encoder.vocabulary.find(field, name) is not None:
            self.machine.parameters.release([self.encoder.vocabulary.release(field, name)])

    def release_values(self, columns: Iterable[int]) -> None:
        """Wipe columns of users' attributes and of contexts, and forget the values they stood for."""
        vocabulary, own = self.encoder.vocabulary, list(columns)
        for column in own:
            (field,), (value,) = vocabulary.fields_of(column, column + 1), vocabulary.values_of(column, column + 1)
            assert value is not None, f"column {column} stands for something"
            vocabulary.release(field, value)
        self.machine.parameters.release(own)

    def admit(self, features: Features, clock: Clock) -> None:
        """Let features in, for good."""
        self.encoder.admit_columns(features)
        self._start(clock)
        self.encoder.vocabulary.commit()

    def take_schema(self, schema: Schema, clock: Clock) -> None:
        """Go on with a schema that has all fields there are, and perhaps more."""
        self.encoder.take_schema(schema)
        self.machine.start(clock.position)
        self._tell_linear_fields()
        self.encoder.vocabulary.commit()
        self.catalogue.take_layout(Layout(*self.encoder.item_layout()))
        # New fields may ask for attributes of last items that nothing was kept of.
        self.catalogue.describe_again(self.encoder.history.last_item_features)

    # One event

    def begin(self, event: Event) -> Transaction:
        """Before an event is admitted."""
        return Transaction(self.encoder.schema, self.catalogue.savepoint(event.item))

    def admit_event(self, event: Event, user: EncodedUser | None, features: Features, clock: Clock) -> tuple[Sparse, int]:
        """The request side of an event as a sparse vector, and the item's slot; all that is new is admitted at once.

        What the user brings is encoded already, or given as features.
        """
        columns, values, slot = self.admit_columns(event, features, clock)
        return (sparse(columns, values) if user is None else continued(user.column, user.value, columns, values)), slot

    def admit_columns(self, event: Event, features: Features, clock: Clock) -> tuple[list[int], list[float], int]:
        """The same as lists, of the features given and of the event's own."""
        features = features + self.encoder.describe_event(event.context, event.time)
        columns = self.encoder.admit_columns(features)
        if event.item in self.catalogue:
            self._start(clock)
        else:
            field = self.encoder.id_field("item")
            id_column = -1 if field is None else self.encoder.vocabulary.admit(field, event.item)
            self._start(clock)
            kept = self.encoder.history.last_item_features(event.item, {})
            self.catalogue.put(AdmittedItem(event.item, id_column, (), {}, kept), clock.events)
        return columns, [weight for _, _, weight in features], self.catalogue.slot(event.item)

    def commit(self) -> None:
        """What was admitted stays."""
        self.encoder.vocabulary.commit()
        self.catalogue.settle()

    def rollback(self, transaction: Transaction, clock: Clock) -> None:
        """Take back what was admitted."""
        if transaction.savepoint is not None:
            self.catalogue.undo(transaction.savepoint, clock.events)
        self.machine.undo(self.encoder.return_to(transaction.schema))

    def learn(self, x: Sparse, slot: int, history: UserHistory, clock: Clock) -> bool:
        """Contrast an event with drawn negatives, learn and count it; False, and nothing changed, where it diverged."""
        parameters = self.machine.parameters
        parameters.make_room(self.most_touched(len(x.column)))
        self.catalogue.make_room(len(history.recent))
        items, drawn = self.catalogue.items, self.draw(clock.position)
        learned: bool = _learn_event(
            parameters.rows, parameters.optimizer, self.machine.rule, items, drawn, x, slot, history, clock.events
        )
        parameters.changes += learned
        return learned

    def learn_batch(self, batch: EventBatch, first: int, longest: int, clock: int) -> int:
        """Learn the events of a batch from the first on, the longest of so many columns; where one diverged, or all."""
        parameters = self.machine.parameters
        parameters.make_room(self.most_touched(longest))
        self.catalogue.make_room(len(batch.recent) + 2 * len(batch.slot))
        parameters.changes += 1
        own, items, drawn = parameters.optimizer, self.catalogue.items, self.draw(0)
        return int(_learn_events(parameters.rows, own, self.machine.rule, items, drawn, batch, first, clock))

    def draw(self, position: int) -> NegativeDraw:
        """Where the negatives of an event come from."""
        exclude_seen = self.encoder.schema.exclude_seen
        return NegativeDraw(self._draw_key, position, self.hyperparameters.negatives, exclude_seen)

    def most_touched(self, context: int) -> int:
        """The most columns that one update can touch."""
        return context + (1 + self.hyperparameters.negatives) * self.catalogue.most_features()

    # What survives

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything, as one JSON document and named arrays."""
        catalogue, catalogue_arrays = self.catalogue.state()
        vocabulary = self.encoder.vocabulary.document()
        values, items = joined_texts(vocabulary.pop("column_value")), joined_texts(catalogue.pop("ids"))
        notes = joined_documents(zip(catalogue.pop("attributes"), catalogue.pop("notes"), strict=True))
        document = {
            "schema": self.encoder.schema.document(),
            "hyperparameters": self.hyperparameters.document(),
            "seed": self.machine.seed,
            "fields": vocabulary["fields"],
            "catalogue": catalogue,
        }
        parts: dict[str, dict[str, NDArray[Any]]] = {
            "model": self.machine.state(),
            "vocabulary": {
                "field": np.array(vocabulary["column_field"], np.int32),
                "value": values[0],
                "value_length": values[1],
            },
            "catalogue": catalogue_arrays
            | {"id": items[0], "id_length": items[1], "note": notes[0], "note_length": notes[1]},
        }
        return document, {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    @classmethod
    def from_state(cls, document: Mapping[str, Any], parts: Mapping[str, Mapping[str, NDArray[Any]]]) -> "SharedModel":
        """The inverse of `state`, from arrays by part."""
        shared = cls(
            Schema.from_document(document["schema"]),
            Hyperparameters.from_document(document["hyperparameters"]),
            document["seed"],
            _vocabulary(document["fields"], parts["vocabulary"]),
        )
        shared.machine.restore(parts["model"])
        if shared.machine.parameters.columns != len(shared.encoder.vocabulary):
            raise ValueError("the vocabulary and the parameters have not the same columns")
        columns, has_ids = shared.machine.parameters.columns, shared.encoder.id_field("item") is not None
        own = parts["catalogue"]
        notes = documents(own["note"], own["note_length"])
        catalogue = document["catalogue"] | {
            "ids": texts(own["id"], own["id_length"]),
            "attributes": [attributes for attributes, _ in notes],
            "notes": [note for _, note in notes],
        }
        if not len(set(catalogue["ids"])) == len(catalogue["ids"]) == len(notes):
            raise ValueError("an item is there twice, or has no attributes")
        shared.catalogue.restore(columns, has_ids, catalogue, own)
        return shared

    def _start(self, clock: Clock) -> None:
        if self.encoder.vocabulary.uncommitted:
            self.machine.start(clock.position)

    def _tell_linear_fields(self) -> None:
        """Tell the machine which fields stay out of the interactions."""
        factored: Flags = self.machine.parameters.optimizer.factored
        for side in SIDES:
            for field in getattr(self.encoder.schema, side):
                factored[self.encoder.vocabulary.field(f"{side}.{field.name}")] = not field.linear


def _vocabulary(fields: Sequence[str], arrays: Mapping[str, NDArray[Any]]) -> Vocabulary:
    column_field = checked_columns("vocabulary.field", arrays["field"], -1, len(fields)).tolist()
    values = parted_texts(arrays["value"], arrays["value_length"])
    if any((field < 0) != (value is None) for field, value in zip(column_field, values, strict=True)):
        raise ValueError("a column has a field and no value, or a value and no field")
    return Vocabulary.from_document({"fields": fields, "column_field": column_field, "column_value": values})


def parts_of(arrays: Mapping[str, NDArray[Any]], *names: str) -> dict[str, dict[str, NDArray[Any]]]:
    """Named arrays by the part that their names begin with. Others may keep parts of their own in the same file."""
    parts: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in names}
    for name, array in arrays.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = array
    return parts
