"""Results of Kitazawa (2016): the four methods, their hyperparameters, and their metrics on two streams."""

from collections.abc import Mapping
from typing import NamedTuple

from coldstream.config import Hyperparameters, preset
from coldstream.evaluation.metrics import Spread
from coldstream.evaluation.study import Published

METHODS = ("static-mf", "imf", "static-fm", "ifm")
"""Names of the paper's methods, in the order of its Table 2."""


class Experiment(NamedTuple):
    """The paper's settings and reported metrics for one data set, which is one half of its Table 2."""

    top: int
    window: int
    factorization: Hyperparameters
    """Hyperparameters of static MF and iMF."""
    machine: Hyperparameters
    """Hyperparameters of static FM and iFM."""
    metrics: Mapping[str, Published]
    """Reported metrics by method."""


def _factorization(**changes: float) -> Hyperparameters:
    return preset("paper", regularization="fixed", intercept=False, linear=False, factor_penalty=0.01, epochs=30, **changes)


def _metrics(*reported: tuple[float, float, float, float]) -> dict[str, Published]:
    return {
        method: Published(Spread(recall, recall_spread), Spread(mpr, mpr_spread))
        for method, (recall, recall_spread, mpr, mpr_spread) in zip(METHODS, reported, strict=True)
    }


EXPERIMENTS: Mapping[str, Experiment] = {
    "ml-100k": Experiment(
        top=10,
        window=3000,
        factorization=_factorization(learning_rate=0.002),
        machine=preset("paper"),
        metrics=_metrics(
            (0.021, 0.004, 49.68, 0.320),
            (0.026, 0.006, 47.32, 0.359),
            (0.023, 0.008, 36.07, 0.127),
            (0.035, 0.008, 32.55, 0.023),
        ),
    ),
    "clicks": Experiment(
        top=1,
        window=500,
        factorization=_factorization(factors=2, learning_rate=0.0003),
        machine=preset(
            "paper",
            factors=2,
            learning_rate=0.00006,
            intercept_penalty=0.01,
            linear_penalty=0.01,
            factor_penalty=0.01,
            epochs=5,
        ),
        metrics=_metrics(
            (0.271, 0.248, 54.59, 4.386),
            (0.316, 0.213, 49.24, 2.254),
            (0.271, 0.248, 37.83, 3.385),
            (0.316, 0.208, 34.26, 1.429),
        ),
    ),
}
TRIALS = 5
"""Default number of trials per method on ML-100k."""


def experiment(stream: str) -> Experiment:
    """Return the paper's settings for a stream, or those for ML-100k if the paper does not use the stream."""
    return EXPERIMENTS.get(stream, EXPERIMENTS["ml-100k"])
