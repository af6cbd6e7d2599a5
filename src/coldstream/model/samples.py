"""Learning and predicting many plain samples in one compiled call.

Shapes: n samples, of which sample i has the entries offset[i] to offset[i + 1] of x.
"""

from typing import NamedTuple

import numpy as np

from coldstream.features.sparse import Sparse
from coldstream.model.kernels import learn, predict
from coldstream.model.shapes import Candidates, OptimizerState, Rows, Theta, UpdateRule
from coldstream.support.arrays import Doubles, Longs
from coldstream.support.compiled import kernel


class Samples(NamedTuple):
    """Concatenated sparse vectors."""

    offset: Longs
    x: Sparse


@kernel
def learn_samples(
    rows: Rows,
    state: OptimizerState,
    rule: UpdateRule,
    samples: Samples,
    nothing: Candidates,
    targets: Doubles,
    order: Longs,
    at: int,
) -> int:
    """Learn samples in the given order, as `learn` does; return the index in `order` of the first that diverged, or −1."""
    for place in range(len(order)):
        n = order[place]
        first, last = samples.offset[n], samples.offset[n + 1]
        x = Sparse(samples.x.column[first:last], samples.x.value[first:last])
        if not learn(rows, state, rule, x, nothing, targets[n], 1.0, at + place):
            return place
    return -1


@kernel
def predict_samples(theta: Theta, pairs: int, samples: Samples) -> Doubles:
    """Return ŷ of every sample."""
    scores = np.empty(len(samples.offset) - 1)
    for n in range(len(scores)):
        first, last = samples.offset[n], samples.offset[n + 1]
        scores[n] = predict(theta, pairs, Sparse(samples.x.column[first:last], samples.x.value[first:last]))
    return scores
