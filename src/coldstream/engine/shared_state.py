"""State of the shared model: its form as one JSON document and named arrays, and how to read it back."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.bounds.bounds import Bounds
from coldstream.config import Hyperparameters
from coldstream.engine.shared_model import SharedModel
from coldstream.features.encoder import Encoder
from coldstream.features.history import check_last_item
from coldstream.features.schema import Schema
from coldstream.features.vocabulary import ITEM_GAP, Vocabulary
from coldstream.support.arrays import checked_columns, saved_count
from coldstream.support.ragged import documents, joined_documents, joined_texts, parted_texts, texts

MODEL = "model."
"""Prefix of the names of the machine's arrays."""


def view_of(shared: SharedModel) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the state as a JSON document and named arrays. The machine's arrays are views, valid until the next change."""
    catalogue, catalogue_arrays = shared.catalogue.state()
    vocabulary = shared.encoder.vocabulary.document()
    values, items = joined_texts(vocabulary.pop("column_value")), joined_texts(catalogue.pop("ids"))
    notes = joined_documents(zip(catalogue.pop("attributes"), catalogue.pop("notes"), strict=True))
    admissions, sketches = shared.admissions.state()
    rows = shared.machine.parameters.columns if shared.admissions.tracked else 0
    document = {
        "bounds": shared.bounds.document(),
        "admissions": admissions,
        "pairs": shared.pairs,
        "gone": dict(sorted(shared.gone.items())),
        "schema": shared.encoder.schema.document(),
        "hyperparameters": shared.hyperparameters.document(),
        "seed": shared.machine.seed,
        "fields": vocabulary["fields"],
        "catalogue": catalogue,
    }
    parts: dict[str, dict[str, NDArray[Any]]] = {
        "model": shared.machine.parameters.view(),
        "vocabulary": {
            "field": np.array(vocabulary["column_field"], np.int32),
            "value": values[0],
            "value_length": values[1],
        },
        "catalogue": catalogue_arrays
        | {f"window_{name}": array for name, array in _windows(shared).items()}
        | {"id": items[0], "id_length": items[1], "note": notes[0], "note_length": notes[1]},
    }
    slots = len(shared.catalogue.ids) if shared.may_lose_items else 0
    parts |= {"usage": shared.usage.state(rows), "item_usage": shared.item_usage.state(slots), "admissions": sketches}
    return document, {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}


def _windows(shared: SharedModel) -> dict[str, NDArray[Any]]:
    """Return the items' availability windows if any item has one; a state without them equals one of older versions."""
    return shared.catalogue.windows.state() if shared.catalogue.windows.limited else {}


def shared_model_of(document: Mapping[str, Any], parts: Mapping[str, Mapping[str, NDArray[Any]]]) -> SharedModel:
    """Build the shared model from a document and arrays by part, as the inverse of `view_of`."""
    shared = SharedModel(
        Schema.from_document(document["schema"]),
        Hyperparameters.from_document(document["hyperparameters"]),
        document["seed"],
        _vocabulary(document["fields"], parts["vocabulary"]),
        Bounds.from_document(document.get("bounds", {})),
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
    if len(catalogue["ids"]) != len(notes):
        raise ValueError("an item has no attributes")
    checked: set[object] = set()
    for attributes, note in notes:
        shared.encoder.check_attributes("item", attributes, checked)
        check_last_item(note, len(shared.encoder.vocabulary.fields))
    shared.catalogue.restore(columns, has_ids, catalogue, own)
    _check_item_columns(shared.encoder, parts["vocabulary"]["field"], own)
    windows = {name.removeprefix("window_"): array for name, array in own.items() if name.startswith("window_")}
    shared.catalogue.windows.restore(shared.catalogue.live().tolist(), windows)
    held = (number for number, limit in shared.admissions.limits.items() if limit.held)
    id_field = shared.encoder.id_field("item")
    shared.catalogue.find_unheld(
        column for number in held if number != id_field for column in shared.encoder.vocabulary.columns(number)
    )
    shared.gone = Counter({name: saved_count(name, own) for name, own in document.get("gone", {}).items()})
    shared.pairs = saved_count("pairs", document.get("pairs", 0))
    if "admissions" in document:
        shared.admissions.restore(shared.encoder.schema, document["admissions"], parts["admissions"])
        if shared.admissions.tracked:
            shared.usage.restore(columns, parts["usage"])
        if shared.may_lose_items:
            shared.item_usage.restore(len(shared.catalogue.ids), parts["item_usage"])
    return shared


def _check_item_columns(encoder: Encoder, field: NDArray[Any], own: Mapping[str, NDArray[Any]]) -> None:
    """Raise `ValueError` for items with columns that stand for nothing, or for a value of another field."""
    id_field = encoder.id_field("item")
    categories, numbers = encoder.item_layout()
    known, of_numbers = own["number_column"] >= 0, np.array(numbers, np.int32)
    sound = id_field is None or bool((field[own["id_column"]] == id_field).all())
    sound = sound and bool(np.isin(field[own["combination_column"]], categories).all())
    if not sound or not np.array_equal(field[own["number_column"][known]], of_numbers[known]):
        raise ValueError("an item has a column that is not of its field")


def _vocabulary(fields: Sequence[str], arrays: Mapping[str, NDArray[Any]]) -> Vocabulary:
    column_field = checked_columns("vocabulary.field", arrays["field"], ITEM_GAP, len(fields))
    values = parted_texts(arrays["value"], arrays["value_length"])
    if not np.array_equal(column_field < 0, arrays["value_length"] < 0):
        raise ValueError("a column has a field and no value, or a value and no field")
    return Vocabulary.from_document({"fields": fields, "column_field": column_field.tolist(), "column_value": values})


def parts_of(arrays: Mapping[str, NDArray[Any]], *names: str) -> dict[str, dict[str, NDArray[Any]]]:
    """Group named arrays by the part before the first dot. Parts beyond `names` are kept: other code may store them."""
    parts: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in names}
    for name, array in arrays.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = array
    return parts
