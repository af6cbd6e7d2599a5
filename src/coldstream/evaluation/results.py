"""Metrics of trials: one row per trial, a JSON file of rows, and summaries over seeds."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from coldstream.evaluation import metrics
from coldstream.evaluation.metrics import Spread
from coldstream.evaluation.prequential import Trial
from coldstream.evaluation.study import Study
from coldstream.support.files import write_text


class Result(TypedDict):
    """The metrics of one method on one stream with one seed. A metric without any event is None."""

    dataset: str
    method: str
    seed: int
    top: int
    window: int
    events_tested: int
    recall: float
    recall_window_mean: float
    recall_window_std: float
    mpr: float
    mrr: float
    ndcg: float
    coverage: float
    new_user_recall: float | None
    new_item_recall: float | None
    recommend_us: float
    """Mean time of `recommend` over all tested events, in microseconds."""
    update_us: float
    """Mean time of `learn` over all tested events, in microseconds."""
    new_user_mpr: float | None
    new_item_mpr: float | None
    known_item_recall: float | None
    """recall@N of events whose item had an earlier event; a new item is registered just before its first test."""
    known_item_mpr: float | None


def row(trial: Trial, *, dataset: str, method: str, seed: int, top: int, window: int) -> Result:
    """Return the metrics of a trial; `top` must be the one that it was run with."""
    rank, candidates, new_user, new_item = trial.rank, trial.candidates, trial.new_user, trial.new_item
    moving = metrics.paper_recall([metrics.moving_recall(rank, top, window)])
    return Result(
        dataset=dataset,
        method=method,
        seed=seed,
        top=top,
        window=window,
        events_tested=len(rank),
        recall=metrics.recall(rank, top),
        recall_window_mean=moving.mean,
        recall_window_std=moving.deviation,
        mpr=metrics.mpr(rank, candidates),
        mrr=metrics.mrr(rank),
        ndcg=metrics.ndcg(rank, top),
        coverage=metrics.coverage(trial.recommended, trial.registered),
        new_user_recall=_or_none(metrics.recall(rank[new_user], top)),
        new_item_recall=_or_none(metrics.recall(rank[new_item], top)),
        recommend_us=metrics.mean(trial.recommend_ns) / 1000,
        update_us=metrics.mean(trial.update_ns) / 1000,
        new_user_mpr=_or_none(metrics.mpr(rank[new_user], candidates[new_user])),
        new_item_mpr=_or_none(metrics.mpr(rank[new_item], candidates[new_item])),
        known_item_recall=_or_none(metrics.recall(rank[~new_item], top)),
        known_item_mpr=_or_none(metrics.mpr(rank[~new_item], candidates[~new_item])),
    )


class Failed(TypedDict):
    """A trial that failed: its method, its seed and the error."""

    dataset: str
    method: str
    seed: int
    error: str


def rows(study: Study) -> list[Result]:
    """Return one row of metrics per method and seed."""
    return [result for method in study.trials for result in _rows_of(study, method)]


def failed_rows(study: Study) -> list[Failed]:
    """Return one row per method and seed that failed."""
    return [
        Failed(dataset=study.stream.name, method=method, seed=seed, error=reason)
        for method, seeds in study.failures.items()
        for seed, reason in seeds.items()
    ]


def write_rows(path: str | Path, results: Sequence[Result | Failed]) -> None:
    """Write rows to a file as a JSON list, atomically."""
    write_text(path, json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def summary(study: Study, method: str) -> dict[str, Spread]:
    """Return the mean and deviation over seeds of each metric of a method, by the metric's name in `Result`.

    Two more metrics are added: `recall_window`, the paper's recall over time and seeds, and `train_s`, the seconds of
    training. A metric that no seed has is NaN, and so is a deviation over one seed.
    """
    results = _rows_of(study, method)
    described = ("dataset", "method", "seed", "top", "window", "events_tested")
    spreads = {name: _over_seeds([dict(result)[name] for result in results]) for name in results[0] if name not in described}
    spreads["recall_window"] = metrics.paper_recall(study.recall_curves(method))
    spreads["train_s"] = _over_seeds([trial.train_ns / 1e9 for trial in study.trials[method].values()])
    return spreads


def _rows_of(study: Study, method: str) -> list[Result]:
    return [
        row(trial, dataset=study.stream.name, method=method, seed=seed, top=study.top, window=study.window)
        for seed, trial in study.trials[method].items()
    ]


def _over_seeds(values: Sequence[Any]) -> Spread:
    known = metrics.spread(np.array([value for value in values if value is not None], np.float64))
    return known if len(values) > 1 else Spread(known.mean, math.nan)


def _or_none(value: float) -> float | None:
    """Return None for NaN, which JSON does not have."""
    return None if math.isnan(value) else value
