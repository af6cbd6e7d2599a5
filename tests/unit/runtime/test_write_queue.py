"""Calls wait in order, are checked while others have their turn, and whoever waits is answered whatever happens."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from coldstream import Id, Recommender, Schema
from coldstream.errors import ColdstreamError
from coldstream.runtime import turns
from coldstream.runtime.records import Interaction, ItemPut, ItemRemoved, Record
from coldstream.runtime.writing.checks import Checks, Refused
from coldstream.runtime.writing.write_queue import Overloaded, WriteQueue
from coldstream.support.steps import Steps, finished


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


def closed() -> Recommender:
    """A recommender that takes events of known items alone."""
    return Recommender(Schema(user=[Id()], item=[Id()], open_items=False))


def test_one_by_one_a_record_that_is_refused_keeps_out_no_other() -> None:
    async def work() -> None:
        queue, recommender = WriteQueue(100), closed()
        records = [
            Interaction("u", "i"),
            ItemPut("i", {}),
            ItemPut("j", {"size": 1}),
            Interaction("u", "i"),
            Interaction("u", "j"),
        ]
        call = queue.add(records, one_by_one=True)
        alone = queue.add([Interaction("u", "k")], one_by_one=True)
        group: list[Any] = []
        await queue.take(group, Checks(recommender), 100)
        assert (group, queue.waiting) == ([call], 0)
        assert call.records == [records[1], records[3]]
        (nothing,) = await alone.answer
        assert isinstance(nothing, ColdstreamError)
        call.give([7, None])
        first, put, wrong, event, unknown = await call.answer
        assert (put, event) == (7, None)
        assert all(isinstance(own, ColdstreamError) for own in (first, wrong, unknown))
        assert "'j'" in str(unknown)  # whose put was refused

    run(work())


def test_one_by_one_every_record_is_checked_again_after_it_was_put_back() -> None:
    async def work() -> None:
        queue, recommender = WriteQueue(100), closed()
        call = queue.add([Interaction("u", "i"), ItemPut("j", {})], one_by_one=True)
        group: list[Any] = []
        await queue.take(group, Checks(recommender), 100)
        assert len(call.records) == 1
        queue.put_back(group)
        assert queue.waiting == 2
        recommender.put_item("i")
        again: list[Any] = []
        await queue.take(again, Checks(recommender), 100)
        assert (len(call.records), queue.waiting) == (2, 0)
        call.give([1, 2])
        assert await call.answer == [1, 2]

    run(work())


def test_records_that_are_refused_leave_nothing_to_those_behind_them() -> None:
    """The same are refused as where each record comes in a call of its own."""
    records: list[Record] = [
        Interaction("u", "i", context={"place": "here"}),
        Interaction("u", "i", context={"place": 3.5}),
        Interaction("u", "i", context={"place": ["a"], "mood": "odd"}),
        Interaction("u", "i", context={"mood": "good"}),
        ItemPut("x", {"colour": "red"}),
        Interaction("u", "i", context={"mood": 7.5}, event_id="e"),
    ]

    def found(each: Callable[[Checks], dict[int, ColdstreamError]]) -> dict[int, str]:
        own = each(Checks(Recommender(Schema(user=[Id()], item=[Id()]))))
        return {index: str(error) for index, error in own.items()}

    def one_after_the_other(own: Checks) -> dict[int, ColdstreamError]:
        refusals = {}
        for index, record in enumerate(records):
            try:
                own.check([record])
            except Refused as refused:
                refusals[index] = refused.error
        return refusals

    together = found(lambda own: finished(own.refusals_in_steps(records)))
    assert together == found(one_after_the_other)
    assert 0 < len(together) < len(records)
