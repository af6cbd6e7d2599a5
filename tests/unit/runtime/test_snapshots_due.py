"""When a snapshot is due, whether it may build on the one before, and what is asked before. Nothing is written."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream.errors import StoreUnavailable
from coldstream.runtime import snapshots as module
from coldstream.runtime.chain import Chain
from coldstream.runtime.learner import KnownLine
from coldstream.runtime.snapshots import MOST_BYTES, MOST_INCREMENTS, RETRY_AFTER, TRIES, Snapshots, _goes_on
from coldstream.storage.store import Saved

BEGUN = 1000.0


class Clock:
    """A clock that goes when told."""

    def __init__(self) -> None:
        self.now = BEGUN

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own = Clock()
    monkeypatch.setattr(module, "monotonic", own)
    return own


class Taken:
    """Snapshots whose taking is only noted, and fails as long as it is told to."""

    def __init__(self, newest: int | None = None, fails: bool = False) -> None:
        unused = cast(Any, None)
        self.own = Snapshots(unused, unused, Path())
        self.own.newest = None if newest is None else Saved(1, newest)
        self.count, self.fails = 0, fails
        self.own.take = self._take  # type: ignore[method-assign,assignment]

    async def _take(self, _: object) -> None:
        self.count += 1
        await asyncio.sleep(0)
        if self.fails:
            raise StoreUnavailable("the disk is full")

    async def look(self, position: int, lines: int, seconds: float) -> bool:
        """Whether one was taken."""
        before = self.count
        self.own.begin_if_due(cast(Any, SimpleNamespace(position=position)), lines, seconds)
        if self.own._background is not None:
            await self.own._background
        return self.count > before


@pytest.mark.parametrize(
    ("position", "newest", "lines", "seconds", "passed", "due"),
    [
        (10, None, 10, 0.0, 0.0, True),
        (9, None, 10, 0.0, 0.0, False),
        (20, 10, 10, 0.0, 0.0, True),
        (19, 10, 10, 0.0, 0.0, False),
        (19, 10, 0, 0.0, 9999.0, False),
        (11, 10, 0, 5.0, 5.0, True),
        (11, 10, 100, 5.0, 5.0, True),
        (11, 10, 0, 5.0, 4.75, False),
        (10, 10, 0, 5.0, 9999.0, False),  # nothing is new
    ],
)
def test_one_is_due_after_so_many_lines_or_so_long(
    position: int, newest: int | None, lines: int, seconds: float, passed: float, due: bool, clock: Clock
) -> None:
    async def look() -> None:
        taken = Taken(newest)
        clock.now += passed
        assert taken.own.seconds_ago == passed
        assert await taken.look(position, lines, seconds) == due

    asyncio.run(look())


def test_one_is_begun_at_a_time_and_after_a_failure_not_at_once_again(clock: Clock) -> None:
    async def look() -> None:
        taken = Taken(fails=True)
        for _ in range(3):
            taken.own.begin_if_due(cast(Any, SimpleNamespace(position=9)), 1, 0.0)
        await taken.look(9, 1, 0.0)
        assert taken.count == 1
        taken.fails = False
        clock.now += RETRY_AFTER - 0.1
        assert not await taken.look(9, 1, 0.0)
        clock.now += 0.1
        assert await taken.look(9, 1, 0.0)
        assert await taken.look(9, 1, 0.0)

    asyncio.run(look())


def test_what_another_took_counts_as_taken_now_and_what_is_known_does_not(clock: Clock) -> None:
    async def look() -> None:
        there = [Saved(3, 30)]

        async def in_store(action: Any) -> Any:
            return action()

        own = Snapshots(cast(Any, SimpleNamespace(snapshots=lambda: there)), cast(Any, in_store), Path())
        clock.now += 50.0
        await own.look_again()
        assert (own.newest, own.seconds_ago) == (Saved(3, 30), 0.0)
        clock.now += 50.0
        await own.look_again()
        assert own.seconds_ago == 50.0
        there.insert(0, Saved(4, 40))
        await own.look_again()
        assert (own.newest, own.seconds_ago) == (Saved(4, 40), 0.0)

    asyncio.run(look())


FULL, NEWEST = Saved(5, 50), Saved(7, 70)


@pytest.mark.parametrize(
    ("increments", "size", "there", "goes_on"),
    [
        (1, 0, [NEWEST, FULL], True),
        (MOST_INCREMENTS - 1, int(MOST_BYTES * 1000), [NEWEST, FULL], True),
        (MOST_INCREMENTS, 0, [NEWEST, FULL], False),
        (1, int(MOST_BYTES * 1000) + 1, [NEWEST, FULL], False),
        (1, 0, [Saved(8, 80), NEWEST, FULL], False),  # another took one since
        (1, 0, [], False),
    ],
)
def test_a_chain_goes_on_until_it_is_long_or_large(increments: int, size: int, there: list[Saved], goes_on: bool) -> None:
    chain = Chain(FULL, NEWEST, cast(Any, None), increments, 1000, size)
    assert _goes_on(chain, there) == goes_on


@pytest.mark.parametrize(("moves", "asked"), [(0, 1), (3, 4), (10**6, TRIES)], ids=["quiet", "for a while", "all the time"])
def test_the_last_line_is_asked_for_until_no_other_comes_meanwhile_and_not_for_ever(moves: int, asked: int) -> None:
    async def find() -> None:
        learner, calls = SimpleNamespace(position=100, line=None), list[int]()

        def checksum(position: int) -> int:
            calls.append(position)
            learner.position += len(calls) <= moves
            return 7 * position

        async def in_store(action: Any) -> Any:
            return action()

        own = Snapshots(cast(Any, SimpleNamespace(checksum=checksum)), cast(Any, in_store), Path())
        await own._find_line(cast(Any, learner))
        assert calls == [100 + n for n in range(asked)]
        assert learner.line == KnownLine(calls[-1], 7 * calls[-1])

    asyncio.run(find())


def test_a_line_without_a_checksum_is_not_told(clock: Clock) -> None:
    async def find() -> None:
        async def in_store(action: Any) -> Any:
            return action()

        learner: Any = SimpleNamespace(position=100, line=KnownLine(3, 4))
        await Snapshots(cast(Any, SimpleNamespace(checksum=lambda _: None)), cast(Any, in_store), Path())._find_line(learner)
        assert learner.line is None

    asyncio.run(find())


@pytest.mark.parametrize(("newest", "taken"), [(None, True), (19, True), (20, False), (25, False)])
def test_a_stop_takes_one_only_where_something_is_new(newest: int | None, taken: bool, clock: Clock) -> None:
    async def stop() -> None:
        given = list[float]()
        unused = cast(Any, None)
        own = Snapshots(unused, unused, Path())
        own.newest = None if newest is None else Saved(1, newest)

        async def take(_: object, longest: float) -> None:
            given.append(longest)

        own.take = take  # type: ignore[method-assign,assignment]
        await own.finish(cast(Any, SimpleNamespace(position=20)))
        assert given == ([module.LONGEST_LAST] if taken else [])

    asyncio.run(stop())


def test_what_went_into_one_that_was_on_its_way_is_not_given_to_the_last(clock: Clock) -> None:
    async def stop() -> None:
        given, ended = list[float](), list[str]()
        unused = cast(Any, None)
        own = Snapshots(unused, unused, Path())

        async def take(_: object, longest: float) -> None:
            given.append(longest)

        async def slow() -> None:
            clock.now += 3 * module.LONGEST_LAST

        own.take = take  # type: ignore[method-assign,assignment]
        own._background = asyncio.create_task(slow())
        own._cut = cast(Any, SimpleNamespace(end=lambda: ended.append("given up")))
        await own.finish(cast(Any, SimpleNamespace(position=20)))
        assert given == [0.0]
        assert ended == ["given up"]

    asyncio.run(stop())
