"""Arguments of the kernels: arrays and scalars in named tuples.

Shapes: d columns, k factors, F fields, c candidates.
"""

from typing import NamedTuple

from coldstream.features.sparse import Sparse
from coldstream.support.arrays import Doubles, Flags, Floats, Integers, Longs

SGD, ADAGRAD = 0, 1
OPTIMIZERS = {"sgd": SGD, "adagrad": ADAGRAD}
FIXED, PAPER, PER_FIELD = 0, 1, 2
REGULARIZATIONS = {"fixed": FIXED, "paper": PAPER, "per-field": PER_FIELD}
ABOVE, FROM_ITSELF, ACROSS = 0, 1, 2
PAIRS = {"j>i": ABOVE, "j>=i": FROM_ITSELF, "across": ACROSS}


class Theta(NamedTuple):
    """The parameters Θ that scores are computed from."""

    w0: Floats
    w: Floats
    V: Floats
    field: Integers


class Rows(NamedTuple):
    """All arrays with a row per column. An array that the configuration does not need has no rows."""

    field: Integers  # (d,)
    w: Floats  # (d,)
    V: Floats  # (d, k)
    Gw: Floats  # AdaGrad's sums of squared gradients
    GV: Floats
    Sw: Floats  # the sensitivities ∂θ/∂λ, for regularization per field
    SV: Floats
    touched_at: Longs  # (d,): the position of the last change


class OptimizerState(NamedTuple):
    """State of learning besides the rows. Arrays that a configuration does not need have no rows."""

    w0: Floats
    G0: Floats
    lambda0: Doubles  # double, because most steps of λ_V are too small to change a float32
    lambda_w: Doubles  # (groups,): one group, or one per field
    lambda_V: Doubles  # (groups, k)
    penalty_mean_square: Doubles  # (2, groups): running mean squares of the λ-gradients of w and of V
    s0: Floats  # the sensitivities of the columns that the last update touched, for the paper's regularization
    sw: Floats
    sV: Floats
    touched: Integers  # columns of the last update, the first touches[0] of them
    touches: Integers
    surprise: Doubles  # (SURPRISES,): statistics of the surprise of choices, see `renewal`
    place: Integers  # (d,): the index of a column in the current update; −1 except while a kernel runs
    factored: Flags  # (F,): 0 if a field is linear only


class UpdateRule(NamedTuple):
    """The learning rule: codes and scalars."""

    loss: int
    optimizer: int
    regularization: int
    pairs: int
    eta: float
    epsilon: float
    kept: float  # share of AdaGrad's sums that each update keeps: 1 for all
    renewal: float  # rise of the mean surprise of choices that resets AdaGrad's sums; 0 for never
    rho: float
    intercept: bool
    linear: bool
    adapt: bool


class Candidates(NamedTuple):
    """Own features of each candidate; candidate j has the entries offset[j] to offset[j + 1]."""

    offset: Integers
    x: Sparse


class Touched(NamedTuple):
    """The columns of an event, each once: those of the context, then those of the candidates in order of occurrence."""

    column: Integers
    entry: Integers  # (entries,): the index in `column` of every entry of the candidates


class Gradient(NamedTuple):
    """∂ℓ/∂w and ∂ℓ/∂V of the touched columns."""

    column: Integers
    w: Floats
    V: Floats


class Penalty(NamedTuple):
    """The λ of the groups that an event touches."""

    group: Integers  # (n,)
    of: Integers  # (touched,): the row of each touched column's group; unused if there is one group
    w: Doubles  # (n,)
    V: Doubles  # (n, k)
    mean_square: Doubles  # (2, n)


class Overwritten(NamedTuple):
    """Values that an update has overwritten, to undo it. Arrays that a configuration does not need are empty."""

    w: Floats
    V: Floats
    Gw: Floats
    GV: Floats
    Sw: Floats
    SV: Floats
