"""Beginning anew where taste has changed: how surprising choices are, and what that does to AdaGrad's sums.

AdaGrad's steps shrink with all that was ever learned, which is right as long as it holds. The surprise of a choice is
−log p, p its share among its negatives before it was learned. Its mean over thousands of events is compared with that over
tens of thousands. Where it has risen by more than `renewal`, people like something else than they used to: the sums of every
row begin anew when it is next touched, and it takes steps as large as a newcomer's.
"""

import math

import numpy as np

from coldstream.model.shapes import OptimizerState, UpdateRule
from coldstream.support.compiled import inlined

LAST, EVENTS, SHORT, LONG, RENEWED = range(5)
"""What is kept: the last surprise; how many there were since all began anew, and their two means; and when that was."""
SURPRISES = 5
SHORT_MEMORY, LONG_MEMORY = 2_000.0, 50_000.0
"""Events that the two means remember."""
ENOUGH = 20_000.0
"""Events before all may begin anew: at first everything is new."""
_LEAST = 1e-6
"""What was expected even less is as surprising as this, so that no single choice outweighs the others."""


@inlined
def surprise_of(gradient: float) -> float:
    """−log p of a choice whose score has the gradient p − 1."""
    return -math.log(max(1.0 + gradient, _LEAST))


@inlined
def kept_of(state: OptimizerState, rule: UpdateRule, touched_at: int) -> np.float32:
    """The share of a row's sums that an update keeps: none where it was last touched before all began anew."""
    return np.float32(0.0) if touched_at < state.surprise[RENEWED] else np.float32(rule.kept)


@inlined
def notice(state: OptimizerState, rule: UpdateRule, at: int) -> None:
    """A choice was learned at this position: count its surprise, and let all begin anew where there was too much of it."""
    if rule.renewal <= 0.0:
        return
    own = state.surprise
    own[EVENTS] += 1.0
    own[SHORT] += (own[LAST] - own[SHORT]) / min(own[EVENTS], SHORT_MEMORY)
    own[LONG] += (own[LAST] - own[LONG]) / min(own[EVENTS], LONG_MEMORY)
    if own[EVENTS] >= ENOUGH and own[SHORT] - own[LONG] > rule.renewal:
        own[EVENTS], own[RENEWED] = 0.0, at + 1.0
