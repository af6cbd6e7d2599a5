"""Learning in slices: others get their turn, however much a record brings."""

import asyncio
import itertools

import pytest

from coldstream import Id, Recommender, Schema
from coldstream.runtime.records import Interaction, ItemPut, Record, UserPut
from coldstream.runtime.replication.progress import Progress
from coldstream.runtime.writing import live_learning
from coldstream.runtime.writing.live_learning import LONGEST_PIECE, LiveLearning, TimeBudget
from coldstream.scoring.ranking import Rank


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
def nothing_is_ranked_and_no_slice_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself: a busy machine may take longer than a slice for nothing at all."""
    monkeypatch.setattr(TimeBudget, "left", lambda _: False)
    monkeypatch.setattr(live_learning, "SLICE", 1000.0)


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


class Ranked(Heard):
    """A learner that notes the order of what it is told, and what was asked before."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, int]] = []

    def apply_all(self, lines: list[tuple[int, Record]]) -> None:
        self.told += [("learned", position) for position, _ in lines]
        self.position = lines[-1][0] if lines else self.position

    def test(self, interaction: Interaction) -> list[Rank]:
        self.told.append(("asked", int(interaction.item)))
        return []

    def apply(self, position: int, record: Record, ranks: list[Rank] | None) -> None:
        assert ranks == []
        self.told.append(("learned", position))
        self.position = position


def test_what_is_asked_of_an_event_is_asked_when_all_before_it_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many wait to be learned in one go: ranks are those of what was known, and lines are learned in order."""
    records: list[Record] = [Interaction("u", str(n)) if n % 3 == 0 else ItemPut(f"i{n}", {}) for n in range(1, 13)]
    time_left = iter([True, False, True, False])  # every other event is asked for
    monkeypatch.setattr(TimeBudget, "left", lambda _: next(time_left))
    own, progress = Ranked(), Progress()
    reached = list[int]()
    monkeypatch.setattr(progress, "reached", reached.append)
    asyncio.run(LiveLearning(own, 0.5, progress).learn(list(enumerate(records, 1))))  # type: ignore[arg-type]
    assert [position for what, position in own.told if what == "learned"] == list(range(1, 13))
    for asked in (3, 9):
        assert own.told.index(("asked", asked)) == own.told.index(("learned", asked)) - 1
    assert [position for what, position in own.told if what == "asked"] == [3, 9]
    assert reached == [12]


def test_the_time_that_ranking_takes_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    now, spent = itertools.count(0.0, 0.5), list[float]()
    monkeypatch.setattr(live_learning, "perf_counter", lambda: next(now))
    monkeypatch.setattr(TimeBudget, "left", lambda _: True)
    monkeypatch.setattr(TimeBudget, "spend", lambda _, seconds: spent.append(seconds))
    asyncio.run(LiveLearning(Ranked(), 0.5, Progress()).learn([(1, Interaction("u", "1"))]))  # type: ignore[arg-type]
    assert spent == [0.5]


@pytest.mark.parametrize(
    "record",
    [
        Interaction("u", "i", context={"tags": ["x"] * 64}),
        ItemPut("i", {"tags": ["x"] * 64}),
        UserPut("u", {"tags": ["x"] * 64}),
    ],
)
def test_values_weigh_wherever_they_stand(record: Record) -> None:
    assert live_learning._weight(record) == 1 + 64 // live_learning.VALUES
