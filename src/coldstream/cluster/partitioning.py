"""Partitioning: the part of a state for one of several learners, with all items and its own users and columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldstream.bounds.bounds import Bounds
from coldstream.cluster.exchange import owner
from coldstream.features.fields import Id
from coldstream.features.schema import Schema
from coldstream.features.vocabulary import ITEM_GAP
from coldstream.model.shapes import Rows
from coldstream.snapshots.increments import State
from coldstream.support.arrays import Integers
from coldstream.support.ragged import joined, joined_texts, parted, parted_texts

_LAST_UPDATE = ("touched", "sw", "sV")


def part_of(state: State, learner: int, learners: int) -> State:
    """Return one learner's initial state. Its only gaps are those of items, which new items fill in all learners alike."""
    if learners == 1:
        return state
    document, arrays = state
    keeps = _kept_columns(document, arrays, learner, learners)
    number: Integers = (np.cumsum(keeps) - 1).astype(np.int32)
    found = dict(arrays)
    values = parted_texts(arrays["vocabulary.value"], arrays["vocabulary.value_length"])
    found["vocabulary.field"] = arrays["vocabulary.field"][keeps]
    kept = [value for value, keep in zip(values, keeps.tolist(), strict=True) if keep]
    found["vocabulary.value"], found["vocabulary.value_length"] = joined_texts(kept)
    by_column = [*(f"model.{name}" for name in Rows._fields), *(name for name in arrays if name.startswith("usage."))]
    for name in by_column:
        if len(arrays[name]) == len(keeps):
            found[name] = arrays[name][keeps]
    document = {**document, "bounds": own_bounds(Bounds.from_document(document.get("bounds", {}))).document()}
    for name in _LAST_UPDATE:  # every merge forgets the last update
        found[f"model.{name}"] = arrays[f"model.{name}"][:0]
    found["model.touches"] = np.zeros(1, np.int32)
    for name in ("catalogue.id_column", "catalogue.combination_column", "catalogue.number_column"):
        own = arrays[name]
        found[name] = np.where(own >= 0, number[own], own).astype(np.int32)
    return document, found | _own_users(arrays, learner, learners)


def own_bounds(bounds: Bounds) -> Bounds:
    """Return the bounds of one learner: it is told what to evict, as it does not know the whole state."""
    return bounds.with_(memory=None, users=None, items=None, expire_users=None)


def _kept_columns(
    document: dict[str, Any], arrays: dict[str, NDArray[Any]], learner: int, learners: int
) -> NDArray[np.bool_]:
    column_field = arrays["vocabulary.field"]
    keeps: NDArray[np.bool_] = (column_field >= 0) | (column_field == ITEM_GAP)
    names = [field.name for field in Schema.from_document(document["schema"]).user if isinstance(field, Id)]
    if names:
        field = document["fields"].index(f"user.{names[0]}")
        values = parted_texts(arrays["vocabulary.value"], arrays["vocabulary.value_length"])
        for column in np.flatnonzero(column_field == field).tolist():
            keeps[column] = owner(str(values[column]), learners) == learner
    return keeps


def _own_users(arrays: dict[str, NDArray[Any]], learner: int, learners: int) -> dict[str, NDArray[Any]]:
    ids = parted_texts(arrays["users.id"], arrays["users.id_length"])
    users = parted(arrays["users.user"], arrays["users.user_length"])
    own = [at for at, user in enumerate(ids) if owner(str(user), learners) == learner]
    id_, id_length = joined_texts([ids[at] for at in own])
    user, user_length = joined([users[at] for at in own])
    return {"users.id": id_, "users.id_length": id_length, "users.user": user, "users.user_length": user_length}
