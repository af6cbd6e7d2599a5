"""Clients that hold what others need, and clients that try to get round: the service as a process, over TCP."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from served import PATIENCE, SQLITE, Client, Gone, Home, Served, homes, wait_until

DESCRIPTORS = 256


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return homes(request, SQLITE, tmp_path)


@contextmanager
def few_descriptors() -> Iterator[None]:
    """What is started meanwhile may open few files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connected(server: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def raw(server: Served, request: bytes) -> bytes:
    """The first bytes of the answer to a request."""
    with connected(server) as client:
        client.sendall(request)
        return client.recv(4096)


def test_idle_connections_shut_out_nobody_who_is_served_and_nobody_for_long(home: Home) -> None:
    with ExitStack() as stack:
        with few_descriptors():
            server = stack.enter_context(home.serve("--header-seconds", 3))
        client = server.ready().client()
        client.done("PUT", "/items/a", {})
        for _ in range(2 * DESCRIPTORS):
            stack.enter_context(connected(server))
        # Whoever is there goes on, the store and its snapshots too, and whoever comes is told.
        client.done("POST", "/events", {"user": "u", "item": "a"})
        client.done("POST", "/snapshot", {})
        wait_until(lambda: turned_away(client) > 0)
        assert server.logged("connections were turned away")["count"] > 0
        late = server.client()
        wait_until(lambda: answers(late))
        assert server.terminate() == 0


def turned_away(client: Client) -> float:
    text = client.done("GET", "/metrics").decode()
    lines = [line for line in text.splitlines() if line.startswith("coldstream_turned_away_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def answers(client: Client) -> bool:
    try:
        answer = client.ask("POST", "/recommend", {})
    except Gone:
        return False
    assert answer.status == 200 or (answer.status == 503 and int(answer.headers["Retry-After"]) > 0)
    return answer.status == 200


def test_a_stop_does_not_wait_for_a_body_that_is_still_being_sent(home: Home) -> None:
    with home.serve("--shutdown-seconds", 3600, "--body-seconds", 3600) as server, connected(server.ready()) as client:
        client.sendall(
            b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        server.client().done("GET", "/ready")
        assert server.terminate() == 0
        assert client.recv(4096).startswith(b"HTTP/1.1 503 ")


def test_a_path_is_what_it_says(home: Home) -> None:
    with home.serve() as server:
        client = server.ready().client()
        for name in ("bob", "s%2Fbob"):
            client.done("PUT", f"/users/{name}", {})
        assert client.ask("DELETE", "/%75sers/bob").status == 404
        assert [client.ask("GET", f"/users/{name}").status for name in ("bob", "s%2Fbob")] == [200, 200]
        assert raw(server, b"DELETE /users/bob#5 HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        assert client.ask("GET", "/users/bob").status == 200
        assert raw(server, b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 405 ")


def test_trailers_do_not_say_who_asks_or_what_is_sent(home: Home) -> None:
    head = b"POST /recommend HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n"
    head += b"2\r\n{}\r\n0\r\n%s\r\n"
    good, bad = (b"localhost", b"application/json"), (b"evil.com", b"text/plain")
    with home.serve() as server:
        server.ready().client().done("PUT", "/items/a", {})
        assert raw(server, head % (*good, b"Host: evil.com\r\nContent-Type: x\r\n")).startswith(b"HTTP/1.1 200 ")
        assert raw(server, head % (bad[0], good[1], b"Host: localhost\r\n")).startswith(b"HTTP/1.1 421 ")
        assert raw(server, head % (good[0], bad[1], b"Content-Type: application/json\r\n")).startswith(b"HTTP/1.1 415 ")


@pytest.mark.parametrize(("proxies", "status"), [((), b"429"), (("--proxies", "127.0.0.1"), b"200")])
def test_another_address_is_believed_of_a_stated_proxy_only(home: Home, proxies: tuple[str, ...], status: bytes) -> None:
    with home.serve("--requests-per-second", 0.001, *proxies) as server:
        server.ready()
        given: list[Any] = [
            b"GET /evaluation HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 198.51.100.%d\r\n\r\n" % n for n in (1, 2)
        ]
        first, second = (raw(server, request) for request in given)
        assert first.startswith(b"HTTP/1.1 200 ")
        assert second.startswith(b"HTTP/1.1 " + status)


def test_a_store_that_is_down_at_the_start_is_not_said_to_come_back_by_itself(tmp_path: Path) -> None:
    address = "postgresql://shop@127.0.0.1:1/shop?connect_timeout=2"
    (tmp_path / "schema.toml").write_text('[item]\nid = { kind = "id" }\n')
    with Served("--schema", tmp_path / "schema.toml", "--store", address, folder=tmp_path) as server:
        assert server.ended() == 2
        assert "127.0.0.1" in server.said()
        assert "and try again" in server.said()
        assert "by itself" not in server.said()
