"""Calls wait in order, are checked while others have their turn, and whoever waits is answered whatever happens."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from coldstream import Id, Recommender, Schema
from coldstream.errors import ColdstreamError
from coldstream.lists.inspection import Steps
from coldstream.runtime import turns
from coldstream.runtime.records import Interaction, ItemPut, ItemRemoved, Record
from coldstream.runtime.writing.checks import Checks, Refused
from coldstream.runtime.writing.write_queue import Overloaded, WriteQueue


def checks() -> Checks:
    return Checks(Recommender(Schema(user=[Id()], item=[Id()])))


def puts(count: int) -> list[Record]:
    return [ItemPut(f"i{n}", {}) for n in range(count)]


def run(work: Any) -> Any:
    return asyncio.run(work)


def test_no_more_wait_than_can_be_promised_but_one_call_may_be_of_any_size() -> None:
    async def work() -> None:
        queue = WriteQueue(10)
        assert not queue
        queue.add(puts(30))
        assert (bool(queue), queue.waiting, queue.wake.is_set()) == (True, 30, True)
        with pytest.raises(Overloaded, match="30 records wait to be learned, the most is 10"):
            queue.add(puts(1))
        await queue.take([], checks(), 100)
        assert (bool(queue), queue.waiting) == (False, 0)
        queue.add(puts(5))
        queue.add(puts(5))
        with pytest.raises(Overloaded):
            queue.add(puts(1))

    run(work())


def test_a_group_is_as_long_as_it_may_be_and_of_what_goes_together() -> None:
    async def work() -> None:
        queue = WriteQueue(100)
        calls = [queue.add(puts(2)), queue.add(puts(2)), queue.add(puts(2)), queue.add([ItemRemoved("i0")])]
        for longest, found, waiting in ((3, calls[:2], 3), (100, calls[2:3], 1)):
            group: list[Any] = []
            await queue.take(group, checks(), longest)
            assert (group, queue.waiting) == (found, waiting)
        queue.put_back(calls[1:3])
        assert queue.waiting == 5
        again: list[Any] = []
        await queue.take(again, checks(), 100)
        assert again == calls[1:3]

    run(work())


def test_whoever_is_put_back_is_asked_for_what_was_asked_for() -> None:
    async def work() -> None:
        queue = WriteQueue(100)
        call = queue.add(puts(2))
        group: list[Any] = []
        await queue.take(group, checks(), 100)
        call.records = puts(7)
        queue.put_back(group)
        assert (call.records, queue.waiting) == (puts(2), 2)

    run(work())


def test_who_is_refused_is_told_and_holds_up_nobody() -> None:
    async def work() -> None:
        queue = WriteQueue(100)
        refused, accepted = queue.add([ItemRemoved("nothing")]), queue.add([ItemRemoved("nothing")])
        group: list[Any] = []
        await queue.take(group, checks(), 100)
        assert (group, queue.waiting) == ([], 0)
        for call in (refused, accepted):
            with pytest.raises(Refused):
                await call.answer

    run(work())


def test_others_have_their_turn_while_a_long_call_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE", -1.0)  # every step is longer

    async def work() -> None:
        queue, had = WriteQueue(100), list[int]()
        call = queue.add(puts(9))

        async def somebody() -> None:
            while True:
                had.append(queue.waiting)
                await asyncio.sleep(0)

        other = asyncio.create_task(somebody())
        group: list[Any] = []
        await queue.take(group, checks(), 100)
        other.cancel()
        assert (group, queue.waiting) == ([call], 0)
        assert len(had) >= 9
        assert set(had) == {9}  # until it is checked, it waits

    run(work())


def test_whoever_waits_is_answered_where_a_check_fails_as_nobody_expected() -> None:
    class Broken(Checks):
        def check_in_steps(self, records: Sequence[Record]) -> Steps[None]:
            if isinstance(records[0], Interaction):
                raise ZeroDivisionError
            yield

    async def work() -> None:
        queue = WriteQueue(100)
        calls = [queue.add(puts(1)), queue.add([Interaction("u", "i")]), queue.add(puts(1))]
        group: list[Any] = []
        with pytest.raises(ZeroDivisionError):
            await queue.take(group, Broken(Recommender(Schema(user=[Id()], item=[Id()]))), 100)
        assert group == calls[:1]
        for call in group:
            call.give(ColdstreamError("over"))
        queue.refuse_all(ColdstreamError("over"))
        for call in calls:
            with pytest.raises(ColdstreamError, match="over"):
                await call.answer

    run(work())


def test_whoever_went_away_is_not_answered() -> None:
    async def work() -> None:
        queue = WriteQueue(100)
        call = queue.add(puts(1))
        call.answer.cancel()
        call.give([1])
        assert call.answer.cancelled()

    run(work())
