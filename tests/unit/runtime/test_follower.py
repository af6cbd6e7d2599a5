"""A follower beside a log that grows: it learns what comes, says how far it is behind, and goes on after what passes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from several import SCHEMA, lines

from coldstream import Recommender
from coldstream.errors import StoreDamaged, StoreUnavailable
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.records import LogHeader, line
from coldstream.runtime.replication import follower as module
from coldstream.runtime.replication.follower import Follower
from coldstream.runtime.replication.progress import Progress
from coldstream.storage.store import Entry
from conftest import bits
from patience import PATIENCE, until


class Log:
    """A log that another process writes to."""

    def __init__(self) -> None:
        self.entries = list[Entry]()
        self.first = 0
        self.error: Exception | None = None
        self.closed = False
        self.asked = 0

    def grow(self, count: int) -> None:
        """So many more lines than there are; the first is behind the header."""
        there = len(self.entries)
        self.entries += [Entry(n + 1, line(record).body) for n, record in lines(200)[there : there + count]]

    def last(self) -> int:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return len(self.entries) + 1

    def read(self, after: int) -> Iterator[Entry]:
        return iter(self.entries[after - 1 :])

    def base(self) -> int:
        return self.first

    def snapshots(self) -> list[Any]:
        return []

    def close(self) -> None:
        self.closed = True


def begun(lines_known: Sequence[Entry] = ()) -> Learner:
    learner = Learner.begun(LogHeader(SCHEMA.document(), Recommender(SCHEMA, factors=8).hyperparameters.document(), 1), 1)
    learner.replay(lines_known)
    return learner


def followed(
    check: Callable[[Follower, Log], Awaitable[None]], tmp_path: Path, anew: Callable[[Log], Learner] | None = None
) -> tuple[Follower, list[str]]:
    failures, log = list[str](), Log()

    async def run() -> Follower:
        again = cast(Callable[[], Learner], None if anew is None else lambda: anew(log))
        own = Follower(cast(Any, log), begun(), WriterLimits(), tmp_path, Progress(), again)
        await own.start(lambda: failures.append("failed"))
        await check(own, log)
        assert not own.stopped
        await own.stop()
        return own

    own = asyncio.run(run())
    assert own.stopped
    assert log.closed
    return own, failures


@pytest.fixture(autouse=True)
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads without being told, but for those who say so."""
    monkeypatch.setattr(module, "READ_EVERY", 1000.0)


def test_what_is_told_of_is_learned_at_once(tmp_path: Path) -> None:
    async def check(own: Follower, log: Log) -> None:
        await until(lambda: log.asked > 0)
        log.grow(50)
        own.notice(51)
        own.notice(20)  # what was said before comes late
        assert own.lag.lines == 50
        assert own.lag.seconds > 0
        await until(lambda: own.learner.position == 51)
        assert own.lag.lines == 0
        assert own.store_works

    _, failures = followed(check, tmp_path)
    assert not failures


def test_who_was_told_nothing_looks_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_EVERY", 0.01)

    async def check(own: Follower, log: Log) -> None:
        log.grow(30)
        await until(lambda: own.learner.position == 31)

    followed(check, tmp_path)


def test_a_store_that_is_away_is_asked_again_and_the_lag_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_EVERY", 0.2)

    async def check(own: Follower, log: Log) -> None:
        log.error = StoreUnavailable("away")
        await until(lambda: not own.store_works)
        first = own.lag
        assert first.lines == 0
        await asyncio.sleep(0.05)
        assert own.lag.seconds > first.seconds
        log.grow(10)
        log.error = None
        await until(lambda: own.learner.position == 11)
        assert own.store_works
        await until(lambda: own.lag.seconds == 0.0)

    _, failures = followed(check, tmp_path)
    assert not failures


def test_all_of_it_is_learned_before_another_is_taken_over_from(tmp_path: Path) -> None:
    async def check(own: Follower, log: Log) -> None:
        await until(lambda: log.asked > 0)
        log.grow(150)
        await own.catch_up()
        assert own.learner.position == 151

    followed(check, tmp_path)


def test_what_was_erased_before_it_was_learned_means_to_begin_anew(tmp_path: Path) -> None:
    async def check(own: Follower, log: Log) -> None:
        own.learner.curves = lambda: "the page's"
        waiting = asyncio.create_task(own._progress.wait(20, PATIENCE))
        await until(lambda: log.asked > 0)
        log.grow(40)
        log.first = 20
        own.notice(41)
        await until(lambda: own.learner.position == 41)
        assert own.learner.curves() == "the page's"
        assert await waiting

    _, failures = followed(check, tmp_path, lambda log: begun(log.entries[:19]))
    assert not failures


def test_lines_that_are_erased_while_they_are_read_mean_to_begin_anew(tmp_path: Path) -> None:
    """What is read may lack them before the store says so: it is asked for its base after the lines."""

    async def check(own: Follower, log: Log) -> None:
        await until(lambda: log.asked > 0)
        read = log.read

        def while_an_erasure_goes_on(after: int) -> Iterator[Entry]:
            log.read = read  # type: ignore[method-assign]
            log.first = 20
            return (entry for entry in read(after) if entry.position not in (5, 6))

        log.read = while_an_erasure_goes_on  # type: ignore[method-assign]
        log.grow(40)
        own.notice(41)
        await until(lambda: own.learner.position == 41)

    own, failures = followed(check, tmp_path, lambda log: begun(log.entries[:19]))
    assert not failures
    log, direct = Log(), begun()
    log.grow(40)
    direct.replay(log.entries)
    assert bits(own.learner.recommender) == bits(direct.recommender)


def test_a_line_that_cannot_be_read_ends_it_and_says_so(tmp_path: Path) -> None:
    async def check(own: Follower, log: Log) -> None:
        await until(lambda: log.asked > 0)
        log.error = StoreDamaged("line 7 is damaged")
        own.notice(9)
        await until(lambda: own.failed is not None)

    own, failures = followed(check, tmp_path)
    assert isinstance(own.failed, StoreDamaged)
    assert failures == ["failed"]


def test_a_snapshot_is_begun_by_who_has_the_duty_and_by_nobody_else(tmp_path: Path) -> None:
    begins = list[tuple[int, float]]()

    async def check(own: Follower, log: Log) -> None:
        own.snapshots.begin_if_due = lambda _, *due: begins.append(due)  # type: ignore[method-assign,assignment]
        await until(lambda: log.asked > 0)
        for n, duty in enumerate((False, True), 1):
            own.takes_snapshots = duty
            log.grow(5)
            own.notice(5 * n + 1)
            await until(lambda n=n: own.learner.position == 5 * n + 1)
            if duty:
                await until(lambda: begins)
            else:
                asked = log.asked
                own.notice(5 * n + 2)  # not there yet: the store is asked once more, after that turn
                await until(lambda asked=asked: log.asked > asked)
                assert not begins
        assert begins[0] == (WriterLimits().snapshot_lines, WriterLimits().snapshot_seconds)

    followed(check, tmp_path)


@pytest.mark.parametrize("error", [None, StoreUnavailable("full")])
def test_a_last_snapshot_that_fails_keeps_nobody(tmp_path: Path, error: Exception | None) -> None:
    async def check(own: Follower, _: Log) -> None:
        asked = list[object]()

        async def finish(learner: object) -> None:
            asked.append(learner)
            if error is not None:
                raise error

        own.snapshots = cast(Any, SimpleNamespace(finish=finish, give_up=own.snapshots.give_up))
        await own.finish()
        assert asked == [own.learner]

    followed(check, tmp_path)


def test_it_holds_what_a_replay_holds(tmp_path: Path) -> None:
    async def check(own: Follower, log: Log) -> None:
        log.grow(120)
        own.notice(121)
        await until(lambda: own.learner.position == 121)

    own, _ = followed(check, tmp_path)
    log = Log()
    log.grow(120)
    direct = begun()
    direct.replay(log.entries)
    assert bits(own.learner.recommender) == bits(direct.recommender)
