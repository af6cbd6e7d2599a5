"""What the kernels take: arrays and scalars in named groups.

Shapes: d columns, k factors, F fields, c candidates.
"""

from typing import NamedTuple

from coldstream.arrays import Doubles, Flags, Floats, Integers
from coldstream.features.sparse import Sparse

SGD, ADAGRAD = 0, 1
OPTIMIZERS = {"sgd": SGD, "adagrad": ADAGRAD}
FIXED, PAPER, PER_FIELD = 0, 1, 2
REGULARIZATIONS = {"fixed": FIXED, "paper": PAPER, "per-field": PER_FIELD}


class Theta(NamedTuple):
    """The parameters Θ."""

    w0: Floats
    w: Floats
    V: Floats
    field: Integers


class Memory(NamedTuple):
    """What learning remembers besides Θ. Arrays that a configuration does not need have no rows."""

    G0: Floats  # AdaGrad's sums of squared gradients
    Gw: Floats
    GV: Floats
    lambda0: Doubles  # double, because most steps of λ_V are less than float32 can add to it
    lambda_w: Doubles  # (groups,): one group, or one per field
    lambda_V: Doubles  # (groups, k)
    scale: Doubles  # (2, groups): mean square of the λ-gradients of w and of V
    Sw: Floats  # ∂θ/∂λ, kept for every coordinate (per-field) …
    SV: Floats
    s0: Floats  # … or for those the last update touched (paper)
    sw: Floats
    sV: Floats
    touched: Integers  # columns of the last update, the first touches[0] of them
    touches: Integers
    position: Integers  # (d,): −1 except while a kernel runs
    factored: Flags  # (F,): 0 where a field is linear only


class Rule(NamedTuple):
    """How to learn: codes and scalars."""

    loss: int
    optimizer: int
    regularization: int
    sign: float  # −1 for pairs j > i, +1 for pairs j ≥ i
    eta: float
    epsilon: float
    rho: float
    intercept: bool
    linear: bool
    adapt: bool


class Candidates(NamedTuple):
    """What each candidate brings of its own; candidate j has the entries offset[j] to offset[j + 1]."""

    offset: Integers
    x: Sparse


class Gradient(NamedTuple):
    """∂ℓ/∂w and ∂ℓ/∂V of the touched columns, each once, in the order in which they were met."""

    column: Integers
    w: Floats
    V: Floats


class Penalty(NamedTuple):
    """The λ of those groups that an event touches."""

    group: Integers  # (n,)
    of: Integers  # (touched,): for each touched column, the row of its group here; means nothing where there is one group
    w: Doubles  # (n,)
    V: Doubles  # (n, k)
    scale: Doubles  # (2, n)


class New(NamedTuple):
    """What an update is going to write. Arrays that a configuration does not need repeat the first two."""

    w: Floats
    V: Floats
    Gw: Floats
    GV: Floats
    Sw: Floats
    SV: Floats
