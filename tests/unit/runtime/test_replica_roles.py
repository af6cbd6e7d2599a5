"""How a process comes to its role and changes it: who beats, who takes over, who steps down. Nothing but fakes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream.errors import Interrupted, StoreInUse, StoreUnavailable
from coldstream.runtime.replication import replica as module
from coldstream.runtime.replication.replica import Replica
from coldstream.storage.sharing import News, Shared
from patience import PATIENCE

HELD = News(3, 20, 0, "10.0.0.1:80", 7, held=True, followed=True)
FREE = HELD._replace(held=False)


class Said:
    """What replicas share, which answers as it is told and notes what it was asked."""

    def __init__(self, *, its_turn: list[bool] | None = None, unseats: bool = True, news: News = HELD) -> None:
        self.calls = list[object]()
        self.turns, self.unseats, self.news = iter(its_turn or []), unseats, news

    def beat(self, epoch: int) -> bool:
        self.calls.append(("beat", epoch))
        return next(self.turns)

    def unseat(self, epoch: int) -> bool:
        self.calls.append(("unseat", epoch))
        return self.unseats

    def give_up_duty(self) -> None:
        self.calls.append("give up duty")

    def announce(self, epoch: int, address: str | None) -> None:
        self.calls.append(("announce", epoch, address))

    def look(self) -> News:
        self.calls.append("look")
        return self.news

    def close(self) -> None:
        self.calls.append("close")


class Following:
    """A follower that notes what it is asked for."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.asked, self.breaks = list[str](), breaks
        self.learner = SimpleNamespace(position=20)

    async def catch_up(self) -> None:
        self.asked.append("catch up")
        if self.breaks:
            raise StoreUnavailable("away")

    async def stop(self) -> None:
        self.asked.append("stop")


def replica(shared: object = None, sharing: Said | None = None) -> Any:
    unused = cast(Any, None)
    own = cast(Any, Replica(cast(Any, shared), unused, unused, Path(), unused, 1.0, lambda _: "10.0.0.2:80"))
    own._sharing = sharing
    return own


def run(check: Callable[[], Awaitable[None]]) -> None:
    async def checked() -> None:
        await asyncio.wait_for(check(), PATIENCE)

    asyncio.run(checked())


class Claimed(SimpleNamespace):
    """A store with the right to write."""

    def __init__(self, epoch: int = 4) -> None:
        super().__init__(epoch=epoch, closed=False)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("turns", "lost"),
    [([True, True, True], False), ([False, True, False, True], False), ([True, False, False, True], True)],
    ids=["all were heard", "one at a time was missed", "two were missed"],
)
def test_a_writer_that_misses_two_turns_has_lost_its_right(
    turns: list[bool], lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept, sharing = list[float](), Said(its_turn=turns)

    async def check() -> None:
        own = replica(sharing=sharing)
        own._claimed = Claimed()

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == len(turns):
                raise asyncio.CancelledError

        monkeypatch.setattr(module.asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await own._beat()
        assert own._lost.is_set() == lost

    run(check)
    assert sharing.calls == [("beat", 4)] * len(turns)
    missed_one = [not heard and (n == 0 or turns[n - 1]) for n, heard in enumerate(turns)]
    assert slept == [module.BEAT_EVERY / 5 if hurry else module.BEAT_EVERY for hurry in missed_one]


def test_who_has_no_right_does_not_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        own = replica(sharing=(sharing := Said()))

        async def sleep(_: float) -> None:
            raise asyncio.CancelledError

        monkeypatch.setattr(module.asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await own._beat()
        assert not sharing.calls

    run(check)


@pytest.mark.parametrize(
    ("news", "unseats", "is_free", "asked", "said"),
    [
        (FREE, True, True, ["catch up", "stop"], ["give up duty"]),
        (HELD, True, True, ["catch up", "stop"], [("unseat", 3), "give up duty"]),
        (HELD, False, True, [], [("unseat", 3)]),
        (FREE, True, False, [], []),
    ],
    ids=["nobody writes", "who writes is silent", "another unseated it", "another is quicker"],
)
def test_a_follower_becomes_the_writer(
    news: News, unseats: bool, is_free: bool, asked: list[str], said: list[object]
) -> None:
    async def check() -> None:
        store, led = Claimed(), list[object]()

        def claimed() -> Claimed:
            if not is_free:
                raise StoreInUse("another")
            return store

        own = replica(SimpleNamespace(claimed=claimed), sharing := Said(unseats=unseats))
        follower = own.current = Following()

        async def lead(*given: object) -> None:
            led.append(given)

        own._lead = lead
        own._lost.set()
        await own._take_over(follower, news)
        assert follower.asked == asked
        assert sharing.calls == said
        assert led == ([(store, follower.learner)] if asked else [])
        assert (own._claimed is store) == bool(asked)
        assert own._lost.is_set() != bool(asked)
        assert not store.closed

    run(check)


def test_who_cannot_learn_the_rest_gives_the_right_back_and_goes_on_following() -> None:
    async def check() -> None:
        store = Claimed()
        own = replica(SimpleNamespace(claimed=lambda: store), Said())
        follower = own.current = Following(breaks=True)
        with pytest.raises(StoreUnavailable):
            await own._take_over(follower, FREE)
        assert store.closed
        assert own._claimed is None

    run(check)


def test_a_session_that_was_ended_may_hold_the_right_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.5, 1.5])
    monkeypatch.setattr(module, "monotonic", lambda: next(now))
    answers = iter([StoreInUse("yet"), "the store"])

    def claimed() -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    own = SimpleNamespace(_shared=SimpleNamespace(claimed=claimed))
    assert Replica._taken(cast(Any, own), 1.0) == "the store"
    answers, now = iter([StoreInUse("yet"), StoreInUse("yet")]), iter([0.0, 0.5, 1.5])
    with pytest.raises(StoreInUse):
        Replica._taken(cast(Any, own), 1.0)


@pytest.mark.parametrize("failed", [False, True])
def test_who_steps_down_says_so_and_follows(failed: bool) -> None:
    async def check() -> None:
        steps = list[object]()

        async def leave() -> None:
            steps.append("leave")

        async def follow(learner: object) -> None:
            steps.append(learner)

        own = replica(sharing=(sharing := Said()))
        own._claimed, own._follow, own._failed = Claimed(), follow, lambda: steps.append("failed")
        learner = SimpleNamespace(position=9)
        writer = SimpleNamespace(failed=ValueError("broken") if failed else None, learner=learner)
        await own._step_down(writer, leave)
        assert own._claimed is None
        assert steps == (["leave", "failed"] if failed else ["leave", learner])
        assert sharing.calls == ([] if failed else [("announce", 4, None)])

    run(check)


def test_where_a_writer_is_reached_is_said_and_noted() -> None:
    async def check() -> None:
        own = replica(sharing=(sharing := Said()))
        changed = own.changed
        await own._announce(Claimed())
        assert sharing.calls == [("announce", 4, "10.0.0.2:80"), "look"]
        assert own.news == HELD
        assert changed.is_set()
        assert own.writer_address == "10.0.0.1:80"
        changed = own.changed
        own._note(HELD._replace(beat=8, last=30))
        assert not changed.is_set()
        own._note(HELD._replace(address="10.0.0.3:80"))
        assert changed.is_set()

    run(check)


def shared(*, there: bool, followed: bool = False, free: bool = True) -> tuple[Shared, Said]:
    sharing = Said(news=HELD._replace(followed=followed))

    def claimed() -> object:
        if not free:
            raise StoreInUse("another")
        return "the store"

    own = SimpleNamespace(is_there=lambda: there, sharing=lambda: sharing, claimed=claimed)
    return cast(Any, own), sharing


@pytest.mark.parametrize(
    ("there", "followed", "free", "opened"),
    [
        (False, False, True, "the store"),
        (True, False, True, "the store"),
        (True, True, True, None),  # a follower knows more than who has only just begun
        (True, False, False, None),
    ],
)
def test_a_start_writes_or_follows(there: bool, followed: bool, free: bool, opened: str | None) -> None:
    own, sharing = shared(there=there, followed=followed, free=free)
    assert replica(own)._opened(lambda: False) == opened
    assert sharing.calls == (["look", "close"] if there else [])


def test_a_start_waits_for_another_that_begins_the_log_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    own, _ = shared(there=False, free=False)
    slept, now = list[float](), iter([0.0, 1.0, module.LONGEST_BEGINNING, module.LONGEST_BEGINNING + 1.0, 0.0])
    monkeypatch.setattr(module, "sleep", slept.append)
    monkeypatch.setattr(module, "monotonic", lambda: next(now))
    with pytest.raises(StoreInUse):
        replica(own)._opened(lambda: False)
    assert slept == [module.LOOK_EVERY] * 2
    with pytest.raises(Interrupted):
        replica(own)._opened(lambda: True)


@pytest.mark.parametrize(
    ("resigned", "lost", "news", "step"),
    [
        (True, False, HELD, "follow"),
        (False, True, HELD, "step down"),
        (False, False, HELD, "followed"),
        (False, False, HELD._replace(epoch=4, address=None, followed=False), "announce"),
    ],
    ids=["it resigned", "it lost its right", "all is well", "nobody knows where it is"],
)
def test_a_writer_looks_after_its_role(
    resigned: bool, lost: bool, news: News, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_EVERY", 0.01)

    async def check() -> None:
        steps = list[str]()

        async def noted(what: str) -> None:
            steps.append(what)

        looked = SimpleNamespace(look_again=lambda: noted("followed"))
        own = replica(sharing=Said(news=news))
        own._follow, own._step_down = lambda _: noted("follow"), lambda *_: noted("step down")
        own._announce = lambda _: noted("announce")
        own._claimed = Claimed()
        if lost:
            own._lost.set()
        writer = own.current = SimpleNamespace(resigned=resigned, learner=None, resign=None, followed=None, snapshots=looked)
        await own._write_on(writer)
        assert steps == [step]
        assert not own._lost.is_set()
        if step in ("followed", "announce"):
            assert writer.followed == news.followed
        own.current = None  # another role by now
        await own._write_on(writer)
        assert steps == [step]

    run(check)
