"""Trials with several learners: the protocol of one."""

import pytest

from coldstream import Category, Event, Id, InvalidInput, Schema
from coldstream.cluster.runs import RunWithLearners
from coldstream.evaluation.prequential import unwatched
from coldstream.evaluation.runs import Job, run
from coldstream.evaluation.workload import Known, Workload, hand_over
from coldstream.events.stream import Stream

EVENTS = [Event(f"u{n * n % 7}", f"i{n * n % 11}", float(n), {"device": "pq"[n % 2]}) for n in range(80)]


def job(name: str, device: Category) -> Job:
    schema = Schema(user=[Id()], item=[Id()], context=[device])
    hand_over(Known(name), Workload(Stream("stream", EVENTS, {}, {}, True), schema, schema))
    return Job(Known(name), "coldstream", 1, 3)


def test_a_trial_with_one_learner_is_the_trial_of_a_single_process() -> None:
    given = job("free", Category("device"))
    alone, one, two = run(given, unwatched), *(RunWithLearners(n, 10)(given, unwatched) for n in (1, 2))
    assert one.rank.tolist() == alone.rank.tolist()
    assert two.candidates.tolist() == alone.candidates.tolist()
    assert two.rank.tolist() != alone.rank.tolist()


@pytest.mark.parametrize("bound", [{"most": 5}, {"expire": 100}])
def test_what_makes_things_go_is_refused_where_nobody_knows_all_of_them(bound: dict[str, int]) -> None:
    given = job(f"bounded {bound}", Category("device", **bound))
    with pytest.raises(InvalidInput, match=r"(most|expire) of context\.device must not be bounded in a trial with several"):
        RunWithLearners(2)(given, unwatched)
    assert len(RunWithLearners(1)(given, unwatched).rank)
