"""Requests that no client should send, by the thousand: sound ones that were damaged, and bytes that are no request at all.

Whatever comes, the service goes on, answers with a status below 500 (or 503, with a reason), holds bounded memory, and its
log replays to the same bits.
"""

import json
import random
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from served import SQLITE, Home, Served

TIMEOUT = 60.0
MOST_GROWTH = 512 * 2**20
"""Bytes of memory by which a service may have grown in the end."""

METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "get", "G\tET")
PATHS = (
    "/recommend",
    "/recommend/batch",
    "/events",
    "/items",
    "/items/i1",
    "/users",
    "/users/u1",
    "/explain",
    "/evaluation",
    "/schema",
    "/features",
    "/features/nearest",
    "/live",
    "/metrics",
    "/snapshot",
    "/ready",
    "/health",
    "/openapi.json",
    "/",
)
SOUND: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/events", {"user": "u1", "item": "i1", "time": 1.7e9, "context": {"device": "phone"}, "event_id": "e1"}),
    ("POST", "/events", [{"user": "u2", "item": "i2"}, {"user": "u1", "item": "i3", "time": 1.7e9}]),
    ("POST", "/recommend", {"user": "u1", "n": 5, "context": {"device": "desk"}, "explain": True}),
    ("POST", "/recommend", {"user": None, "n": 3, "where": {"genre": ["a"]}, "deny": ["i1"], "allow": ["i1", "i2"]}),
    ("POST", "/explain", {"user": "u1", "item": "i1", "context": {"device": "desk"}}),
    ("PUT", "/items/i1", {"attributes": {"genre": ["a", "b"]}}),
    ("PUT", "/users/u1", {"attributes": {"city": "Jena"}}),
    ("POST", "/items", [{"id": "i5", "attributes": {"genre": ["c"]}}]),
    ("DELETE", "/items/i9", None),
    ("GET", "/features?field=item.genre&limit=3", None),
    ("GET", "/items?limit=2", None),
    ("GET", "/live?since=0", None),
)
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1e308,
    -1e-320,
    2**63,
    10**40,
    float("nan"),
    float("inf"),
    "",
    " ",
    "\x00",
    "\ud800",
    "i1",
    "ß" * 300,
    "x" * 5000,
    [],
    {},
    [[]],
    {"": ""},
    ["a"] * 300,
    {"a": {"b": {"c": []}}},
    {f"k{n}": n for n in range(70)},
    "1970-01-01T00:00:00Z",
    "9999-99-99",
    1.7e12,
)


class Fuzzed(NamedTuple):
    """What came back."""

    requests: int
    statuses: dict[int, int]
    """0 stands for a connection that was closed without an answer."""
    grown: int
    seconds: float


class Fuzzer:
    """Makes requests, as bytes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def request(self) -> bytes:
        """One request, most of the time nearly sound."""
        chance = self._random.random()
        if chance < 0.03:
            return self._random.randbytes(self._random.randrange(1, 400))
        method, path, body = self._random.choice(SOUND)
        if chance < 0.15:
            method = self._random.choice(METHODS)
        if chance < 0.25:
            path = self._path()
        content = self._content(body, chance)
        headers = self._headers(content)
        made = f"{method} {path} HTTP/1.1\r\n".encode("utf-8", "surrogatepass") + headers + b"\r\n" + content
        if chance > 0.97:  # a few bytes of it are not what they were
            damaged = bytearray(made)
            for _ in range(self._random.randrange(1, 4)):
                damaged[self._random.randrange(len(damaged))] = self._random.randrange(256)
            return bytes(damaged)
        return made

    def _content(self, body: Any, chance: float) -> bytes:
        if body is None:
            return b""
        if chance > 0.35:
            body = self._damaged(body)
        text = json.dumps(body)
        if chance > 0.9:
            cut = self._random.randrange(len(text) + 1)
            text = text[:cut] + self._random.choice(["", "}", "]", ",", '"', "\\u0000", "[" * 200, "null"]) + text[cut:]
        if chance > 0.95 and text.startswith("{"):
            text = text[:-1] + "," + text[1:]  # every key twice
        return text.encode("utf-8", "surrogatepass")

    def _damaged(self, value: Any) -> Any:
        """The same with one part replaced by something odd."""
        if self._random.random() < 0.15 or not isinstance(value, dict | list) or not value:
            return self._random.choice(ODD)
        if isinstance(value, list):
            changed = list(value)
            at = self._random.randrange(len(changed))
            changed[at] = self._damaged(changed[at])
            return changed
        name = self._random.choice(list(value))
        chance = self._random.random()
        if chance < 0.15:
            return {key: own for key, own in value.items() if key != name}
        if chance < 0.3:
            return value | {str(self._random.choice(("x", "", "a.b[...]", "__class__", "user\n", name.upper()))): 1}
        return value | {name: self._damaged(value[name])}

    def _path(self) -> str:
        path = self._random.choice(PATHS)
        chance = self._random.random()
        if chance < 0.3:
            path += "/" + quote(str(self._random.choice(("..", "a/b", "%", "\x00", "ü" * 90, "i1?x", " "))), safe="%?/")
        elif chance < 0.5:
            at = self._random.randrange(1, len(path) + 1)
            path = path[:at] + self._random.choice(("%75", "%2F", "%00", "//", "%zz", "?n=1", "#a", ";b")) + path[at:]
        elif chance < 0.7:
            path += self._random.choice(
                ("?limit=-1", "?limit=x", "?since=1e9", "?after=%00", "?field=&field=", "?" + "a=1&" * 50)
            )
        return path

    def _headers(self, content: bytes) -> bytes:
        chance, length = self._random.random(), len(content)
        host = b"127.0.0.1" if chance > 0.02 else self._random.choice((b"evil.example", b"[::1]evil.com", b"", b"\xff"))
        lines = [b"Host: " + host]
        if content or chance < 0.5:
            lines.append(b"Content-Type: " + (b"application/json" if chance > 0.03 else b"text/plain"))
        if chance > 0.99:
            length += self._random.choice((-1, 1, 10**9))
        lines.append(b"Content-Length: %d" % max(length, 0))
        if self._random.random() < 0.03:
            lines.append(self._random.choice((b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"X: " + b"y" * 9000)))
        if self._random.random() < 0.03:
            lines.append(
                self._random.choice((b"Origin: http://evil.example", b"Sec-Fetch-Site: cross-site", b"Cookie: a=b"))
            )
        if self._random.random() < 0.02:
            lines.append(b"X-Forwarded-For: 10.0.0.%d" % self._random.randrange(256))
        return b"\r\n".join(lines) + b"\r\n"


def fuzz(count: int, seed: int, say: Callable[[str], None]) -> Fuzzed:
    """Send so many requests to one service, and look at it afterwards."""
    started, statuses, fuzzer = time.monotonic(), Counter[int](), Fuzzer(seed)
    with tempfile.TemporaryDirectory(prefix="coldstream-fuzz-") as name:
        home = Home(Path(name), f"{SQLITE}:{Path(name) / 'data'}")
        with home.serve("--requests-per-second", 0) as server:
            server.ready()
            before = _resident(server.pid)
            connection = _Connection(server.port)
            for number in range(1, count + 1):
                made = fuzzer.request()
                status = connection.ask(made)
                statuses[status] += 1
                assert status < 500 or status == 503, f"seed {seed}, request {number}: {status} for {made!r}"
                assert number % 100 or server.runs(), f"seed {seed}: it died at request {number}: {made!r}"
                if number % 10_000 == 0:
                    say(f"  fuzz: {number:,} of {count:,} requests answered")
            connection.close()
            grown = _resident(server.pid) - before
            assert grown < MOST_GROWTH, f"it grew by {grown:,} bytes"
            _check_well(server)
            assert server.terminate() == 0
        check_bits_of_log(home)
    return Fuzzed(count, dict(sorted(statuses.items())), grown, time.monotonic() - started)


def check_bits_of_log(home: Home) -> None:
    """A replay of the log leads to the bits of the last snapshot."""
    assert "the same, bit by bit" in home.verify()


def _check_well(server: Served) -> None:
    client = server.client()
    client.done("GET", "/ready")
    assert client.done("POST", "/events", {"user": "last", "item": "last"})["learned"] == 1
    assert client.done("POST", "/recommend", {"user": "last", "n": 1})["items"]


class _Connection:
    """A socket that is kept as long as the other side keeps it."""

    def __init__(self, port: int) -> None:
        self._port, self._socket, self._read = port, None, b""

    def ask(self, made: bytes) -> int:
        """The status of the answer; 0 where the connection was closed instead, or nothing came."""
        try:
            if self._socket is None:
                self._socket, self._read = socket.create_connection(("127.0.0.1", self._port), TIMEOUT), b""
            self._socket.sendall(made)
            # What is no whole request gets no answer: the end of the stream makes it one.
            if not _is_whole(made):
                self._socket.shutdown(socket.SHUT_WR)
            status, keep = self._answer(made.startswith(b"HEAD"))
            if not keep or not _is_whole(made):
                self.close()
            return status
        except OSError:
            self.close()
            return 0

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _answer(self, without_body: bool) -> tuple[int, bool]:
        assert self._socket is not None
        while b"\r\n\r\n" not in self._read:
            more = self._socket.recv(65536)
            if not more:
                raise OSError("closed")
            self._read += more
        head, _, rest = self._read.partition(b"\r\n\r\n")
        status, head = int(head.split(b" ", 2)[1]), head.lower()
        length = 0
        for line in head.split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        if b"transfer-encoding: chunked" in head:
            self._read = b""
            return status, False
        length = 0 if without_body else length
        while len(rest) < length:
            more = self._socket.recv(65536)
            if not more:
                raise OSError("closed")
            rest += more
        self._read = rest[length:]
        return status, b"connection: close" not in head and not self._read


def _is_whole(made: bytes) -> bool:
    """Whether a request says itself where it ends, and ends there."""
    head, found, body = made.partition(b"\r\n\r\n")
    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    odd = b"\r\nTransfer-Encoding" in head or b"\r\nExpect" in head
    return bool(found) and not odd and lengths == [b"Content-Length: %d" % len(body)]


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
