"""The order in which a writer does things: what uses a store ends before it is given back, and a merge is told at once."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream.runtime.writing.writer import Writer


def noting(asked: list[str], name: str) -> Callable[..., Any]:
    async def noted(*_: object) -> None:
        asked.append(name)

    return noted


def test_all_that_uses_a_store_is_ended_before_it_is_given_back() -> None:
    asked: list[str] = []

    async def run() -> None:
        writer = SimpleNamespace(
            _queue=SimpleNamespace(wake=asyncio.Event()),
            snapshots=SimpleNamespace(give_up=noting(asked, "snapshot")),
            _upkeep=SimpleNamespace(end=noting(asked, "upkeep")),
            _task=asyncio.ensure_future(noting(asked, "task")()),
            _thread=SimpleNamespace(close=noting(asked, "close")),
        )
        await Writer._leave(cast(Any, writer))
        assert writer._queue.wake.is_set()
        assert writer._stopping
        assert writer.resigned

    asyncio.run(run())
    assert set(asked[:3]) == {"snapshot", "upkeep", "task"}
    assert asked[3:] == ["close"]


@pytest.mark.parametrize("failed", [None, ValueError()])
def test_a_stop_ends_all_that_uses_the_store_and_takes_a_last_snapshot_unless_the_writer_failed(
    failed: Exception | None,
) -> None:
    asked: list[str] = []

    async def run() -> None:
        writer = SimpleNamespace(
            failed=failed,
            learner=SimpleNamespace(dismiss=lambda: asked.append("dismissed")),
            _queue=SimpleNamespace(wake=asyncio.Event()),
            snapshots=SimpleNamespace(finish=noting(asked, "last snapshot"), give_up=noting(asked, "no snapshot")),
            _upkeep=SimpleNamespace(end=noting(asked, "upkeep")),
            _task=asyncio.ensure_future(noting(asked, "task")()),
            _thread=SimpleNamespace(close=noting(asked, "close")),
        )
        await Writer.stop(cast(Any, writer))
        assert writer._queue.wake.is_set()
        assert writer._stopping

    asyncio.run(run())
    assert set(asked[:2]) == {"upkeep", "task"}
    assert asked[2:] == ["last snapshot" if failed is None else "no snapshot", "dismissed", "close"]


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
