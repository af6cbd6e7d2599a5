"""How long a client waits before it sends a request again."""

import asyncio
import time
from email.utils import formatdate

import httpx
import pytest

from coldstream.client import AsyncClient, Client, Retries, ServiceUnavailable

STEADY = Retries(jitter=lambda: 1.0)


def test_waits_double_up_to_the_longest() -> None:
    assert [STEADY.wait(attempt, None) for attempt in range(1, 6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6])
    assert Retries(most=20, jitter=lambda: 1.0).wait(9, None) == 5.0
    assert Retries(jitter=lambda: 0.0).wait(1, None) == pytest.approx(0.05)


def test_a_service_that_asks_for_more_than_the_longest_wait_gets_it() -> None:
    assert STEADY.wait(1, "20") == 20.0
    assert STEADY.wait(3, "0.1") == pytest.approx(0.4)
    assert 15 < (STEADY.wait(1, formatdate(time.time() + 20, usegmt=True)) or 0) <= 20


@pytest.mark.parametrize("asked", ["Sun, 06 Nov 1994 08:49:37 GMT", "soon", "nan", "inf", "-3", ""])
def test_a_header_that_asks_for_nothing_changes_nothing(asked: str) -> None:
    assert STEADY.wait(1, asked) == pytest.approx(0.1)


def test_a_request_is_not_sent_again_when_tries_or_patience_are_used_up() -> None:
    assert STEADY.wait(5, None) is not None
    assert STEADY.wait(6, None) is None
    assert STEADY.wait(1, "31") is None
    assert STEADY.wait(1, "30") == 30.0
    assert STEADY.wait(2, "20", waited=15.0) is None
    assert Retries(patience=100.0).wait(2, "60", waited=20.0) == 60.0


def test_both_clients_wait_as_long_as_they_are_asked_and_not_beyond_their_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = list[float]()

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("coldstream.client.client.time.sleep", waits.append)
    monkeypatch.setattr("coldstream.client.async_client.asyncio.sleep", note)
    busy = httpx.MockTransport(
        lambda _: httpx.Response(429, headers={"retry-after": "12"}, json={"detail": "too many requests"})
    )
    with Client(transport=busy) as client, pytest.raises(ServiceUnavailable, match="429"):
        client.recommend("u")
    assert waits == [12.0, 12.0]
    waits.clear()

    async def ask() -> None:
        async with AsyncClient(transport=busy, retries=Retries(patience=40.0)) as client:
            await client.recommend("u")

    with pytest.raises(ServiceUnavailable, match="429"):
        asyncio.run(ask())
    assert waits == [12.0, 12.0, 12.0]
