"""The order in which a writer does things: what uses a store ends before it is given back, and a merge is told at once."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from coldstream.runtime.writer import Writer


def test_all_that_uses_a_store_is_ended_before_it_is_given_back() -> None:
    asked: list[str] = []

    def ask(name: str) -> Callable[[], Any]:
        async def noted() -> None:
            asked.append(name)

        return noted

    async def run() -> None:
        task = asyncio.ensure_future(ask("task")())
        writer = SimpleNamespace(
            _queue=SimpleNamespace(wake=asyncio.Event()),
            snapshots=SimpleNamespace(give_up=ask("snapshot")),
            _upkeep=SimpleNamespace(end=ask("upkeep")),
            _task=task,
            _thread=SimpleNamespace(close=ask("close")),
        )
        await Writer._leave(cast(Any, writer))
        assert writer._queue.wake.is_set()
        assert writer._stopping
        assert writer.resigned

    asyncio.run(run())
    assert set(asked[:3]) == {"snapshot", "upkeep", "task"}
    assert asked[3:] == ["close"]


def test_whoever_waits_for_a_merge_has_its_turn_before_more_is_learned() -> None:
    order: list[str] = []

    async def append(*_: object) -> list[int]:
        return [8]

    async def run() -> None:
        loop = asyncio.get_running_loop()
        writer = SimpleNamespace(
            learner=SimpleNamespace(learners=2, position=7, apply=lambda *_: order.append("merged")),
            _thread=SimpleNamespace(append=append),
            _merges=SimpleNamespace(note=lambda: None),
            _progress=SimpleNamespace(reached=lambda _: loop.call_soon(order.append, "answered")),
        )
        await Writer._merge(cast(Any, writer))
        order.append("goes on")

    asyncio.run(run())
    assert order == ["merged", "answered", "goes on"]
