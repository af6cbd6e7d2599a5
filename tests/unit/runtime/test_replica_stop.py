"""What a replica does while it follows and when it stops: it learns the rest first where nobody else goes on."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream.errors import StoreUnavailable
from coldstream.runtime.replication import replica as module
from coldstream.runtime.replication.replica import Replica
from coldstream.runtime.writing.writer import Writer
from coldstream.storage.sharing import News


class Following:
    """A follower that notes what it is asked for."""

    def __init__(self, *, stopped: bool = False, failed: Exception | None = None) -> None:
        self.asked: list[str] = []
        self.stopped, self.failed = stopped, failed

    async def finish(self) -> None:
        self.asked.append("finish")

    async def stop(self) -> None:
        self.asked.append("stop")


def asked_of(follower: Following, *, held: bool | None) -> list[str]:
    async def run() -> None:
        unused = cast(Any, None)
        replica = Replica(unused, unused, unused, Path(), unused, 1.0, unused)
        replica.current = cast(Any, follower)
        replica.news = None if held is None else News(1, 2, 0, None, 0, held, followed=False)
        await replica.stop()

    asyncio.run(run())
    return follower.asked


@pytest.mark.parametrize(
    ("held", "follower", "asked"),
    [
        (True, Following(), ["stop"]),
        (None, Following(), ["stop"]),
        (False, Following(), ["finish", "stop"]),
        (False, Following(failed=ValueError("no more")), ["stop"]),
        (False, Following(stopped=True), []),
    ],
    ids=["another writes", "nothing is known", "nobody writes", "it failed", "it stopped before"],
)
def test_a_follower_is_stopped(held: bool | None, follower: Following, asked: list[str]) -> None:
    assert asked_of(follower, held=held) == asked


class Asked:
    """What replicas share, which notes what it is asked for."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def wait(self, _: float) -> int:
        return 0

    def look(self) -> News:
        return News(1, 2, 0, None, 0, held=True, followed=True)

    def give_up_duty(self) -> None:
        self.calls.append("give up")

    def take_duty(self) -> bool:
        self.calls.append("take")
        return True


def test_who_leaves_gives_up_the_duty_of_snapshots_once_and_takes_none_from_then_on(tmp_path: Path) -> None:
    async def run() -> None:
        unused = cast(Any, None)
        replica = Replica(unused, unused, unused, tmp_path, unused, 1.0, unused)
        follower = SimpleNamespace(takes_snapshots=True, stopped=False, notice=lambda _: None)
        replica._sharing, replica._leaving = cast(Any, shared := Asked()), True
        for _ in range(2):
            await replica._watch_writer(cast(Any, follower))
        assert shared.calls == ["give up"]
        assert not follower.takes_snapshots

    asyncio.run(run())


@pytest.mark.parametrize(("heard", "noticed"), [(0, [2]), (7, [7, 2])], ids=["nothing was heard", "and it was time to look"])
def test_a_follower_that_heard_nothing_finds_out_how_far_the_log_has_come(
    heard: int, noticed: list[int], tmp_path: Path
) -> None:
    """What a writer says may be lost with a connection."""
    found = list[int]()

    async def run() -> None:
        unused = cast(Any, None)
        replica = Replica(unused, unused, unused, tmp_path, unused, 1.0, unused)
        follower = SimpleNamespace(takes_snapshots=True, stopped=False, notice=found.append)
        replica._sharing, replica._leaving = cast(Any, shared := Asked()), True
        shared.wait = lambda _: heard  # type: ignore[method-assign]
        await replica._watch_writer(cast(Any, follower))

    asyncio.run(run())
    assert found == noticed


def test_a_log_that_cannot_be_followed_yet_is_asked_for_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    waited, answers = list[float](), iter([StoreUnavailable("not yet"), StoreUnavailable("not yet"), "the learner"])

    def followed(*_: object) -> object:
        answer = next(answers)
        if isinstance(answer, StoreUnavailable):
            raise answer
        return answer

    monkeypatch.setattr(module, "followed", followed)
    monkeypatch.setattr(module, "sleep", waited.append)
    store = SimpleNamespace(close=lambda: waited.append(-1.0))
    replica = SimpleNamespace(_shared=SimpleNamespace(followed=lambda: store), _requested=None)
    assert Replica._anew(cast(Any, replica), lambda: False) == "the learner"
    assert waited == [module.LOOK_EVERY, module.LOOK_EVERY, -1.0]


@pytest.mark.parametrize(
    ("followed", "writes", "stepped_down"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_a_writer_that_somebody_follows_hands_over(followed: bool, writes: bool, stepped_down: bool) -> None:
    steps: list[object] = []

    async def step_down(writer: object, how: object) -> None:
        steps.append((writer, how))

    async def run() -> None:
        unused = cast(Any, None)
        replica = Replica(unused, unused, unused, Path(), unused, 1.0, unused)
        writer = cast(Any, Writer.__new__(Writer) if writes else Following())
        writer.learner = SimpleNamespace(position=3)
        replica.current, replica._step_down = writer, step_down  # type: ignore[method-assign]
        news = News(1, 2, 0, None, 0, held=True, followed=followed)
        replica._sharing = cast(Any, SimpleNamespace(look=lambda: news))
        await replica.hand_over()
        assert steps == ([(writer, writer.hand_over)] if stepped_down else [])

    asyncio.run(run())
