"""When it is looked for old lines, when marks are set, and when new snapshots are worth it. No line is deleted here."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream.runtime.erasure import compaction as module
from coldstream.runtime.erasure.compaction import Compaction

BEGUN = 5000.0


class Log:
    """A store that is asked for its marks and its size, with snapshots that know it up to a line."""

    def __init__(self, *, marks: list[tuple[int, float]] | None = None, size: int = 0, cut: int = 0, kept: int = 0) -> None:
        self.now = BEGUN
        self.own_marks, self.own_size, self.own_cut, self.oldest = marks or [], size, cut, kept
        self.spare = 0
        self.done: list[str] = []
        self.deleted: list[int] = []

    def marks(self) -> list[tuple[int, float]]:
        return self.own_marks

    def mark(self, time: float) -> None:
        self.own_marks.append((1000, time))

    def size(self) -> int:
        return self.own_size

    def trim(self) -> None:
        self.done.append("trimmed")
        self.own_size -= self.spare
        self.spare = 0

    def cut(self) -> int:
        return self.own_cut

    def clear_in_steps(self) -> Iterator[None]:
        self.done.append("cleared")
        yield

    async def oldest_kept(self) -> int:
        return self.oldest

    async def replace(self, learner: Any) -> int:
        self.done.append("replaced")
        self.oldest = learner.position
        return self.oldest

    async def done_in_store(self, steps: Iterator[None]) -> None:
        list(steps)


def compacted(log: Log, retain: float = 0.0, disk: int = 0, position: int = 1000) -> Compaction:
    """What has looked at a log once."""

    async def in_store(asked: Callable[[], Any]) -> Any:
        return asked()

    own = Compaction(cast(Any, log), cast(Any, in_store), cast(Any, log), lambda: log.now, retain, disk)

    async def delete(_: object, __: object, until: int) -> None:
        log.deleted.append(until)
        log.own_size -= 10 * (until - log.own_cut)
        log.own_cut = until

    own._delete = delete  # type: ignore[method-assign]
    learner, reading = cast(Any, SimpleNamespace(position=position)), cast(Any, log)
    own.again = lambda: asyncio.run(own.compact(learner, reading))  # type: ignore[attr-defined]
    assert own.is_due
    asyncio.run(own.compact(learner, reading))
    return own


@pytest.mark.parametrize(("retain", "pause"), [(0.0, 60.0), (1000.0, 10.0), (50.0, 1.0), (1e9, 60.0)])
def test_it_is_looked_at_once_a_minute_or_more_often_where_lines_go_soon(retain: float, pause: float) -> None:
    log = Log()
    own = compacted(log, retain)
    log.now += pause - 0.25
    assert not own.is_due
    log.now += 0.25
    assert own.is_due


@pytest.mark.parametrize(("retain", "apart"), [(0.0, 3600.0), (1000.0, 10.0), (1e9, 3600.0)])
def test_marks_are_a_hundredth_of_the_time_apart_and_an_hour_at_most(retain: float, apart: float) -> None:
    log = Log()
    own: Any = compacted(log, retain)
    assert log.own_marks == [(1000, BEGUN)]
    log.now += apart - 0.25
    own.again()
    assert len(log.own_marks) == 1
    log.now += 0.25
    own.again()
    assert [time for _, time in log.own_marks] == [BEGUN, BEGUN + apart]


def test_what_a_killed_process_left_is_cleared_once() -> None:
    log = Log()
    own: Any = compacted(log)
    own.again()
    assert log.done == ["cleared"]


@pytest.mark.parametrize(
    ("wanted", "kept", "cut", "replaced"),
    [
        (500, 600, 0, False),
        (500, 401, 0, False),  # what snapshots need of it is less than a tenth of the log
        (500, 400, 0, True),
        (500, 100, 445, False),
        (500, 100, 444, True),
    ],
)
def test_old_snapshots_are_replaced_where_they_keep_much(wanted: int, kept: int, cut: int, replaced: bool) -> None:
    log = Log(kept=kept)
    own = compacted(log)
    own.cut = cut
    known = asyncio.run(own._kept(cast(Any, SimpleNamespace(position=1000)), wanted))
    assert known == (1000 if replaced else kept)
    assert ("replaced" in log.done) == replaced


def test_so_many_are_deleted_at_once_and_then_the_room_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_AT_ONCE", 200)
    log = Log(marks=[(500, BEGUN - 100.0), (990, BEGUN)], kept=1000, size=10_000)
    own = compacted(log, retain=50.0)
    assert log.deleted == [200, 400, 500]
    assert (own.cut, own.size) == (500, 5000)


def test_no_more_goes_than_is_learned() -> None:
    log = Log(marks=[(990, BEGUN - 100.0)], kept=2000)
    compacted(log, retain=50.0, position=700)
    assert log.deleted == [700]


@pytest.mark.parametrize(("size", "trimmed"), [(900, False), (1000, False), (1001, True)])
def test_what_is_taken_for_nothing_goes_before_lines_do(size: int, trimmed: bool) -> None:
    log = Log(size=size, kept=1000)
    log.spare = 200
    own = compacted(log, disk=1000)
    assert ("trimmed" in log.done, log.deleted) == (trimmed, [])
    assert own.size == size - 200 * trimmed


def test_where_there_is_no_bound_nothing_is_trimmed() -> None:
    log = Log(size=1000)
    compacted(log)
    assert "trimmed" not in log.done


def test_too_little_room_is_said_once_each_time(caplog: pytest.LogCaptureFixture) -> None:
    log = Log(size=1000, cut=1000)  # nothing is left that could go
    own: Any = compacted(log, disk=500)
    own.again()
    log.own_size = 500
    own.again()
    log.own_size = 501
    own.again()
    said = [vars(one) for one in caplog.records if one.levelno == logging.WARNING]
    assert [(one["bytes"], one["disk"]) for one in said] == [(1000, 500), (501, 500)]
