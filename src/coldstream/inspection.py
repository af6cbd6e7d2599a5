"""Looking at what was learned: features by name, which are alike, which have changed, how strongly fields are held."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from coldstream.arrays import Floats
from coldstream.errors import UnknownId, shown
from coldstream.features.vocabulary import Vocabulary
from coldstream.shared_model import SharedModel


class Found(NamedTuple):
    """Some of those that were looked for, and how many there are."""

    names: list[str]
    total: int


class Near(NamedTuple):
    """A feature and the cosine between its vector and the one that was asked about."""

    feature: str
    similarity: float


class Change(NamedTuple):
    """A feature and how far its weight and vector have moved."""

    feature: str
    change: float


def named(field: str, value: str) -> str:
    """A feature as people read it: `item.genre=jazz`."""
    return f"{field}={value}" if value else field


def searched(names: Iterator[str], text: str, limit: int, offset: int = 0) -> Found:
    """The names that hold a text, whatever the case; some of them from an offset on, and the number of all."""
    wanted = text.casefold()
    matching = [name for name in names if wanted in name.casefold()]
    return Found(matching[offset : offset + limit], len(matching))


class Inspection:
    """A closer look at what is known. It only reads."""

    def __init__(self, shared: SharedModel, events: int) -> None:
        self._shared, self._events = shared, events

    def features(self, search: str, limit: int, offset: int = 0) -> Found:
        """Names of features that hold a text."""
        vocabulary = self._shared.encoder.vocabulary
        owners = (vocabulary.owner_or_none(column) for column in range(len(vocabulary)))
        return searched((named(*owner) for owner in owners if owner), search, limit, offset)

    def nearest(self, feature: str, n: int) -> list[Near]:
        """The features most like one, by the cosine of their vectors."""
        return _nearest(self._shared, feature, n)

    def penalties(self) -> dict[str, float]:
        """λ per field where it adapts per field: of the vectors, or of the weight where a field has none. Else nothing."""
        return _penalties(self._shared)

    def changes(self) -> "Changes":
        """The parameters as they are now, to compare with later."""
        return Changes(self._shared, self._events)

    def changed(self, since: "Changes", n: int) -> list[Change]:
        """The features that have moved farthest since then."""
        return since.most(self._shared, n)


def _nearest(shared: SharedModel, feature: str, n: int) -> list[Near]:
    vocabulary, V = shared.encoder.vocabulary, shared.machine.parameters.theta.V
    column = _column(vocabulary, feature)
    used = [c for c in range(len(vocabulary)) if c != column and vocabulary.owner_or_none(c)]
    lengths = np.linalg.norm(V[: len(vocabulary)], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = V[used] @ V[column] / (lengths[used] * lengths[column])
    cosine = np.where(np.isfinite(cosine), cosine, -1.0)  # a vector of no length points nowhere
    best = np.argsort(-cosine, kind="stable")[:n]
    return [Near(named(*vocabulary.owner(used[place])), float(cosine[place])) for place in best.tolist()]


def _penalties(shared: SharedModel) -> dict[str, float]:
    if shared.hyperparameters.regularization != "per-field":
        return {}
    state = shared.machine.parameters.optimizer
    has_vectors = state.factored if state.lambda_V.shape[1] else np.zeros_like(state.factored)
    return {
        name: float(state.lambda_V[number].mean() if has_vectors[number] else state.lambda_w[number])
        for number, name in enumerate(shared.encoder.vocabulary.fields)
    }


class Changes:
    """How far features have moved since a moment: a copy of the parameters of then."""

    def __init__(self, shared: SharedModel, events: int) -> None:
        theta, vocabulary = shared.machine.parameters.theta, shared.encoder.vocabulary
        self.events = events
        self._owners = [vocabulary.owner_or_none(column) for column in range(len(vocabulary))]
        self._w: Floats = theta.w[: len(vocabulary)].copy()
        self._V: Floats = theta.V[: len(vocabulary)].copy()

    def most(self, shared: SharedModel, n: int) -> list[Change]:
        """The features that have moved farthest. Those that came or went since are not compared."""
        theta, vocabulary = shared.machine.parameters.theta, shared.encoder.vocabulary
        size = min(len(self._w), len(vocabulary))
        moved = np.sqrt((theta.w[:size] - self._w[:size]) ** 2 + ((theta.V[:size] - self._V[:size]) ** 2).sum(axis=1))
        same = [owner is not None and owner == vocabulary.owner_or_none(c) for c, owner in enumerate(self._owners[:size])]
        moved = np.where(same, moved, 0.0)
        best = np.argsort(-moved, kind="stable")[:n]
        return [Change(named(*vocabulary.owner(c)), float(moved[c])) for c in best.tolist() if moved[c] > 0]


def _column(vocabulary: Vocabulary, feature: str) -> int:
    for column in range(len(vocabulary)):
        owner = vocabulary.owner_or_none(column)
        if owner is not None and named(*owner) == feature:
            return column
    raise UnknownId(f"feature {shown(feature)} is not known; look for it with a part of its name")
