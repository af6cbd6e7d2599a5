"""Trials in several processes are the trials they would be in one."""

from pathlib import Path

import numpy as np
import pytest

from coldstream import InvalidInput
from coldstream.evaluation.prequential import split
from coldstream.evaluation.runs import Job, distinct, run_all
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
