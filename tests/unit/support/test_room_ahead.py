"""Memory for features to come is there before they are; what is in it is not touched."""

import asyncio
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from coldstream import Bounds, Category, Event, Id, Recommender, Schema
from coldstream.service.handlers.search import resident_bytes
from coldstream.support import memory_tuning
from coldstream.support.memory_tuning import RoomAhead, populate
from conftest import bits

SCHEMA = Schema(user=[Id()], item=[Id()], context=[Category("tag")])
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="others give memory when it is written")


@needs_linux
def test_memory_is_there_and_what_is_in_it_stays() -> None:
    reserved = np.zeros((64, 2**20), np.uint8)
    reserved[0, :100] = 7
    before = resident_bytes()
    populate([reserved[0, 50:], reserved[1:32]])
    if resident_bytes() < before + 30 * 2**20:
        pytest.skip("this kernel gives memory only when it is written")
    assert resident_bytes() < before + 40 * 2**20
    assert reserved[0, :100].tolist() == [7] * 100
    assert not reserved[0, 100:].any()


def known(tags: int) -> Recommender:
    recommender = Recommender(SCHEMA, seed=1, factors=2, negatives=2, bounds=Bounds(memory="64 MiB"))
    recommender.put_item("i", {})
    recommender.put_users((f"u{n}", {}) for n in range(tags))
    return recommender


async def asked_for(recommender: Recommender, monkeypatch: pytest.MonkeyPatch, events: int) -> list[int]:
    """Rows that were asked for, time after time."""
    asked = list[int]()

    def noted(pieces: Iterable[NDArray[Any]]) -> None:
        asked.append(max(map(len, pieces)))

    monkeypatch.setattr(memory_tuning, "populate", noted)
    monkeypatch.setattr(memory_tuning, "ROWS", 100)
    monkeypatch.setattr(memory_tuning, "_libc", object())
    room = RoomAhead(lambda: recommender.inspection)
    for n in range(events):
        recommender.learn(Event("u0", "i", context={"tag": f"t{n}"}))
        room.see_to_it()
        if room._task is not None:
            await room._task
    return asked


def test_it_is_asked_for_before_it_is_needed_and_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    recommender = known(6000)
    assert len(recommender.inspection.rows_to_come(0, 10**9)[0]) > 8192, "room for all that the budget allows"
    asked = asyncio.run(asked_for(recommender, monkeypatch, 450))
    assert asked[0] == 200
    assert 4 <= len(asked) <= 6
    assert all(90 <= own <= 200 for own in asked)


def test_where_nothing_is_reserved_nothing_is_asked_for_and_it_is_when_arrays_have_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recommender = known(0)
    room = len(recommender.inspection.rows_to_come(0, 10**9)[0])
    asked = asyncio.run(asked_for(recommender, monkeypatch, 2 * room))
    assert 0 < asked[0] < room
    assert sum(asked) > room - 10, "all that was reserved meanwhile"


def test_what_is_learned_is_the_same() -> None:
    with_room, without = known(6000), known(6000)

    async def learn() -> None:
        room = RoomAhead(lambda: with_room.inspection)
        for n in range(50):
            with_room.learn(Event("u0", "i", context={"tag": f"t{n}"}))
            room.see_to_it()
            await asyncio.sleep(0)

    asyncio.run(learn())
    for n in range(50):
        without.learn(Event("u0", "i", context={"tag": f"t{n}"}))
    assert bits(with_room) == bits(without)
