"""Learning in slices: others get their turn, however much a record brings."""

import asyncio

import pytest

from coldstream import Id, Recommender, Schema
from coldstream.runtime import live_learning
from coldstream.runtime.live_learning import LONGEST_PIECE, LiveLearning
from coldstream.runtime.progress import Progress
from coldstream.runtime.records import Interaction, ItemPut, Record
from coldstream.runtime.time_budget import TimeBudget


class Heard:
    """A learner that notes what it is told in one go."""

    def __init__(self) -> None:
        self.pieces: list[int] = []
        self.recommender = Recommender(Schema(user=[Id()], item=[Id()]), factors=2)
        self.position = 0

    def apply_all(self, lines: list[tuple[int, Record]]) -> None:
        if lines:
            self.pieces.append(len(lines))
            self.position = lines[-1][0]


@pytest.fixture(autouse=True)
def nothing_is_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimeBudget, "left", lambda _: False)


def pieces(records: list[Record]) -> list[int]:
    heard = Heard()
    learning = LiveLearning(heard, 0.0, Progress())  # type: ignore[arg-type]
    learning.begin()
    asyncio.run(learning.learn(list(enumerate(records, 1))))
    assert sum(heard.pieces) == len(records)
    return heard.pieces


def test_ordinary_records_are_learned_several_at_once() -> None:
    ordinary: list[Record] = [Interaction("u", "i", context={"device": "phone"}), ItemPut("i", {})] * LONGEST_PIECE
    assert pieces(ordinary)[0] == LONGEST_PIECE


def test_a_record_of_many_values_is_learned_by_itself_and_so_are_few_of_several() -> None:
    hostile = Interaction("u", "i", context={"tags": [f"t{n}" for n in range(250)]})
    assert pieces([hostile] * 4) == [1, 1, 1, 1]
    fields = Interaction("u", "i", context={f"f{n}": "x" for n in range(60)})
    assert max(pieces([fields] * 20)) == 4


def test_a_slice_begins_when_others_had_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now, turns = [0.0], list[int]()
    monkeypatch.setattr(live_learning, "perf_counter", lambda: now[0])
    progress = Progress()
    monkeypatch.setattr(progress, "reached", turns.append)
    learning = LiveLearning(Heard(), 0.0, progress)  # type: ignore[arg-type]
    now[0] += 2 * live_learning.SLICE  # others had their turn meanwhile
    learning.begin()
    asyncio.run(learning.learn([(1, ItemPut("i", {})), (2, ItemPut("j", {}))]))
    assert turns == [2]  # nobody else had to have one
    now[0] += 2 * live_learning.SLICE  # this time, it was learning that took so long
    asyncio.run(learning.learn([(3, ItemPut("i", {})), (4, ItemPut("j", {}))]))
    assert turns == [2, 3, 4]
