"""Why a score is what it is: the terms that it is the sum of."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coldstream.features.sparse import Sparse
from coldstream.model.shapes import Theta


class Term(NamedTuple):
    """One addend: no features for w0, one for a linear term, two for an interaction."""

    features: tuple[str, ...]
    value: float


class Explanation(NamedTuple):
    """A score and the terms that add up to it, the weightiest first."""

    score: float
    terms: tuple[Term, ...]


def explained(theta: Theta, sign: float, x: Sparse, names: Sequence[str]) -> Explanation:
    """Every linear and pairwise term of ŷ(x), each pair with a product of its own: no folding, no cancellation."""
    value = x.value.astype(np.float64)
    V = theta.V[x.column].astype(np.float64) * value[:, None]
    w = theta.w[x.column].astype(np.float64) * value
    products = V @ V.T
    terms = [Term((), float(theta.w0[0]))]
    terms += [Term((name,), float(w[i])) for i, name in enumerate(names)]
    for i, name in enumerate(names):
        if sign > 0:
            terms.append(Term((name, name), float(products[i, i])))
        terms += [Term((name, names[j]), float(products[i, j])) for j in range(i + 1, len(names))]
    terms = sorted((term for term in terms if term.value), key=lambda term: -abs(term.value))
    return Explanation(math.fsum(term.value for term in terms), tuple(terms))
