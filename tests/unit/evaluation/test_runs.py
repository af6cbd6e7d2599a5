"""Trials in several processes are the trials they would be in one."""

from pathlib import Path

import numpy as np
import pytest

from coldstream import InvalidInput
from coldstream.baselines import square
from coldstream.evaluation.prequential import split
from coldstream.evaluation.runs import Failure, Job, attempt_all, check, distinct, run_all
from coldstream.evaluation.workload import Files


@pytest.fixture
def source(tmp_path: Path) -> Files:
    rows = "".join(f"u{n % 7},i{n * n % 13},{n}\n" for n in range(200))
    (tmp_path / "events.csv").write_text("user,item,time\n" + rows)
    return Files(tmp_path / "events.csv")


def test_processes_make_no_difference(source: Files) -> None:
    jobs = [Job(source, method, seed, 3) for method in ("popularity", "random") for seed in (0, 1)]
    heard: dict[int, int] = {}
    here = run_all(jobs, 1, lambda *_: None)
    spread = run_all(jobs, 2, lambda number, done: heard.update({number: done}))
    for one, two in zip(here, spread, strict=True):
        np.testing.assert_array_equal(one.rank, two.rank)
    assert heard == {0: 200, 1: 200, 2: 200}  # popularity runs once


def test_what_does_not_depend_on_the_seed_runs_once(source: Files) -> None:
    jobs = [Job(source, method, seed, 3) for method in ("popularity", "random") for seed in (0, 1, 2)]
    assert distinct(jobs) == [jobs[0], *jobs[3:]]
    trials = run_all(jobs, 1, lambda *_: None)
    assert trials[0] is trials[1] is trials[2]


def test_tuning_sees_nothing_of_the_test(source: Files) -> None:
    (trial,) = run_all([Job(source, "popularity", 0, 3, untested=True)], 1, lambda *_: None)
    assert trial.first + len(trial.rank) == split(200).tested == 60


def test_the_first_error_ends_it(source: Files) -> None:
    jobs = [Job(source, "coldstream:factors=-1", seed, 3) for seed in range(3)]
    for processes in (1, 2):
        with pytest.raises(InvalidInput, match="factors"):
            run_all(jobs, processes, lambda *_: None)


def test_what_one_refuses_leaves_the_others_alone(source: Files) -> None:
    jobs = [Job(source, method, 0, 3) for method in ("popularity", "coldstream:factors=-1", "markov")]
    alone = run_all([jobs[0], jobs[2]], 1, lambda *_: None)
    for processes in (1, 2):
        heard: dict[int, int] = {}
        first, failed, last = attempt_all(jobs, processes, lambda number, done, heard=heard: heard.update({number: done}))
        assert isinstance(failed, Failure)
        assert "factors must be from 0 to 10000, got -1" in failed.reason
        np.testing.assert_array_equal(first.rank, alone[0].rank)
        np.testing.assert_array_equal(last.rank, alone[1].rank)
        assert heard == {0: 200, 1: 200, 2: 200}


def test_a_bug_in_one_method_leaves_the_others_alone(source: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("coldstream.baselines.markov.Markov.scores", broken)
    outcomes = attempt_all([Job(source, method, 0, 3) for method in ("markov", "popularity")], 1, lambda *_: None)
    assert outcomes[0] == Failure("ZeroDivisionError: by nothing")
    assert len(outcomes[1].rank) == 140


def test_what_can_be_known_is_refused_before_anything_runs(source: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    check([Job(source, method, 0, 3) for method in ("ease", "item-knn", "coldstream")])
    with pytest.raises(InvalidInput, match="factors must be"):
        check([Job(source, method, 0, 3) for method in ("popularity", "coldstream:factors=-1")])
    items = len({n * n % 13 for n in range(200)})
    monkeypatch.setattr(square, "MOST_ITEMS", items - 1)
    check([Job(source, "item-knn", 0, 3)])
    with pytest.raises(InvalidInput, match=f"ease .* takes {items - 1} items at most, got {items}; leave ease out"):
        check([Job(source, method, 0, 3) for method in ("popularity", "ease")])
