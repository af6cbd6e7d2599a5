"""Learners that are lost: others begin where the log says, and no event is learned twice or never."""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest
from several import SCHEMA, lines

from coldstream.cluster.learners import LocalLearners
from coldstream.cluster.team import HIRE_HERE, team_of
from coldstream.config import Hyperparameters
from coldstream.runtime import merges as module
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import Interaction, ItemPut, ItemRemoved, Record, UserForgotten, UserMerged
from coldstream.runtime.recovery import RequestedModel, recovered
from coldstream.runtime.team import Hiring, LearnersLost
from coldstream.runtime.verification import verified
from coldstream.runtime.writing.writer import Writer
from coldstream.snapshots.increments import State
from coldstream.storage import stores
from coldstream.storage.sqlite.store import SqliteStore
from conftest import bits

SMALL = Hyperparameters(factors=4, negatives=4)
LIMITS = WriterLimits(merge_events=25, merge_seconds=0.05, snapshot_lines=60, snapshot_seconds=0)


class Mortal(LocalLearners):
    """Learners some of which are lost before a merge: all calls but those that are told here fail from then on."""

    deaths: ClassVar[list[int]] = []
    """At which merge of all."""
    merges = 0

    def __init__(self, state: State, count: int) -> None:
        super().__init__(state, count)
        self.closed = False

    def merge_for_front(self) -> Any:
        type(self).merges += 1
        if self.merges in self.deaths:
            raise LearnersLost("killed")
        assert not self.closed
        return super().merge_for_front()

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_AFTER", 0.01)
    Mortal.deaths, Mortal.merges = [], 0


def hiring(begin: Any) -> Hiring:
    """Learners that `begin` makes, or in this process where they are several."""
    return Hiring(None if begin is None else team_of(begin), HIRE_HERE)


def written(
    folder: Path, given: Sequence[Record], learners: int, hire: Any = Mortal, folds: Sequence[Record] = ()
) -> Writer:
    """What a writer makes of records, a few at a time; the log is durable before anybody learns it."""

    async def live() -> Writer:
        with closing(SqliteStore(folder)) as store:
            writer = Writer(
                store, recovered(store, RequestedModel(SCHEMA, SMALL, 0, {}, learners, hiring(hire))), LIMITS, folder
            )
            await writer.start(lambda: None)
            for first in range(0, len(given), 9):
                await writer.write(given[first : first + 9])
            for fold in folds:
                await writer.write([fold])
            await writer.stop()
        return writer

    return asyncio.run(live())


def replayed(folder: Path, learners: int) -> tuple[Any, int]:
    """What the log leads to in one process, and how many events it has."""
    with closing(stores.inspected(f"sqlite:{folder}")) as view:
        verdict = verified(view, recent=False, advance=lambda _: None, here=HIRE_HERE)
        assert verdict.same
        assert not verdict.different
        events = sum(b'"kind":"event"' in entry.body for entry in view.read(0))
    with closing(SqliteStore(folder)) as store:
        here = recovered(store, RequestedModel(SCHEMA, SMALL, 0, {}, learners, hiring(None)))
        return bits(here.recommender), events


@pytest.mark.parametrize("deaths", [[], [1], [3], [4, 5, 6], [2, 7]])
def test_lost_learners_leave_no_trace(tmp_path: Path, deaths: list[int]) -> None:
    Mortal.deaths = deaths
    given = [record for _, record in lines(220)]
    writer = written(tmp_path / "data", given, 3)
    assert writer.failed is None
    assert writer.learner.unmerged == 0
    expected, events = replayed(tmp_path / "data", 3)
    assert bits(writer.learner.recommender) == expected
    assert writer.learner.recommender.events == events == sum(isinstance(record, Interaction) for record in given)


@pytest.mark.parametrize("deaths", [[], [3], [4], [5], [6]])
def test_learners_that_are_lost_while_a_session_is_folded_leave_no_trace(tmp_path: Path, deaths: list[int]) -> None:
    """Sessions make learners merge in between: one of the first merges is theirs."""
    Mortal.deaths = deaths
    given = [record for _, record in lines(60)]
    writer = written(tmp_path / "data", given, 3, folds=[UserMerged("u1", "u2"), UserMerged("u4", "u5")])
    assert writer.failed is None
    expected, events = replayed(tmp_path / "data", 3)
    assert bits(writer.learner.recommender) == expected
    assert not writer.learner.recommender.has_user("u1")
    assert writer.learner.recommender.events == events == 60


@pytest.mark.parametrize("deaths", [[], [3], [5]])
def test_a_replay_after_things_went_leads_to_the_same_bits(tmp_path: Path, deaths: list[int]) -> None:
    Mortal.deaths = deaths
    given = [record for _, record in lines(140)]
    given[60:60] = [ItemRemoved(item) for item in ("i1", "i2", "i3")]
    given[90:90] = [UserForgotten("u1"), *(ItemPut(f"new{n}", {"genre": [f"h{n}", "g1"]}) for n in range(6))]
    given += [Interaction(f"u{n % 9}", f"new{n % 6}", 2_000_000.0 + n) for n in range(80)]
    writer = written(tmp_path / "data", given, 3)
    assert writer.failed is None
    expected, _ = replayed(tmp_path / "data", 3)
    assert bits(writer.learner.recommender) == expected


def test_more_learners_or_none_go_on_with_the_same_log(tmp_path: Path) -> None:
    given = [record for _, record in lines(180)]
    for first, learners, hire in ((0, 1, None), (60, 4, Mortal), (120, 2, None), (150, 1, None)):
        last = {0: 60, 60: 120, 120: 150, 150: len(given)}[first]
        writer = written(tmp_path / "data", given[first:last], learners, hire)
        assert writer.failed is None
        assert writer.learner.learners == learners
    expected, events = replayed(tmp_path / "data", 1)
    assert bits(writer.learner.recommender) == expected
    assert events == 180
