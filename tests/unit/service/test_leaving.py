"""Who is about to stop says so, lets another write, and goes on answering until a proxy sends nobody any more."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream.service import service as module
from coldstream.service.service import Service, Stopping


@pytest.mark.parametrize(
    ("shared", "begun", "steps"),
    [(True, True, ["hand over", 7.0]), (True, False, []), (False, True, [7.0])],
    ids=["one of several", "before it has begun", "the only one"],
)
def test_a_service_that_leaves(shared: bool, begun: bool, steps: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[object]()

    async def hand_over() -> None:
        assert own.leaving
        done.append("hand over")

    async def drain(seconds: float) -> None:
        done.append(seconds)

    own = cast(Any, Service.__new__(Service))
    own.leaving, own._begun, own.settings = False, begun, SimpleNamespace(drain_seconds=7.0)
    own._replica = SimpleNamespace(hand_over=hand_over) if shared else None
    monkeypatch.setattr(module.asyncio, "sleep", drain)
    own.check_stays()
    asyncio.run(own.leave())
    assert done == steps
    with pytest.raises(Stopping, match="about to stop; ask another one"):
        own.check_stays()
