"""What tuning tries, how it chooses, and what it prints."""

import tomllib

import numpy as np
from trials import trial_of

from coldstream import Hyperparameters
from coldstream.config import preset
from coldstream.evaluation import tuning
from coldstream.evaluation.methods import parse_method
from coldstream.evaluation.workload import Known


def test_the_default_is_tried_and_all_are_valid() -> None:
    drawn = tuning.candidates(40, seed=3)
    assert drawn[0] == {}
    assert len(drawn) == 40
    assert drawn == tuning.candidates(40, seed=3) != tuning.candidates(40, seed=4)
    for changes in drawn:
        job = tuning.job(Known("clicks"), changes, 0, 1)
        assert parse_method(job.method).options == changes
        assert isinstance(preset("default", **changes), Hyperparameters)
        assert job.untested


def test_recall_decides_and_then_mpr() -> None:
    tries = [({}, 0.2, 10.0), ({"factors": 3}, 0.3, 12.0), ({"history": 3}, 0.3, 11.0)]
    results = [tuning.Tried(changes, recall, mpr, 1) for changes, recall, mpr in tries]
    assert [dict(result.changes) for result in tuning.ranked(results)] == [{"history": 3}, {"factors": 3}, {}]


def test_trials_are_averaged() -> None:
    result = tuning.tried({}, [trial_of([0, 3]), trial_of([0, 1])], 2)
    assert (result.recall, result.seeds) == (0.75, 2)
    assert np.isfinite(result.mpr)


def test_toml_gives_the_same_hyperparameters_back() -> None:
    for changes in tuning.candidates(10, seed=1):
        document = tomllib.loads(tuning.as_toml(changes, "note"))
        assert Hyperparameters.from_document(document) == preset("default", **changes)
        assert list(document)[: len(changes)] == list(changes)
