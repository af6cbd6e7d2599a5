"""Looking at what was learned: features by name, which are alike, which have changed, how strongly fields are held."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from coldstream.arrays import Floats
from coldstream.errors import UnknownId, shown
from coldstream.features.vocabulary import Vocabulary
from coldstream.knowledge import Knowledge


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


class Insight:
    """A closer look at what is known. It only reads."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known

    def features(self, search: str, limit: int, offset: int = 0) -> Found:
        """Names of features that hold a text."""
        vocabulary = self._known.encoder.vocabulary
        owners = (vocabulary.owner_or_none(column) for column in range(len(vocabulary)))
        return searched((named(*owner) for owner in owners if owner), search, limit, offset)

    def nearest(self, feature: str, n: int) -> list[Near]:
        """The features most like one, by the cosine of their vectors."""
        return _nearest(self._known, feature, n)

    def penalties(self) -> dict[str, float]:
        """λ per field where it adapts per field: of the vectors, or of the weight where a field has none. Else nothing."""
        return _penalties(self._known)

    def changes(self) -> "Changes":
        """The parameters as they are now, to compare with later."""
        return Changes(self._known)

    def changed(self, since: "Changes", n: int) -> list[Change]:
        """The features that have moved farthest since then."""
        return since.most(self._known, n)


def _nearest(known: Knowledge, feature: str, n: int) -> list[Near]:
    vocabulary, V = known.encoder.vocabulary, known.machine.parameters.theta.V
    column = _column(vocabulary, feature)
    used = [c for c in range(len(vocabulary)) if c != column and vocabulary.owner_or_none(c)]
    lengths = np.linalg.norm(V[: len(vocabulary)], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = V[used] @ V[column] / (lengths[used] * lengths[column])
    cosine = np.where(np.isfinite(cosine), cosine, -1.0)  # a vector of no length points nowhere
    best = np.argsort(-cosine, kind="stable")[:n]
    return [Near(named(*vocabulary.owner(used[place])), float(cosine[place])) for place in best.tolist()]


def _penalties(known: Knowledge) -> dict[str, float]:
    if known.hyperparameters.regularization != "per-field":
        return {}
    memory = known.machine.parameters.memory
    has_vectors = memory.factored if memory.lambda_V.shape[1] else np.zeros_like(memory.factored)
    return {
        name: float(memory.lambda_V[number].mean() if has_vectors[number] else memory.lambda_w[number])
        for number, name in enumerate(known.encoder.vocabulary.fields)
    }


class Changes:
    """How far features have moved since a moment: a copy of the parameters of then."""

    def __init__(self, known: Knowledge) -> None:
        theta, vocabulary = known.machine.parameters.theta, known.encoder.vocabulary
        self.events = known.events
        self._owners = [vocabulary.owner_or_none(column) for column in range(len(vocabulary))]
        self._w: Floats = theta.w[: len(vocabulary)].copy()
        self._V: Floats = theta.V[: len(vocabulary)].copy()

    def most(self, known: Knowledge, n: int) -> list[Change]:
        """The features that have moved farthest. Those that came or went since are not compared."""
        theta, vocabulary = known.machine.parameters.theta, known.encoder.vocabulary
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
