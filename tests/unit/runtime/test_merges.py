"""When learners merge, and how lines travel to them. Nothing is learned."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream.cluster import lines as lines_module
from coldstream.cluster import team as team_module
from coldstream.cluster.lines import Lines, batches
from coldstream.cluster.team import LearnerTeam
from coldstream.runtime import merges as module
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.merges import Merges
from coldstream.runtime.records import Interaction, ItemPut, ItemRemoved, Record, UserForgotten, UserPut


@pytest.mark.parametrize(
    ("unmerged", "passed", "waited_for", "due"),
    [
        (0, 99.0, True, False),  # nothing was learned
        (1, 0.0, False, False),
        (1, 4.75, False, False),
        (1, 5.0, False, True),
        (9, 0.0, False, False),
        (10, 0.0, False, True),
        (1, 0.0, True, True),
    ],
)
def test_learners_merge_after_so_many_events_or_so_long_or_when_waited_for(
    unmerged: int, passed: float, waited_for: bool, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [50.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    learner: Any = SimpleNamespace(unmerged=unmerged, is_waited_for=waited_for)
    merges = Merges(WriterLimits(merge_events=10, merge_seconds=5.0))
    now[0] += 100.0
    merges.note()
    now[0] += passed
    assert merges.are_due(learner) == due


def numbered(*records: Record) -> list[tuple[int, Record]]:
    return list(enumerate(records, 1))


E, P, U = Interaction("u", "i"), ItemPut("i", {}), UserPut("u", {})
GONE, LEFT = ItemRemoved("i"), UserForgotten("u")


@pytest.mark.parametrize(
    ("records", "lengths"),
    [
        ([], []),
        ([E], [1]),
        ([E, P, U], [3]),
        ([E, P, U, E], [3, 1]),
        ([E] * 6, [3, 3]),
        ([E] * 7, [3, 3, 1]),
        ([GONE], [1]),
        ([GONE, LEFT], [1, 1]),
        ([E, GONE, E], [1, 1, 1]),
        ([E, E, E, GONE, E], [3, 1, 1]),
        ([GONE, E, E, E, E], [1, 3, 1]),
        ([E, E, LEFT], [2, 1]),
    ],
)
def test_lines_travel_together_but_what_takes_something_away_does_so_alone(
    records: list[Record], lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_BATCH", 3)
    found = list(batches(numbered(*records)))
    assert [len(batch) for batch in found] == lengths
    assert [line for batch in found for line in batch] == numbered(*records)


def test_lines_wait_until_some_go_together_or_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_module, "SENT_TOGETHER", 4)
    taken = list[tuple[str, int]]()

    class Learners:
        def take(self, given: Lines) -> None:
            taken.append(("take", len(given.records())))

        def learn(self, upto: int) -> None:
            taken.append(("learn", upto))

        def merge_for_front(self) -> Any:
            taken.append(("merge", 0))
            return lambda: "changes"

    adopted = list[object]()
    monkeypatch.setattr(team_module, "adopt", lambda shared, changes, clock: adopted.append((shared, changes, clock)))
    front = SimpleNamespace(engine=SimpleNamespace(shared="shared", clock="clock"))
    team = LearnerTeam(cast(Any, front), cast(Any, Learners()))
    team.send(numbered(E, P, U))
    assert taken == []
    team.send(numbered(E))
    assert taken == [("take", 4), ("learn", 4)]
    team.send(numbered(E, E))
    team.merge()
    assert taken[2:] == [("take", 2), ("learn", 2), ("merge", 0)]
    assert adopted == [("shared", "changes", "clock")]
    team.merge()
    assert taken[5:] == [("merge", 0)], "what was sent is not sent again"
