"""Rows of metrics, their files, and what several seeds amount to."""

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from trials import study_of, trial_of

from coldstream import Event, InvalidInput
from coldstream.evaluation import metrics
from coldstream.evaluation.ranks import Key, read_ranks, write_ranks
from coldstream.evaluation.results import row, rows, summary, write_rows
from coldstream.evaluation.study import Facts, Study
from coldstream.events.stream import Stream

FIGURES = ["recall", "recall_window_mean", "recall_window_std", "mpr", "mrr", "ndcg", "coverage"]
NEWCOMERS = ["new_user_recall", "new_item_recall", "recommend_us", "update_us", "new_user_mpr", "new_item_mpr"]
KNOWN = ["known_item_recall", "known_item_mpr"]
KEYS = ["dataset", "method", "seed", "top", "window", "events_tested", *FIGURES, *NEWCOMERS, *KNOWN]


def test_a_row_has_its_keys_in_order_and_its_metrics() -> None:
    trial = trial_of([0, 4, 9.5, 10], candidates=21, new_users=[1, 2], new_items=[3])
    found = row(trial, dataset="d", method="m", seed=7, top=10, window=2)
    assert list(found) == KEYS
    assert [found[key] for key in KEYS[:6]] == ["d", "m", 7, 10, 2, 4]
    assert found["recall"] == 0.75
    # Moving hits: 1, 1, 1, 1/2
    assert found["recall_window_mean"] == pytest.approx(0.875)
    assert found["recall_window_std"] == pytest.approx(statistics.pstdev([1, 1, 1, 0.5]))
    assert found["mpr"] == pytest.approx(100 * 23.5 / 20 / 4)
    assert found["mrr"] == pytest.approx((1 + 1 / 5 + 1 / 10.5 + 1 / 11) / 4)
    assert found["ndcg"] == pytest.approx((1 + 1 / math.log2(6) + 1 / math.log2(11.5)) / 4)
    assert found["coverage"] == 0.25
    assert found["new_user_recall"] == 1
    assert found["new_item_recall"] == 0
    assert found["new_user_mpr"] == pytest.approx(100 * (4 + 9.5) / 2 / 20)
    assert found["new_item_mpr"] == pytest.approx(50)
    assert found["recommend_us"] == pytest.approx(6.5)  # the mean of 5, 6, 7 and 8
    assert found["update_us"] == pytest.approx(3)


def test_where_nobody_is_new_there_is_no_figure() -> None:
    found = row(trial_of([1, 2]), dataset="d", method="m", seed=1, top=1, window=1)
    assert [found[key] for key in KEYS if key.startswith("new")] == [None] * 4


def test_rows_are_written_as_json(tmp_path: Path) -> None:
    study = study_of(["ifm", "имф"], seeds=2)
    found = rows(study)
    write_rows(tmp_path / "rows.json", found)
    read = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))
    assert read == found
    assert [list(of_json) for of_json in read] == [KEYS] * 4
    assert [(r["dataset"], r["method"], r["seed"]) for r in read] == [
        ("made-up", method, seed) for method in ("ifm", "имф") for seed in (0, 1)
    ]


def test_rows_that_json_cannot_hold_leave_no_file(tmp_path: Path) -> None:
    broken = rows(study_of(["a"]))
    broken[0]["mpr"] = math.nan
    with pytest.raises(ValueError, match="JSON"):
        write_rows(tmp_path / "rows.json", broken)
    assert list(tmp_path.iterdir()) == []


def test_a_summary_is_over_seeds_and_the_papers_recall_over_time_as_well() -> None:
    study = study_of(["a", "b"], seeds=3)
    found = summary(study, "b")
    own = [r for r in rows(study) if r["method"] == "b"]
    for name in ("recall", "mpr", "new_item_mpr", "recommend_us"):
        values = [r[name] for r in own]
        assert found[name] == pytest.approx((statistics.fmean(values), statistics.pstdev(values)))
    curves = [metrics.moving_recall(trial.rank, 10, 100) for trial in study.trials["b"].values()]
    assert found["recall_window"] == metrics.paper_recall(curves)
    assert found["recall_window"].deviation > found["recall"].deviation > 0
    assert found["train_s"] == (1.5, 0)
    assert "dataset" not in found


def test_a_single_seed_has_no_deviation_but_over_time() -> None:
    found = summary(study_of(["a"], seeds=1), "a")
    assert math.isnan(found["recall"].deviation)
    assert found["recall_window"].deviation > 0


def test_metrics_that_no_seed_has_are_nan() -> None:
    facts = Facts("d", 10, 2, 2, False)
    found = summary(Study(facts, 1, 5, {"a": {1: trial_of([0, 1]), 2: trial_of([0, 1])}}), "a")
    assert math.isnan(found["new_user_recall"].mean)


def test_ranks_go_to_parquet_and_come_back(tmp_path: Path) -> None:
    studies = [study_of(["ifm", "imf"], seeds=2, events=30), study_of(["ifm"], seeds=1, events=4, name="другой")]
    write_ranks(tmp_path / "ranks.parquet", studies)
    read = read_ranks(tmp_path / "ranks.parquet")
    made_up = [Key("made-up", method, seed) for method in ("ifm", "imf") for seed in (0, 1)]
    assert list(read) == [*made_up, Key("другой", "ifm", 0)]
    for key, ranks in read.items():
        study = studies[key.dataset == "другой"]
        trial = study.trials[key.method][key.seed]
        np.testing.assert_array_equal(ranks.event, 3 + np.arange(len(trial.rank)))
        for name in ("rank", "candidates", "new_user", "new_item"):
            np.testing.assert_array_equal(getattr(ranks, name), getattr(trial, name))
            assert getattr(ranks, name).dtype == getattr(trial, name).dtype
    columns = ["dataset", "method", "seed", "event", "rank", "candidates", "new_user", "new_item"]
    assert pq.read_schema(tmp_path / "ranks.parquet").names == columns


def test_a_trial_stays_one_however_long_it_is(tmp_path: Path) -> None:
    events = 2**20 + 1  # more than Parquet's writer puts into one group unless told
    study = Study(Facts("long", events, 1, 9, True), 1, 5, {"a": {1: trial_of(np.zeros(events))}})
    write_ranks(tmp_path / "ranks.parquet", [study])
    (ranks,) = read_ranks(tmp_path / "ranks.parquet").values()
    assert len(ranks.rank) == events


def test_interrupted_ranks_leave_no_file(tmp_path: Path) -> None:
    study = study_of(["a", "b"], seeds=1)
    trial = study.trials["b"][0]
    study.trials["b"][0] = replace(trial, candidates=trial.candidates[:1])  # as broken as a full disk
    with pytest.raises(ValueError, match="length"):
        write_ranks(tmp_path / "ranks.parquet", [study])
    assert list(tmp_path.iterdir()) == []


def test_what_holds_no_ranks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ranks.parquet").write_text("no")
    for name in ("ranks.parquet", "missing.parquet"):
        with pytest.raises(InvalidInput, match=rf"{name}' cannot be read"):
            read_ranks(tmp_path / name)


def test_the_facts_of_a_stream_count_what_its_events_name() -> None:
    events = [Event("u1", "a"), Event("u2", "a"), Event("u1", "b")]
    stream = Stream("d", events, {"u1": {}, "u9": {}}, {"a": {}, "z": {}}, repeats=True)
    assert Facts.of(stream) == Facts("d", 3, 2, 2, True)


def test_a_study_of_unequal_trials_is_refused() -> None:
    facts = Facts("d", 10, 2, 2, False)
    with pytest.raises(InvalidInput, match=r"of one stream for every seed, got \{1: \[2, 3\]\}"):
        Study(facts, 1, 1, {"a": {1: trial_of([0, 1])}, "b": {1: trial_of([0, 1, 2])}})
    generated = Study(facts, 1, 1, {"a": {1: trial_of([0, 1]), 2: trial_of([0, 1, 2])}})
    assert generated.tested == 2
    for none in ({}, {"a": {}}, {"a": {1: trial_of([0])}, "b": {}}):
        with pytest.raises(InvalidInput, match="a trial of every method"):
            Study(facts, 1, 1, none)
    with pytest.raises(InvalidInput, match="window must be 1 or more, got 0"):
        Study(facts, 1, 0, {"a": {1: trial_of([0])}})
