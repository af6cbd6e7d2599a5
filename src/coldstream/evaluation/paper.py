"""Replication of the paper's experiment: four methods on two data sets, compared with the paper's Table 2."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coldstream.evaluation.fields_in_use import fields_in_use
from coldstream.evaluation.methods import schemas_in_use
from coldstream.evaluation.prequential import Trial
from coldstream.evaluation.published import EXPERIMENTS, METHODS, TRIALS
from coldstream.evaluation.runs import Job
from coldstream.evaluation.study import Facts, Study
from coldstream.evaluation.workload import Known, loaded

STREAMS_PER_TRIAL = 5
"""Factor by which clicks get more trials than ML-100k, each trial with a generated stream of its own.

The author's clicks are not public, and generated streams of five ads differ so much that five of them would say little.
"""


class Plan(NamedTuple):
    """The jobs of one data set of the experiment."""

    dataset: str
    jobs: Sequence[Job]


def plans(trials: int = TRIALS) -> list[Plan]:
    """Return all jobs: on ML-100k `trials` of each method, on clicks five times as many, each on its own stream."""
    top = {dataset: EXPERIMENTS[dataset].top for dataset in EXPERIMENTS}
    films = [Job(Known("ml-100k"), method, seed, top["ml-100k"]) for method in METHODS for seed in range(trials)]
    seeds = range(trials * STREAMS_PER_TRIAL)
    clicks = [Job(Known("clicks", seed), method, seed, top["clicks"]) for method in METHODS for seed in seeds]
    return [Plan("ml-100k", films), Plan("clicks", clicks)]


def study(plan: Plan, trials: Sequence[Trial]) -> Study:
    """Return the study of one data set from its finished trials, with the metrics that the paper reports."""
    found: Mapping[str, dict[int, Trial]] = {method: {} for method in METHODS}
    for job, trial in zip(plan.jobs, trials, strict=True):
        found[job.method][job.seed] = trial
    settings = EXPERIMENTS[plan.dataset]
    workload = loaded(plan.jobs[0].source)
    fields = fields_in_use(schemas_in_use(METHODS, workload))
    return Study(Facts.of(workload.stream), settings.top, settings.window, found, settings.metrics, fields=fields)
