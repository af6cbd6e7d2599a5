"""Why a score is what it is: the terms that it is the sum of."""

from typing import NamedTuple

import numpy as np

from coldstream.features.sparse import Sparse, joined
from coldstream.model.factorization_machine import FactorizationMachine


class Term(NamedTuple):
    """One addend and its `value`: no features for w0, one for a linear term, two for an interaction."""

    features: tuple[str, ...]
    value: float


class Explanation(NamedTuple):
    """A score and the terms that add up to it but for rounding, the weightiest first."""

    score: float
    terms: tuple[Term, ...]


def explained(machine: FactorizationMachine, request: Sparse, item: Sparse, score: float) -> Explanation:
    """Every linear and pairwise term of a score, each pair with a product of its own: no folding, no cancellation."""
    theta, pairs = machine.parameters.theta, machine.hyperparameters.pairs
    x = joined(request, item)
    owners = [machine.vocabulary.owner(column) for column in x.column.tolist()]
    names = [f"{field}={value}" if value else field for field, value in owners]
    value = x.value.astype(np.float64)
    V = theta.V[x.column].astype(np.float64) * value[:, None]
    w = theta.w[x.column].astype(np.float64) * value
    products = V @ V.T
    terms = [Term((), float(theta.w0[0]))]
    terms += [Term((name,), float(w[i])) for i, name in enumerate(names)]
    sides = len(request.column)
    for i, name in enumerate(names):
        first = {"j>i": i + 1, "j>=i": i, "across": max(i + 1, sides)}[pairs]
        if pairs != "across" or i < sides:
            terms += [Term((name, names[j]), float(products[i, j])) for j in range(first, len(names))]
    weightiest = sorted((term for term in terms if term.value), key=lambda term: -abs(term.value))
    return Explanation(score, tuple(weightiest))
