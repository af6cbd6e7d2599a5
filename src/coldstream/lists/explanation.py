"""Why a score is what it is: the terms that it is the sum of.

An explanation is made in two steps. `side_of` copies what a side of a score brings, in one pass over its features.
`explained` works on those copies alone, so it may run in another thread while others learn. Its work is bounded: where
features make too many terms, those of a field go together, and their pairs with another field are one product of two sums.
"""

import math
from typing import NamedTuple

import numpy as np

from coldstream.config import Pairs
from coldstream.features.sparse import Sparse
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.support.arrays import Doubles

MOST_TERMS = 1000
"""Terms that an explanation has at most, and the most that are worked out feature by feature."""

REST = "rest"
"""Stands for all terms that are too light to be listed. No feature has this name: each begins with its side."""


class Term(NamedTuple):
    """One addend and its `value`: no features for w0, one for a linear term, two for an interaction.

    Where features make too many terms, the name of a field stands for all that a request or an item has of it; `rest` alone
    stands for all the terms that are not listed.
    """

    features: tuple[str, ...]
    value: float


class Explanation(NamedTuple):
    """A score and the terms that add up to it but for rounding, the weightiest first and `rest` at the end."""

    score: float
    terms: tuple[Term, ...]


class ScoreSide(NamedTuple):
    """The request side or the item side of a score, in copies: by feature its field, its value, x · w and x · v."""

    fields: tuple[str, ...]
    values: tuple[str, ...]
    w: Doubles
    V: Doubles


class Addends(NamedTuple):
    """All that a score adds up from."""

    score: float
    intercept: float
    pairs: Pairs
    request: ScoreSide
    item: ScoreSide


def side_of(machine: FactorizationMachine, x: Sparse) -> ScoreSide:
    """What a side brings."""
    theta, owner = machine.parameters.theta, machine.vocabulary.owner
    fields, values = zip(*map(owner, x.column.tolist()), strict=True) if len(x.column) else ((), ())
    value = x.value.astype(np.float64)
    w, V = theta.w[x.column].astype(np.float64), theta.V[x.column].astype(np.float64)
    return ScoreSide(fields, values, w * value, V * value[:, None])


def explained(addends: Addends, most: int = MOST_TERMS) -> Explanation:
    """The linear and pairwise terms of a score, at most so many."""
    request, item = _by_feature(addends.request), _by_feature(addends.item)
    if _term_count(addends.pairs, len(request.names), len(item.names)) > MOST_TERMS:
        request, item = _by_field(addends.request), _by_field(addends.item)
    return Explanation(addends.score, _weightiest(addends, request, item, most))


class _Groups(NamedTuple):
    """Features added up: by group its name, how many they are, Σ x w, Σ x v and Σ |x v|²."""

    names: list[str]
    size: Doubles
    w: Doubles
    V: Doubles
    squares: Doubles


def _by_feature(side: ScoreSide) -> _Groups:
    names = [f"{field}={value}" if value else field for field, value in zip(side.fields, side.values, strict=True)]
    return _Groups(names, np.ones(len(names)), side.w, side.V, (side.V * side.V).sum(axis=1))


def _by_field(side: ScoreSide) -> _Groups:
    """Those of a field go together; one that is alone keeps its name."""
    members: dict[str, list[int]] = {}
    for n, field in enumerate(side.fields):
        members.setdefault(field, []).append(n)
    alone = _by_feature(side)
    names = [alone.names[own[0]] if len(own) == 1 else field for field, own in members.items()]
    if not members:
        return alone
    order, first = [n for own in members.values() for n in own], np.cumsum([0, *map(len, members.values())])[:-1]
    return _Groups(names, *(np.add.reduceat(part[order], first, axis=0) for part in alone[1:]))


def _term_count(pairs: Pairs, request: int, item: int) -> int:
    """How many terms so many groups make."""
    total = request + item
    within = {"across": request * item, "j>i": total * (total - 1) // 2, "j>=i": total * (total + 1) // 2}
    return 1 + total + within[pairs]


def _weightiest(addends: Addends, request: _Groups, item: _Groups, most: int) -> tuple[Term, ...]:
    names, sides = request.names + item.names, len(request.names)
    products = _products(addends.pairs, request, item)
    # Terms in order: w0, the linear ones, and the pairs row by row. What is zero is none.
    values = np.concatenate([[addends.intercept], request.w, item.w, products.ravel()])
    order = np.argsort(-np.abs(values), kind="stable")
    order = order[: np.count_nonzero(values)]
    shown = order if len(order) <= most else order[: most - 1]
    linear, columns = 1 + len(names), products.shape[1]
    shift = sides if addends.pairs == "across" else 0

    def named(place: int) -> tuple[str, ...]:
        if place < linear:
            return (names[place - 1],) if place else ()
        row, column = divmod(place - linear, columns)
        return names[row], names[column + shift]

    terms = [Term(named(place), value) for place, value in zip(shown.tolist(), values[shown].tolist(), strict=True)]
    if len(shown) < len(order):
        terms.append(Term((REST,), math.fsum(values[order[len(shown) :]].tolist())))
    return tuple(terms)


def _products(pairs: Pairs, request: _Groups, item: _Groups) -> Doubles:
    """The pairs of every two groups, each once, and of a group with itself those among its own features."""
    if pairs == "across":
        return request.V @ item.V.T
    size, _, V, squares = (np.concatenate(parts) for parts in zip(request[1:], item[1:], strict=True))
    products: Doubles = np.triu(V @ V.T, 1)
    # Σ_{i<j} ⟨a_i, a_j⟩ = (|Σ a|² − Σ |a|²) / 2; a feature that is alone has no pair, and no rounding may make it one.
    among = np.where(size > 1, ((V * V).sum(axis=1) - squares) / 2, 0.0)
    np.fill_diagonal(products, among + squares if pairs == "j>=i" else among)
    return products
