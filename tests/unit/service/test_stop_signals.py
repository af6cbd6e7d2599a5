"""Signals: the first lets others take over before it stops, the second does not wait for that."""

import asyncio
import signal
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn

from coldstream.service.http import server as module
from coldstream.service.settings import Settings
from patience import until


def server(leave: Any) -> tuple[Any, list[int]]:
    own = cast(Any, module._Server(uvicorn.Config(cast(Any, None)), cast(Any, SimpleNamespace(leave=leave)), None))
    exits = list[int]()
    own.handle_exit = lambda number, _: exits.append(number)
    return own, exits


def test_the_first_signal_lets_others_take_over_and_the_second_does_not_wait() -> None:
    async def run() -> None:
        gone = asyncio.Event()
        own, exits = server(gone.wait)
        own.leave(signal.SIGTERM)
        await asyncio.sleep(0)
        assert exits == []
        own.leave(signal.SIGINT)
        assert exits == [signal.SIGINT]
        gone.set()
        await own._leaving
        assert exits == [signal.SIGINT, signal.SIGTERM]

    asyncio.run(run())


def test_a_stop_is_a_stop_whatever_could_not_be_handed_over() -> None:
    async def fails() -> None:
        raise OSError("nobody is there")

    async def run() -> None:
        own, exits = server(fails)
        own.leave(signal.SIGTERM)
        await own._leaving
        assert exits == [signal.SIGTERM]

    asyncio.run(run())


def test_signals_are_heard_while_it_serves_and_given_back_afterwards() -> None:
    async def run() -> None:
        own, _ = server(None)
        heard = list[int]()
        own.leave = heard.append
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        with own.capture_signals():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(number)
            await until(lambda: len(heard) == 2)
        assert heard == [signal.SIGINT, signal.SIGTERM]
        after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        assert all(
            handler in (signal.default_int_handler, signal.SIG_DFL, own) for handler, own in zip(after, before, strict=True)
        )

    asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "url"), [({}, "sqlite:data"), ({"store": "postgresql://host/shop"}, "postgresql://host/shop")]
)
def test_the_store_is_a_folder_unless_another_is_named(given: dict[str, str], url: str) -> None:
    assert module._url(Settings(data="data", **given)) == url  # type: ignore[arg-type]
