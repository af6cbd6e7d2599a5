"""On the paper's own streams: its methods give its figures, and the default is beyond every baseline."""

import os
from pathlib import Path

import pytest

from coldstream.evaluation import metrics, paper
from coldstream.evaluation.prequential import Trial
from coldstream.evaluation.published import EXPERIMENTS, METHODS
from coldstream.evaluation.results import summary
from coldstream.evaluation.runs import Job, run_all
from coldstream.evaluation.significance import pairwise
from coldstream.evaluation.study import Study
from coldstream.evaluation.workload import Known, loaded

CORES = os.cpu_count() or 1


@pytest.fixture(scope="module")
def films(movielens: Path) -> Study:
    """The ML-100k half of the paper's experiment: four methods, five trials."""
    del movielens
    plan = paper.plans()[0]
    return paper.study(plan, run_all(plan.jobs, CORES, lambda *_: None))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_the_paper_gives_its_figures(films: Study, method: str) -> None:
    published, ours = EXPERIMENTS["ml-100k"].metrics[method], summary(films, method)
    assert ours["mpr"].mean == pytest.approx(published.mpr.mean, abs=0.6)
    assert ours["recall_window"].mean == pytest.approx(published.recall.mean, abs=0.005)


def test_the_methods_stand_in_the_papers_order(films: Study) -> None:
    ours = {method: summary(films, method) for method in METHODS}
    by_mpr = sorted(METHODS, key=lambda method: -ours[method]["mpr"].mean)
    assert by_mpr == ["static-mf", "imf", "static-fm", "ifm"]
    assert max(METHODS, key=lambda method: ours[method]["recall_window"].mean) == "ifm"
    assert min(METHODS, key=lambda method: ours[method]["recall_window"].mean) == "static-mf"


def test_clicks_give_the_papers_figures_on_average_over_streams() -> None:
    plan = paper.plans()[1]
    study = paper.study(plan, run_all(plan.jobs, CORES, lambda *_: None))
    ours = {method: summary(study, method)["mpr"].mean for method in METHODS}
    for method in METHODS:
        published = EXPERIMENTS["clicks"].metrics[method].mpr
        assert ours[method] == pytest.approx(published.mean, abs=published.deviation)
    assert sorted(METHODS, key=lambda method: -ours[method]) == ["static-mf", "imf", "static-fm", "ifm"]


def test_the_stream_is_the_papers(movielens: Path) -> None:
    del movielens
    stream = loaded(Known("ml-100k")).stream
    assert len(stream.events) == 21_201
    assert len({event.user for event in stream.events}) == 928
    assert len({event.item for event in stream.events}) == 1_172


def test_the_default_beats_every_baseline(movielens: Path) -> None:
    del movielens
    rivals = ["popularity", "recent-popularity", "recent-popularity:half_life=500", "markov", "item-knn", "ease", "linear"]
    jobs = [Job(Known("ml-100k"), method, 0, 10) for method in ("coldstream", *rivals)]
    trials: dict[str, dict[int, Trial]] = {
        job.method: {0: trial} for job, trial in zip(jobs, run_all(jobs, CORES, lambda *_: None), strict=True)
    }
    ours = trials["coldstream"][0]
    assert metrics.recall(ours.rank, 10) >= 0.18
    assert metrics.mpr(ours.rank, ours.candidates) <= 12.8
    for pair in pairwise(trials, 10)[: len(rivals)]:
        assert pair.a == "coldstream"
        assert pair.recall > 0
        assert pair.p < 0.01
        assert pair.mpr < 0
    popularity = trials["popularity"][0]
    assert metrics.recall(ours.rank[ours.new_user], 10) > metrics.recall(popularity.rank[ours.new_user], 10)
    assert metrics.mpr(ours.rank[ours.new_item], ours.candidates[ours.new_item]) < 50


def test_the_default_follows_the_clicks() -> None:
    (trial,) = run_all([Job(Known("clicks"), "coldstream", 0, 1)], 1, lambda *_: None)
    assert metrics.recall(trial.rank, 1) >= 0.59
    assert metrics.mpr(trial.rank, trial.candidates) <= 20
