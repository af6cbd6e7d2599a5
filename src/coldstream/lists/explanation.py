"""Explanation of a score as the sum of its terms.

An explanation is made in two steps. `side_of` copies the parts of one side of a score, in one pass over its features.
`explained` works on those copies alone, so it may run in another thread during learning. Its work is bounded: where the
features make too many terms, those of a field are added up, and their pairs with another field are one product of two sums.
"""

import math
from typing import NamedTuple

import numpy as np

from coldstream.config import Pairs
from coldstream.features.sparse import Sparse
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.support.arrays import Doubles

MOST_TERMS = 1000
"""Most terms of an explanation; where single features would make more, they are added up by field."""

REST = "rest"
"""Name of the sum of all unlisted terms. No feature has this name: the name of each begins with its side."""


class Term(NamedTuple):
    """One addend and its `value`; `features` has no name for w0, one for a linear term, two for an interaction.

    Where features make too many terms, the name of a field stands for all features that a request or an item has of it.
    `rest` alone stands for all terms that are not listed.
    """

    features: tuple[str, ...]
    value: float


class Explanation(NamedTuple):
    """A score and the terms whose sum it is up to rounding, the largest absolute value first and `rest` at the end."""

    score: float
    terms: tuple[Term, ...]


class ScoreSide(NamedTuple):
    """A copy of the request side or the item side of a score: each feature's field, value, x · w and x · v."""

    fields: tuple[str, ...]
    values: tuple[str, ...]
    w: Doubles
    V: Doubles


class Addends(NamedTuple):
    """The parts that a score is the sum of."""

    score: float
    intercept: float
    pairs: Pairs
    request: ScoreSide
    item: ScoreSide


def side_of(machine: FactorizationMachine, x: Sparse) -> ScoreSide:
    """Copy the parts of one side of a score from its features."""
    theta, owner = machine.parameters.theta, machine.vocabulary.owner
    fields, values = zip(*map(owner, x.column.tolist()), strict=True) if len(x.column) else ((), ())
    value = x.value.astype(np.float64)
    w, V = theta.w[x.column].astype(np.float64), theta.V[x.column].astype(np.float64)
    return ScoreSide(fields, values, w * value, V * value[:, None])


def explained(addends: Addends, most: int = MOST_TERMS) -> Explanation:
    """Return the linear and pairwise terms of a score, at most `most` of them."""
    request, item = _by_feature(addends.request), _by_feature(addends.item)
    if _term_count(addends.pairs, len(request.names), len(item.names)) > MOST_TERMS:
        request, item = _by_field(addends.request), _by_field(addends.item)
    return Explanation(addends.score, _weightiest(addends, request, item, most))


class _Groups(NamedTuple):
    """Features added up in groups: for each its name, its number of features, Σ x w, Σ x v and Σ |x v|²."""

    names: list[str]
    size: Doubles
    w: Doubles
    V: Doubles
    squares: Doubles


def _by_feature(side: ScoreSide) -> _Groups:
    names = [f"{field}={value}" if value else field for field, value in zip(side.fields, side.values, strict=True)]
    return _Groups(names, np.ones(len(names)), side.w, side.V, (side.V * side.V).sum(axis=1))


def _by_field(side: ScoreSide) -> _Groups:
    """Add up the features of each field; a field with a single feature keeps the feature's name."""
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
    """Return the number of terms that `request` and `item` groups make."""
    total = request + item
    within = {"across": request * item, "j>i": total * (total - 1) // 2, "j>=i": total * (total + 1) // 2}
    return 1 + total + within[pairs]


def _weightiest(addends: Addends, request: _Groups, item: _Groups, most: int) -> tuple[Term, ...]:
    names, sides = request.names + item.names, len(request.names)
    products = _products(addends.pairs, request, item)
    # Terms in order: w0, the linear ones, and the pairs row by row. Terms that are zero are left out.
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
    """Return the product of every two groups, once each, and of each group with itself the pairs among its features."""
    if pairs == "across":
        return request.V @ item.V.T
    size, _, V, squares = (np.concatenate(parts) for parts in zip(request[1:], item[1:], strict=True))
    products: Doubles = np.triu(V @ V.T, 1)
    # Σ_{i<j} ⟨a_i, a_j⟩ = (|Σ a|² − Σ |a|²) / 2. A single feature has no pair, which rounding must not turn into one.
    among = np.where(size > 1, ((V * V).sum(axis=1) - squares) / 2, 0.0)
    np.fill_diagonal(products, among + squares if pairs == "j>=i" else among)
    return products
