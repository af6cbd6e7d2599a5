"""The server on a socket, with an application of a few lines behind it, for what happens before a request is whole."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import pytest
import uvloop

from coldstream.service.http import server
from coldstream.service.http.endpoint import respond
from coldstream.service.http.problems import Problem
from coldstream.service.http.streamed_body import StreamedBody, progress_of
from coldstream.service.metrics import Metrics
from coldstream.service.settings import Settings

PATIENCE = 60.0
"""Seconds until a test gives up on what should take one."""
BIG = 2**22
"""Bytes of the answer to `GET /big`."""


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """What came: path, client, headers, and how long the body was."""
    if scope["path"] == "/big":
        await respond(send, 200, b"text/plain", b"x" * BIG)
        return
    if scope["path"] == "/lines":
        await respond(send, *await _lines(scope, receive))
        return
    if scope["path"] == "/early":
        await respond(send, 413, b"text/plain", b"enough", ((b"connection", b"close"),))
        return
    length, more = 0, True
    while more:
        part = await receive()
        if part["type"] == "http.disconnect":
            return
        length, more = length + len(part["body"]), part["more_body"]
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    heard = {"path": scope["path"], "client": scope["client"][0], "headers": headers, "length": length}
    await respond(send, 200, b"application/json", json.dumps(heard).encode())


async def _lines(scope: Any, receive: Any) -> tuple[int, bytes, bytes]:
    """How many bytes came of a body that is streamed, and why it ended early, if it did."""
    body, length = StreamedBody(receive, progress_of(scope)), 0
    try:
        while (part := await body.part()) is not None:
            length += len(part)
    except Problem as problem:
        return problem.status, b"text/plain", b"%d, %b" % (length, problem.document.detail.encode())
    return 200, b"text/plain", b"%d" % length


class _Service:
    """As much of a service as a server asks for."""

    ready, abandoned = False, False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics(self)  # type: ignore[arg-type]
        self.started = threading.Event()
        self.end: Callable[[], None] = lambda: None

    def start(self, failed: Callable[[], None]) -> None:
        self.end = failed
        self.started.set()

    async def stop(self) -> None:
        pass


class Client:
    """One connection, byte by byte."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer."""
        head = self.until(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        body = b""
        while len(body) < int(headers["content-length"]):
            part = self._socket.recv(int(headers["content-length"]) - len(body))
            assert part, "the connection ended within an answer"
            body += part
        return int(lines[0].split()[1]), headers, body

    def until(self, end: bytes) -> bytes:
        got = b""
        while not got.endswith(end):
            byte = self._socket.recv(1)
            if not byte:
                raise ConnectionError(f"the connection ended after {got!r}")
            got += byte
        return got

    def is_ended(self) -> bool:
        """Whether the server ends the connection, sooner or later, without another word."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._socket.close()


class Listening:
    """A server in a thread."""

    def __init__(self, **settings: Any) -> None:
        given = Settings(port=0, **settings)
        self._service = _Service(given)
        self._listener = server._bound(given)
        self._listener.listen(256)  # whoever connects from now on waits until it is up
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._clients: list[Client] = []
        self._thread.start()

    def client(self) -> Client:
        client = Client(self.port)
        self._clients.append(client)
        return client

    def asked(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        """The answer to what is sent over a connection of its own."""
        client = self.client()
        client.send(data)
        return client.answer()

    def metrics(self) -> str:
        return self._service.metrics.text().decode()

    def turned_away(self, reason: str) -> int:
        for line in self.metrics().splitlines():
            if line.startswith(f'coldstream_turned_away_total{{reason="{reason}"}}'):
                return int(float(line.rpartition(" ")[2]))
        return 0

    def stop(self) -> None:
        """Ask it to stop, as a signal does."""
        assert self._service.started.wait(PATIENCE)
        self._service.end()

    def has_stopped(self, within: float) -> bool:
        self._thread.join(within)
        return not self._thread.is_alive()

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.stop()
        assert self.has_stopped(PATIENCE)

    def _run(self) -> None:
        with closing(self._listener):
            uvloop.run(server._serve(echo, self._service, self._listener))  # type: ignore[arg-type]


@contextmanager
def listening(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Iterator[Listening]:
    """A server with these settings; signals are for the main thread alone."""
    monkeypatch.setattr(server._Server, "capture_signals", lambda _: nullcontext())
    with closing(Listening(**settings)) as served:
        yield served


def wait_until(holds: Callable[[], object]) -> None:
    """Come back when something holds that is about to."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
