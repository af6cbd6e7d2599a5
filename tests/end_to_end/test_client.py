"""The clients and the examples, against the real service."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import PATIENCE, Home, Served

from coldstream.client import (
    AsyncClient,
    BackgroundEvents,
    Client,
    NewEvent,
    NewItem,
    Retries,
    ServiceError,
    ServiceUnavailable,
)

ROOT = Path(__file__).parents[2]
QUICK = Retries(most=8, first=0.001, longest=0.01)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("client")
    return Home(folder, f"sqlite:{folder / 'data'}")


@pytest.fixture(scope="module")
def served(home: Home) -> Iterator[Served]:
    with home.serve() as server:
        yield server.ready()


@pytest.fixture
def url(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


class Losing(httpx.BaseTransport):
    """A network that loses every other answer, after the service has done what it was asked for."""

    def __init__(self) -> None:
        self._real, self.sent, self._lock = httpx.HTTPTransport(), 0, threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._real.handle_request(request)
        response.read()
        with self._lock:
            self.sent += 1
            lose = self.sent % 2
        if lose:
            raise httpx.ReadTimeout("lost")
        return response

    def close(self) -> None:
        self._real.close()


def test_a_round_trip(url: str) -> None:
    with Client(url, timeout=PATIENCE) as client:
        written = client.put_items({f"a{n}": {"genre": ["jazz"]} for n in range(5)})
        assert written.written == 5
        assert client.put_users({"ann": {"city": "Kyoto"}}).position == written.position + 1
        learned = client.learn(NewEvent("ann", "a1", context={"device": "phone"}))
        assert (learned.learned, learned.position) == (1, client.position)
        asked: dict[str, Any] = {"context": {"device": "phone"}, "allow": [f"a{n}" for n in range(5)]}
        best = client.recommend("ann", 3, after=learned.position, describe=True, **asked)
        assert len(best) == 3
        assert best[0].attributes == {"genre": ["jazz"]}
        assert client.explain("ann", best[0].item, context={"device": "phone"}).score == pytest.approx(
            best[0].score, abs=1e-5
        )
        assert client.user("ann").attributes == {"city": "Kyoto"}
        assert client.item("a1").attributes == {"genre": ["jazz"]}
        assert client.evaluation().events >= 1
        assert client.health().status == "ok"
        assert client.remove_item("a4").written == 1
        assert client.forget_user("ann").position == client.position


def test_the_same_on_an_event_loop(url: str) -> None:
    async def use() -> None:
        async with AsyncClient(url, timeout=PATIENCE, read_your_writes=True) as client:
            await client.put_items([NewItem("a/b c", {"genre": ["soul"]}), NewItem("d")])
            answers = await asyncio.gather(*(client.recommend("bob", 2) for _ in range(8)))
            assert all(len(best) == 2 for best in answers)
            assert (await client.item("a/b c")).attributes == {"genre": ["soul"]}
            with pytest.raises(ServiceError, match="404"):
                await client.user("nobody at all")

    asyncio.run(use())


# Exactly once


def test_answers_that_are_lost_are_asked_for_again_and_events_are_learned_once(url: str, home: Home) -> None:
    network = Losing()
    with Client(url, timeout=PATIENCE, retries=QUICK, transport=network) as client:
        total = sum(client.learn(NewEvent(f"lost{n}", "x")).duplicates for n in range(20))
    assert network.sent == 40
    assert total == 20  # each was learned at its first sending, which nobody heard of
    users = [line["user"] for line in home.lines().values() if str(line.get("user", "")).startswith("lost")]
    assert sorted(users) == sorted(f"lost{n}" for n in range(20))


def test_what_may_not_be_done_twice_is_not_sent_twice(url: str) -> None:
    with Client(url, timeout=PATIENCE) as client:
        client.put_items([NewItem("once")])
    network = Losing()
    with (
        Client(url, timeout=PATIENCE, retries=QUICK, transport=network) as client,
        pytest.raises(ServiceUnavailable, match="DELETE"),
    ):
        client.remove_item("once")
    assert network.sent == 1


def test_refusals_are_not_retried_and_say_where() -> None:
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(422, json={"detail": "genre must be a list", "field": "$[0].attributes.genre", "status": 422})

    with Client(transport=httpx.MockTransport(answer), retries=QUICK) as client:
        with pytest.raises(ServiceError, match="genre must be a list") as caught:
            client.put_items([NewItem("i", {"genre": 3})])
        assert caught.value.field == "$[0].attributes.genre"
        assert len(sent) == 1
        with pytest.raises(ServiceError, match=r"not sent: .*length >= 1"):
            client.learn(NewEvent("", "i"))
        assert len(sent) == 1


def test_a_busy_service_is_asked_again_when_it_says_so() -> None:
    replies = [
        httpx.Response(503, headers={"retry-after": "1"}, json={"detail": "starting"}),
        httpx.Response(502, text="<html>"),
    ]
    good = httpx.Response(200, json={"items": [{"item": "i", "score": 1.0}]})
    client = Client(transport=httpx.MockTransport(lambda _: replies.pop(0) if replies else good), retries=QUICK)
    assert [one.item for one in client.recommend("u")] == ["i"]
    never = Client(transport=httpx.MockTransport(lambda _: httpx.Response(503, json={"detail": "starting"})), retries=QUICK)
    with pytest.raises(ServiceUnavailable, match="503: starting"):
        never.recommend("u")


def test_nobody_listens() -> None:
    few = Retries(most=2, first=0.001)
    with Client("http://127.0.0.1:9", retries=few) as client, pytest.raises(ServiceUnavailable, match="ConnectError"):
        client.recommend("u")


def test_own_writes_are_asked_for() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        write = request.url.path == "/events"
        asked.append(request.headers.get("coldstream-after"))
        return httpx.Response(200, json={"learned": 1, "duplicates": 0, "position": 7} if write else {"items": []})

    client = Client(transport=httpx.MockTransport(answer), read_your_writes=True)
    client.recommend("u")
    client.learn(NewEvent("u", "i"))
    client.recommend("u")
    client.recommend("u", after=3)
    assert asked == [None, None, "7", "3"]


# Behind the caller's back


def test_background_events_are_batched_and_learned_once(url: str, home: Home) -> None:
    network = Losing()
    with (
        Client(url, timeout=PATIENCE, retries=QUICK, transport=network) as client,
        BackgroundEvents(client, batch=50) as events,
    ):
        for n in range(200):
            events.add(f"back{n}", "y")
        assert events.flush(PATIENCE)
    assert (events.learned, events.refused) == (200, 0)
    assert network.sent < 60
    users = [line["user"] for line in home.lines().values() if str(line.get("user", "")).startswith("back")]
    assert len(users) == len(set(users)) == 200
    with pytest.raises(ServiceUnavailable, match="closed"):
        events.add("late", "y")


def test_a_refused_event_takes_no_other_with_it(url: str) -> None:
    refused: list[Any] = []
    with (
        Client(url, timeout=PATIENCE) as client,
        BackgroundEvents(client, on_refused=lambda *one: refused.append(one)) as events,
    ):
        for n in range(9):
            events.add(f"good{n}", "y", context={"device": ["no", "list"]} if n == 4 else {})
        assert events.flush(PATIENCE)
    assert (events.learned, events.refused) == (8, 1)
    ((event, error),) = refused
    assert event.user == "good4"
    assert error.status == 422


def test_events_wait_while_the_service_is_away_and_not_without_end() -> None:
    asked = threading.Event()

    def answer(_: httpx.Request) -> httpx.Response:
        asked.set()
        return httpx.Response(503, json={"detail": "away"})

    away = Client(transport=httpx.MockTransport(answer), retries=QUICK)
    events = BackgroundEvents(away, batch=1, waiting=5)
    for n in range(5):
        events.add(f"u{n}", "i")
    assert asked.wait(PATIENCE)
    events.add("u5", "i")  # one of them is being sent
    with pytest.raises(ServiceUnavailable, match="5 events are waiting"):
        events.add("u6", "i")
    assert not events.close(0.05)


# What it takes along


def test_a_client_loads_neither_kernels_nor_a_server() -> None:
    heavy = ("numpy", "numba", "starlette", "uvicorn", "psycopg", "prometheus_client")
    code = f"import sys, coldstream.client; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The examples


def loaded(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_shop_on_fastapi(url: str, monkeypatch: pytest.MonkeyPatch, home: Home) -> None:
    monkeypatch.setenv("COLDSTREAM_URL", url)
    with Client(url, timeout=PATIENCE) as client:
        client.put_items([NewItem(f"m{n}") for n in range(45, 52)])
    shop = loaded("shop", ROOT / "examples" / "fastapi_shop" / "shop.py")

    async def visit() -> tuple[Any, Any]:
        async with shop.connected(shop.app):
            transport = httpx.ASGITransport(shop.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://shop") as browser:
                assert (await browser.post("/buy/carl/m51")).status_code == 202
                shown = (await browser.get("/shelf/carl?device=phone")).json()
                shop.app.state.client._http.base_url = "http://127.0.0.1:9"
                return shown, (await browser.get("/shelf/carl")).json()

    shown, without = asyncio.run(visit())
    assert shown["from"] == "coldstream"
    assert len(shown["items"]) == 5
    assert without == {"items": ["m50", "m51"], "from": "bestsellers"}
    assert [line["item"] for line in home.lines().values() if line.get("user") == "carl"] == ["m51"]


def test_the_parts_for_django(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDSTREAM_URL", url)
    with Client(url, timeout=PATIENCE) as client:
        client.put_items([NewItem(f"m{n}") for n in range(45, 52)])
    shop = loaded("django_shop", ROOT / "examples" / "django_shop.py")
    from django.test import Client as Browser

    browser = Browser()
    assert browser.get("/buy/dora/m50").json() == {"bought": "m50"}
    assert shop.purchases.close()
    assert len(browser.get("/shelf/dora").json()["items"]) == 5
    shop.recommender.close()


def test_curl_is_enough(url: str) -> None:
    script = ROOT / "examples" / "curl.sh"
    done = subprocess.run(
        ["sh", script], env=os.environ | {"COLDSTREAM_URL": url}, capture_output=True, text=True, check=True
    )
    assert len(json.loads(done.stdout[done.stdout.rindex('{"items"') :])["items"]) == 2
