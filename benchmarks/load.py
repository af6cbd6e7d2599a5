"""A load generator in a process of its own: requests over a few connections, as fast as they are answered or at a pace.

Reads a JSON document from its standard input: port, path, bodies, connections, seconds, pace (requests per second, 0 for as
fast as possible). Writes one: requests, failures, and the latencies' quantiles in milliseconds.
"""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import uvloop


@dataclass(frozen=True)
class Load:
    """What to send."""

    port: int
    path: str
    bodies: list[Any]
    connections: int
    seconds: float
    pace: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    seconds: float
    requests: int
    failures: int
    p50: float
    p99: float
    longest: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


class Generator:
    """A load in the background; `outcome` waits for its end."""

    def __init__(self, load: Load) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(load)))
        self._process.stdin.close()
        self._process.stdin = None

    def outcome(self) -> Outcome:
        """What came of it."""
        out, _ = self._process.communicate()
        return Outcome(**json.loads(out))


def run(load: Load) -> Outcome:
    """Send a load and wait for its end."""
    return Generator(load).outcome()


class _Client(asyncio.Protocol):
    def __init__(self, shared: "_Shared") -> None:
        self._shared, self._received, self._due = shared, b"", 0.0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        due = self._shared.due()
        if due is None:
            self._transport.close()
            self._shared.ended()
            return
        wait = due - time.perf_counter()
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self._send, due)
        else:
            self._send(due)

    def _send(self, due: float) -> None:
        # At a pace, a request counts from when it was due: one that waits for another to be answered is late too.
        self._due = due or time.perf_counter()
        self._transport.write(self._shared.request())

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return
        start = self._received.find(b"content-length: ") + 16
        length = int(self._received[start : self._received.find(b"\r\n", start)])
        if len(self._received) >= head + 4 + length:
            self._shared.answered(time.perf_counter() - self._due, self._received[9:12] == b"200")
            self._received = b""
            self._next()


class _Shared:
    def __init__(self, load: Load) -> None:
        self._requests = [_request(load, body) for body in load.bodies]
        self._load, self._sent = load, 0
        self._open = load.connections
        self._start = time.perf_counter()
        self.latencies: list[float] = []
        self.failures = 0
        self.end = asyncio.get_running_loop().create_future()

    def due(self) -> float | None:
        """When the next request is to be sent; 0 for now, None for never."""
        due = self._start + self._sent / self._load.pace if self._load.pace else 0.0
        if max(due, time.perf_counter()) - self._start > self._load.seconds:
            return None
        if self._load.pace:
            self._sent += 1
        return due

    def request(self) -> bytes:
        self._sent += not self._load.pace
        return self._requests[self._sent % len(self._requests)]

    def answered(self, latency: float, well: bool) -> None:
        self.latencies.append(latency)
        self.failures += not well

    def ended(self) -> None:
        self._open -= 1
        if not self._open:
            self.end.set_result(time.perf_counter() - self._start)


def _request(load: Load, body: Any) -> bytes:
    text = json.dumps(body).encode()
    head = f"POST {load.path} HTTP/1.1\r\nHost: 127.0.0.1:{load.port}\r\nContent-Type: application/json"
    return f"{head}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text


async def _main(load: Load) -> Outcome:
    shared, loop = _Shared(load), asyncio.get_running_loop()
    for _ in range(load.connections):
        await loop.create_connection(lambda: _Client(shared), "127.0.0.1", load.port)
    seconds = await shared.end
    latencies = sorted(shared.latencies)
    p50, p99 = (1e3 * latencies[int(len(latencies) * share)] for share in (0.5, 0.99))
    return Outcome(seconds, len(latencies), shared.failures, p50, p99, 1e3 * latencies[-1])


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(_main(Load(**json.load(sys.stdin)))))))
