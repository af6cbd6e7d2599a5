"""Renewal: reset AdaGrad's sums of squares when choices have become more surprising.

AdaGrad's steps shrink with all that was ever learned, which is right while the data stay the same. The surprise of a choice
is −log p, where p is its softmax probability among its negatives before it was learned. Its mean over thousands of events is
compared with its mean over tens of thousands. If the short mean exceeds the long one by more than `renewal`, tastes have
changed: the sums of every row are reset when it is next touched, so that its steps are as large as those of a new row.
"""

import math

import numpy as np

from coldstream.model.shapes import OptimizerState, UpdateRule
from coldstream.support.compiled import inlined

LAST, EVENTS, SHORT, LONG, RENEWED = range(5)
"""Indices in `OptimizerState.surprise`: last surprise, events since the last renewal, short mean, long mean, and the
position after the last renewal."""
SURPRISES = 5
SHORT_MEMORY, LONG_MEMORY = 2_000.0, 50_000.0
"""Lengths of the short and the long mean, in events."""
ENOUGH = 20_000.0
"""Minimum number of events between two renewals, and before the first."""
_LEAST = 1e-6
"""Lower bound of the probability in the surprise, so that no single choice dominates the means."""


@inlined
def surprise_of(gradient: float) -> float:
    """Return −log p of a choice whose score has the gradient p − 1."""
    return -math.log(max(1.0 + gradient, _LEAST))


@inlined
def kept_of(state: OptimizerState, rule: UpdateRule, touched_at: int) -> np.float32:
    """Return the share of AdaGrad's sums that an update keeps: 0 if the row was last touched before the last renewal."""
    return np.float32(0.0) if touched_at < state.surprise[RENEWED] else np.float32(rule.kept)


@inlined
def notice(state: OptimizerState, rule: UpdateRule, at: int) -> None:
    """Update the mean surprise after the event at position `at`, and start a renewal if the surprise has risen too much."""
    if rule.renewal <= 0.0:
        return
    own = state.surprise
    own[EVENTS] += 1.0
    own[SHORT] += (own[LAST] - own[SHORT]) / min(own[EVENTS], SHORT_MEMORY)
    own[LONG] += (own[LAST] - own[LONG]) / min(own[EVENTS], LONG_MEMORY)
    if own[EVENTS] >= ENOUGH and own[SHORT] - own[LONG] > rule.renewal:
        own[EVENTS], own[RENEWED] = 0.0, at + 1.0
