"""What the kernels take: arrays and scalars in named groups.

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
    """The parameters Θ, as scores read them."""

    w0: Floats
    w: Floats
    V: Floats
    field: Integers


class Rows(NamedTuple):
    """All that is kept of every column, one row each. Arrays that a configuration does not need have no rows."""

    field: Integers  # (d,)
    w: Floats  # (d,)
    V: Floats  # (d, k)
    Gw: Floats  # AdaGrad's sums of squared gradients
    GV: Floats
    Sw: Floats  # the sensitivities ∂θ/∂λ, for a λ per field
    SV: Floats
    touched_at: Longs  # (d,): the position of the last change


class OptimizerState(NamedTuple):
    """What learning keeps besides the rows. Arrays that a configuration does not need have no rows."""

    w0: Floats
    G0: Floats
    lambda0: Doubles  # double, because most steps of λ_V are less than float32 can add to it
    lambda_w: Doubles  # (groups,): one group, or one per field
    lambda_V: Doubles  # (groups, k)
    penalty_mean_square: Doubles  # (2, groups): of the λ-gradients of w and of V
    s0: Floats  # the sensitivities of those columns that the last update touched, for the paper's λ
    sw: Floats
    sV: Floats
    touched: Integers  # columns of the last update, the first touches[0] of them
    touches: Integers
    surprise: Doubles  # (SURPRISES,): of choices, as `renewal` keeps it
    place: Integers  # (d,): where an update has a column; −1 except while a kernel runs
    factored: Flags  # (F,): 0 where a field is linear only


class UpdateRule(NamedTuple):
    """How to learn: codes and scalars."""

    loss: int
    optimizer: int
    regularization: int
    pairs: int
    eta: float
    epsilon: float
    kept: float  # of AdaGrad's sums, at every update: 1 if all of them is remembered
    renewal: float  # by how much the surprise of choices may rise before AdaGrad's sums begin anew; 0 if they never do
    rho: float
    intercept: bool
    linear: bool
    adapt: bool


class Candidates(NamedTuple):
    """What each candidate brings of its own; candidate j has the entries offset[j] to offset[j + 1]."""

    offset: Integers
    x: Sparse


class Touched(NamedTuple):
    """The columns of an event, each once: those of the context, then those of the candidates in the order they were met."""

    column: Integers
    entry: Integers  # (entries,): for every entry of the candidates, the place of its column here


class Gradient(NamedTuple):
    """∂ℓ/∂w and ∂ℓ/∂V of the touched columns."""

    column: Integers
    w: Floats
    V: Floats


class Penalty(NamedTuple):
    """The λ of those groups that an event touches."""

    group: Integers  # (n,)
    of: Integers  # (touched,): for each touched column, the row of its group here; means nothing where there is one group
    w: Doubles  # (n,)
    V: Doubles  # (n, k)
    mean_square: Doubles  # (2, n)


class Overwritten(NamedTuple):
    """What an update has overwritten, so that it can be taken back. Arrays that a configuration does not need are empty."""

    w: Floats
    V: Floats
    Gw: Floats
    GV: Floats
    Sw: Floats
    SV: Floats
