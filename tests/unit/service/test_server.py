"""What the process does around a service: where it listens, what it asks of uvicorn, and how it ends."""

import asyncio
import os
import socket
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coldstream import InvalidInput
from coldstream.service.http import server as module
from coldstream.service.settings import Settings


@pytest.mark.parametrize(
    ("host", "family"), [("127.0.0.1", socket.AF_INET), ("localhost", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_it_listens_where_it_is_told(host: str, family: int) -> None:
    with closing(module._bound(Settings(host=host, port=0))) as listener:
        assert listener.family == family
        assert listener.getsockname()[1] > 0
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)


def test_a_port_that_is_taken_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[socket.socket]()
    make = socket.socket

    def making(*given: Any) -> socket.socket:
        made.append(make(*given))
        return made[-1]

    with closing(make()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(module.socket, "socket", making)
        with pytest.raises(InvalidInput, match=rf"host '127\.0\.0\.1', port {port}: cannot listen there .*; choose another"):
            module._bound(Settings(port=port))
    assert [one.fileno() for one in made] == [-1], "it is closed"


class _Uvicorn:
    """A server that has stopped as soon as it has begun, and keeps what it was made with."""

    made: "list[_Uvicorn]" = []  # noqa: RUF012

    def __init__(self, config: Any, service: Any, keys: Any) -> None:
        self.config, self.service, self.keys = config, service, keys
        self.should_exit = False
        self.server_state = SimpleNamespace(connections={1, 2})
        self.sweeping: list[asyncio.Task[Any]] = []
        self.made.append(self)

    async def serve(self, sockets: list[socket.socket]) -> None:
        await asyncio.sleep(0)
        self.sweeping = [task for task in asyncio.all_tasks() if "sweep" in repr(task.get_coro())]
        self.service.failed()
        assert self.should_exit, "who fails ends the process"


class _Service:
    """As much of a service as a server asks for."""

    def __init__(self, settings: Settings, abandoned: bool = False) -> None:
        self.settings, self.abandoned = settings, abandoned
        self.watched: Any = None
        self.stopped = False
        self.metrics = SimpleNamespace(turned_away=lambda _: None, watch=lambda own: setattr(self, "watched", own))
        self.failed: Any = None

    def start(self, failed: Any) -> None:
        self.failed = failed

    async def stop(self) -> None:
        self.stopped = True


def served(monkeypatch: pytest.MonkeyPatch, abandoned: bool = False, **settings: Any) -> tuple[_Uvicorn, _Service]:
    monkeypatch.setattr(module, "_Server", _Uvicorn)
    service = _Service(Settings(port=0, **settings), abandoned)
    with closing(module._bound(service.settings)) as listener:
        asyncio.run(module._serve(cast(Any, None), cast(Any, service), listener))
    return _Uvicorn.made[-1], service


def test_uvicorn_is_asked_for_what_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    own, service = served(monkeypatch, idle_seconds=30.2, shutdown_seconds=7.5)
    config = own.config
    assert (config.timeout_keep_alive, config.timeout_graceful_shutdown) == (31, 8)
    assert (config.proxy_headers, config.forwarded_allow_ips) == (False, [])
    assert (config.access_log, config.server_header) == (False, False)
    assert (config.ws, config.lifespan, config.log_config) == ("none", "off", None)
    assert service.watched == {1, 2}
    own, _ = served(monkeypatch, shutdown_seconds=0.0, proxies="10.0.0.7")
    assert own.config.timeout_graceful_shutdown == 1  # none is for ever
    assert (own.config.proxy_headers, own.config.forwarded_allow_ips) == (True, "10.0.0.7")


def test_nothing_goes_on_behind_a_server_that_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    own, service = served(monkeypatch)
    assert [task.cancelled() for task in own.sweeping] == [True]
    assert service.stopped


def test_who_is_still_compiling_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = list[int]()
    monkeypatch.setattr(os, "_exit", ends.append)
    served(monkeypatch)
    assert ends == []
    monkeypatch.setattr(module.logging, "shutdown", lambda: ends.append(-1))
    served(monkeypatch, abandoned=True)
    assert ends == [-1, 0], "what was logged is written first"
