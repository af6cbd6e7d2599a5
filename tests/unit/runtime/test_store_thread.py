"""What is said of a store after what it was asked for was done, or was not."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream.errors import StoreDamaged, StoreInUse, StoreMovedOn, StoreUnavailable
from coldstream.runtime.writing.store_thread import StoreThread


def thread(can_give_way: bool = False, **store: Any) -> tuple[StoreThread, list[str]]:
    heard: list[str] = []
    return StoreThread(cast(Any, SimpleNamespace(**store)), can_give_way, lambda: heard.append("alert")), heard


def raising(error: Exception) -> Any:
    def action(*_: object) -> None:
        raise error

    return action


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("can_give_way", [False, True])
@pytest.mark.parametrize(
    ("error", "works", "lost"),
    [(StoreUnavailable("gone"), False, False), (StoreInUse("taken"), False, True), (StoreMovedOn("ahead"), True, False)],
)
def test_after_a_failure_nobody_knows_what_was_written(
    error: Exception, works: bool, lost: bool, can_give_way: bool, background: bool
) -> None:
    own, heard = thread(can_give_way)
    with pytest.raises(type(error)):
        asyncio.run((own.done_in_background if background else own.done)(raising(error)))
    assert own.is_behind
    assert own.health.works is works
    assert own.is_lost is (lost and can_give_way)
    assert heard == ["alert"] * own.is_lost
    assert own.damage is None


def test_damage_is_remembered_whoever_finds_it() -> None:
    own, heard = thread()
    with pytest.raises(StoreDamaged):
        asyncio.run(own.done_in_background(raising(damage := StoreDamaged("a line is missing"))))
    assert (own.damage, own.is_behind, heard) == (damage, False, ["alert"])


def test_what_is_written_proves_that_the_store_works() -> None:
    own, _ = thread(append=lambda lines, after: [after + 1 for _ in lines])
    own.health.failed()
    assert asyncio.run(own.append(cast(Any, ["line"]), 7)) == [8]
    assert own.health.works


@pytest.mark.parametrize("touched", [True, False])
def test_a_proof_is_asked_for_only_where_it_is_owed(touched: bool) -> None:
    asked: list[str] = []

    def touch() -> None:
        asked.append("touch")
        if not touched:
            raise StoreUnavailable("full")

    own, _ = thread(touch=touch)
    assert asyncio.run(own.can_write())
    assert asked == []
    own.health.failed()
    assert asyncio.run(own.can_write()) is touched
    assert (asked, own.health.works) == (["touch"], touched)


def test_what_was_asked_before_is_done_before_the_store_is_given_back() -> None:
    asked: list[str] = []
    own, _ = thread(close=lambda: asked.append("close"))

    async def work() -> None:
        before = asyncio.ensure_future(own.done(lambda: asked.append("before")))
        await asyncio.sleep(0)
        await own.close()
        await before
        with pytest.raises(RuntimeError):
            await own.done(lambda: None)

    asyncio.run(work())
    assert asked == ["before", "close"]
