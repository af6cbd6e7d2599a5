"""Random search for the hyperparameters of one stream, on its first 30 % only."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from coldstream.config import Hyperparameters, preset
from coldstream.evaluation import metrics
from coldstream.evaluation.prequential import Trial
from coldstream.evaluation.runs import Job
from coldstream.evaluation.workload import Source

FINALISTS, FINAL_SEEDS = 3, 3
"""Number of best configurations that are run again, and number of seeds of each."""

SPACE: Mapping[str, Callable[[np.random.Generator], Any]] = {
    "learning_rate": lambda rng: _round(10 ** rng.uniform(-1.7, -0.5)),
    "negatives": lambda rng: int(rng.choice([20, 50, 100])),
    "factors": lambda rng: int(rng.choice([16, 32, 40, 64])),
    "initial_deviation": lambda rng: float(rng.choice([0.03, 0.1, 0.2])),
    "adagrad_floor": lambda rng: float(rng.choice([1e-6, 1e-4, 1e-2])),
    "factor_penalty": lambda rng: _round(10 ** rng.uniform(-3, -1)),
    "linear_penalty": lambda rng: _round(10 ** rng.uniform(-4, -1)),
    "history": lambda rng: int(rng.choice([3, 5, 10, 20])),
    "neighbours": lambda rng: int(rng.choice([0, 5, 10, 20])),
}
"""Search space: hyperparameters and the function that draws a value of each."""


class Tried(NamedTuple):
    """A configuration and its metrics, averaged over seeds."""

    changes: Mapping[str, Any]
    recall: float
    mpr: float
    seeds: int


def candidates(count: int, seed: int) -> list[dict[str, Any]]:
    """Return `count` configurations: the default, then random ones, in which each hyperparameter changes half the time."""
    rng = np.random.default_rng(seed)
    drawn: list[dict[str, Any]] = [{}]
    while len(drawn) < count:
        changes = {name: draw(rng) for name, draw in SPACE.items()}
        drawn.append({name: value for name, value in changes.items() if rng.random() < 0.5})
    return drawn


def job(source: Source, changes: Mapping[str, Any], seed: int, top: int) -> Job:
    """Return the job that tries a configuration on the untested part of a stream."""
    options = "".join(f":{name}={value}" for name, value in changes.items())
    return Job(source, f"coldstream{options}", seed, top, untested=True)


def tried(changes: Mapping[str, Any], trials: Sequence[Trial], top: int) -> Tried:
    """Average the metrics of the trials of a configuration."""
    recall = float(np.mean([metrics.recall(trial.rank, top) for trial in trials]))
    mpr = float(np.mean([metrics.mpr(trial.rank, trial.candidates) for trial in trials]))
    return Tried(changes, recall, mpr, len(trials))


def ranked(results: Sequence[Tried]) -> list[Tried]:
    """Sort results best first: by recall, then by MPR."""
    return sorted(results, key=lambda result: (-result.recall, result.mpr))


def as_toml(changes: Mapping[str, Any], note: str) -> str:
    """Return all hyperparameters as TOML under a comment `note`, those that differ from the default first."""
    settings: Hyperparameters = preset("default", **changes)
    lines = [f"# {note}"] + [f"{name} = {value}" for name, value in changes.items()]
    rest = {name: value for name, value in settings.document().items() if name not in changes}
    lines += ["", "# as in the default preset"] + [f"{name} = {_literal(value)}" for name, value in rest.items()]
    return "\n".join(lines)


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def _round(value: float) -> float:
    return float(f"{value:.2g}")
