"""What Kitazawa (2016) reports: the four methods, their hyperparameters, and their metrics on two streams."""

from collections.abc import Mapping
from typing import NamedTuple

from coldstream.config import Hyperparameters, preset
from coldstream.evaluation.metrics import Spread
from coldstream.evaluation.study import Published

METHODS = ("static-mf", "imf", "static-fm", "ifm")
"""In the order of the paper's Table 2."""


class Experiment(NamedTuple):
    """One half of the paper's Table 2."""

    top: int
    window: int
    factorization: Hyperparameters
    """Of static MF and iMF."""
    machine: Hyperparameters
    """Of static FM and iFM."""
    metrics: Mapping[str, Published]


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


def experiment(stream: str) -> Experiment:
    """The paper's settings for a stream; those of ML-100k for one that the paper has not."""
    return EXPERIMENTS.get(stream, EXPERIMENTS["ml-100k"])
