"""Floods of requests that are refused, or cost much: how long do others wait meanwhile?

python tests/torture/floods.py [--seconds 3] [--items 20000] [--only NAME …]

A service runs in a process of its own, and another process sends it one kind of flood after the other, over two connections.
Meanwhile a client asks for `/health` and `/recommend` in turn. Told of each flood: how long the slowest answer of each took,
and the most CPU time that one turn of the service's loop has taken. The first depends on how busy the machine is, the second
does not. The service runs on asyncio's own loop here, where turns can be measured from outside of it.
"""

import argparse
import asyncio
import io
import json
import mmap
import multiprocessing
import os
import random
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "end_to_end")]

from served import SQLITE, Home, Served  # noqa: E402

MAX_WAIT = 0.05
"""Seconds that others should wait at most."""
CONNECTIONS = 2

JSON, LINES, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"

SCHEMA = """
[item]
id = { kind = "id" }
genre = { kind = "set" }
brand = { kind = "category" }
price = { kind = "number", low = 0, high = 100 }
[user]
id = { kind = "id" }
tags = { kind = "set" }
[context]
device = { kind = "category" }
[feedback]
view = 0.2
"""


class Flood(NamedTuple):
    """One kind of request."""

    name: str
    method: str
    path: str
    kind: str
    body: Callable[[], bytes]
    chunk: int = 0
    """Bytes of each chunk; 0 for a body of stated length."""


class Felt(NamedTuple):
    """What others felt of a flood, and what the client that sent it was answered."""

    name: str
    health: float
    recommend: float
    asked: int
    turn: float
    requests: int
    statuses: str


# Bodies


def _lines(line: bytes, count: int) -> Callable[[], bytes]:
    return lambda: (line + b"\n") * count


def _listed(element: bytes, count: int) -> Callable[[], bytes]:
    return lambda: b"[" + b",".join([element] * count) + b"]"


def _arrow(columns: Callable[[Any], dict[str, Any]]) -> Callable[[], bytes]:
    def body() -> bytes:
        import pyarrow as pa

        batch, sink = pa.RecordBatch.from_pydict(columns(pa)), io.BytesIO()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue()

    return body


def _small_messages() -> bytes:
    return _arrow(lambda _: {"user": ["u"], "item": ["i"]})()[:-8] * 8000


def _recommended(**more: Any) -> Callable[[], bytes]:
    return lambda: json.dumps({"user": "u1", "n": 100, **more}).encode()


def _ruled() -> bytes:
    number = random.Random(time.monotonic()).randrange(10**6)  # other conditions every time: no mask is kept
    boosts = [{"where": {"brand": f"b{n}", "price": {"min": n + number / 1e6}}, "factor": 1.5} for n in range(64)]
    return _recommended(rules={"boosts": boosts, "most_per": {"brand": 1, "genre": 1}})()


def _users() -> bytes:
    number = random.Random(time.monotonic()).randrange(10**6)
    users = [{"id": f"u{n}", "attributes": {"tags": [f"{number} {n} {m}" for m in range(200)]}} for n in range(800)]
    return json.dumps(users).encode()


EVENT, ITEM = b'{"user":"u","item":"i1"}', b'{"id":1}'
REFUSED = b'{"user":"u","item":"i1","kind":"no"}'
KEYS = json.dumps({"user": "u", "item": "i", "context": {f"k{n}": n for n in range(100_000)}}).encode()
MANY = [f"i{n}" for n in range(10_000)]

FLOODS = (
    Flood("nothing", "GET", "/ready", "", lambda: b""),
    Flood("empty objects as lines", "POST", "/events", LINES, _lines(b"{}", 20_000)),
    Flood("lines that the schema refuses", "POST", "/events", LINES, _lines(REFUSED, 20_000)),
    Flood("good and bad lines in turn", "POST", "/events", LINES, _lines(EVENT + b"\n" + REFUSED, 15_000)),
    Flood(
        "items of an unknown field as lines", "POST", "/items", LINES, _lines(b'{"id":"x","attributes":{"no":1}}', 20_000)
    ),
    Flood("empty lines", "POST", "/events", LINES, _lines(b"", 4_000_000)),
    Flood("a long line, byte by byte", "POST", "/events", LINES, lambda: b"x" * 4_000_000, 1),
    Flood("lines of 100,000 keys", "POST", "/events", LINES, lambda: (KEYS + b"\n") * 2),
    Flood("arrow without a column", "POST", "/events", ARROW, _arrow(lambda _: {"user": ["u"] * 100_000})),
    Flood(
        "arrow, values refused",
        *("POST", "/items", ARROW),
        _arrow(lambda _: {"item": [f"x{n}" for n in range(50_000)], "no": [1] * 50_000}),
    ),
    Flood(
        "arrow, a long value shared",
        *("POST", "/events", ARROW),
        _arrow(
            lambda pa: {
                "user": ["u"] * 20_000,
                "item": pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int8()), pa.array(["x" * 65_536])),
            }
        ),
    ),
    Flood(
        "arrow, long lists",
        *("POST", "/events", ARROW),
        _arrow(lambda pa: {"user": ["u"], "item": ["i"], "device": pa.array([[1] * 500_000], pa.list_(pa.int8()))}),
    ),
    Flood("arrow, small messages", "POST", "/events", ARROW, _small_messages),
    Flood("a list of too many events", "POST", "/events", JSON, _listed(EVENT, 150_000)),
    Flood("a list of too many items", "POST", "/items", JSON, _listed(ITEM, 400_000)),
    Flood("a list of empty objects", "POST", "/events", JSON, _listed(b"{}", 1_300_000)),
    Flood("a list of 1,000 events, the last one bad", "POST", "/events", JSON, lambda: _listed(EVENT, 999)()[:-1] + b",{}]"),
    Flood("an event of 100,000 keys", "POST", "/events", JSON, lambda: KEYS),
    Flood("deep nesting", "POST", "/items", JSON, lambda: b"[" * 4_000_000),
    Flood("users of 200 new values each", "POST", "/users", JSON, _users),
    Flood("64 boosts and two caps", "POST", "/recommend", JSON, _ruled),
    Flood("10,000 ids to allow and to deny", "POST", "/recommend", JSON, _recommended(allow=MANY, deny=MANY[:5000])),
    Flood("too many pins", "POST", "/recommend", JSON, _recommended(rules={"pins": [{"item": 1, "position": 1}] * 120_000})),
    Flood(
        "4,000 values in a filter", "POST", "/recommend", JSON, _recommended(where={f"f{n}": ["x"] * 250 for n in range(16)})
    ),
    Flood("a long query", "GET", "/items?" + "&".join(f"a{n}=1" for n in range(4000)), "", lambda: b""),
)


# The service, and what one turn of its loop takes


def serve(path: str, arguments: list[str]) -> None:
    """Run a service whose loop writes the CPU time of its longest turn into a file."""
    from coldstream.cli import main
    from coldstream.service.http import server

    with open(path, "r+b") as file:
        longest = mmap.mmap(file.fileno(), 8)

    class Loop(asyncio.SelectorEventLoop):
        def _run_once(self) -> None:
            began = time.thread_time()
            super()._run_once()  # type: ignore[misc]
            took = time.thread_time() - began
            if took > struct.unpack("d", longest[:])[0]:
                longest[:] = struct.pack("d", took)

    def run(work: Any) -> None:
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(work)

    bound = server._bound

    def bound_without_delay(settings: Any) -> socket.socket:
        listener = bound(settings)  # asyncio, other than uvloop, lets small answers wait 40 ms for an acknowledgement
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener

    server._bound = bound_without_delay
    server.uvloop = SimpleNamespace(run=run)  # type: ignore[assignment]
    sys.exit(main(arguments))


class Measured(Home):
    """A service in a process that measures its turns."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, f"{SQLITE}:{folder / 'data'}")
        self.schema.write_text(SCHEMA)
        self._path = folder / "longest"
        self._path.write_bytes(bytes(8))
        with self._path.open("r+b") as file:
            self._longest = mmap.mmap(file.fileno(), 8)

    def _served(self, *arguments: object) -> Served:
        path = str(self._path)

        class Inside(Served):
            def _started(self, arguments: tuple[object, ...], folder: Path) -> Any:
                import subprocess

                command = [sys.executable, __file__, "--serve", path, "serve", "--port", "0", *map(str, arguments)]
                pipe = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
                return subprocess.Popen(command, env=os.environ | {"TMPDIR": str(folder)}, text=True, **pipe)  # type: ignore[call-overload]

        return Inside(*arguments, folder=self.folder)

    def longest(self) -> float:
        """Seconds of CPU that the longest turn since the last call has taken."""
        (seconds,) = struct.unpack("d", self._longest[:])
        self._longest[:] = bytes(8)
        return float(seconds)


# Those who send, and those who wait


def _send(flood: Flood, port: int, end: float, statuses: Any) -> None:
    """Send requests of a flood one after the other, each over a connection of its own, until it is over."""
    while time.monotonic() < end:
        body = flood.body()
        length = f"Content-Length: {len(body)}" if not flood.chunk else "Transfer-Encoding: chunked"
        head = f"{flood.method} {flood.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {flood.kind}\r\n{length}\r\n\r\n"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(head.encode())
                for part in _parts(body, flood.chunk):
                    connection.sendall(part)
                statuses.put(connection.recv(12)[9:].decode() or "none")
        except OSError:
            statuses.put("none")


def _parts(body: bytes, chunk: int) -> Iterator[bytes]:
    if not chunk:
        yield body
        return
    framed = b"".join(b"%x\r\n%b\r\n" % (chunk, body[n : n + chunk]) for n in range(0, 2**14, chunk))
    for _ in range(0, len(body), 2**14):
        yield framed
    yield b"0\r\n\r\n"


def flooded(flood: Flood, served: Served, home: Measured, seconds: float) -> Felt:
    """What others feel of one flood."""
    client, statuses = Asker(served.port), multiprocessing.SimpleQueue()
    for path in ("/health", "/recommend"):
        client.ask(path)
    home.longest()
    end = time.monotonic() + seconds
    senders = [multiprocessing.Process(target=_send, args=(flood, served.port, end, statuses)) for _ in range(CONNECTIONS)]
    for sender in senders:
        sender.start()
    longest, asked, answered = {"/health": 0.0, "/recommend": 0.0}, 0, list[str]()
    while any(sender.is_alive() for sender in senders):
        for path in longest:
            longest[path] = max(longest[path], client.ask(path))
            asked += 1
        while not statuses.empty():
            answered.append(statuses.get())
        time.sleep(0.002)
    for sender in senders:
        sender.join()
    client.close()
    while not statuses.empty():
        answered.append(statuses.get())
    counts = ", ".join(f"{answered.count(status)} × {status}" for status in sorted(set(answered)))
    return Felt(flood.name, longest["/health"], longest["/recommend"], asked, home.longest(), len(answered), counts)


class Asker:
    """A client whose requests go in one piece each: two would wait for an acknowledgement between them, 40 ms."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def ask(self, path: str) -> float:
        """Seconds until the answer is there."""
        body = b"" if path == "/health" else b'{"user":"u1","n":10}'
        line = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {JSON}\r\n"
        began = time.perf_counter()
        self._socket.sendall(f"{line}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert self._answers.readline().split()[1] == b"200"
        length = 0
        while (header := self._answers.readline()) != b"\r\n":
            if header.startswith(b"content-length:"):
                length = int(header[15:])
        self._answers.read(length)
        return time.perf_counter() - began

    def close(self) -> None:
        """Give the connection back."""
        self._answers.close()
        self._socket.close()


def floods(seconds: float, items: int, say: Callable[[str], None], only: list[str] | None = None) -> list[Felt]:
    """What others feel of each flood."""
    with tempfile.TemporaryDirectory() as name:
        home = Measured(Path(name))
        with home.serve("--body-seconds", 5) as served:
            served.ready()
            _fill(served.port, items)
            say(f"{'flood':42} {'health':>8} {'recommend':>10} {'a turn (CPU)':>13}  answers")
            felt = list[Felt]()
            for flood in FLOODS:
                if not only or flood.name in only:
                    felt.append(own := flooded(flood, served, home, seconds))
                    times = f"{1e3 * own.health:5.0f} ms {1e3 * own.recommend:7.0f} ms {1e3 * own.turn:10.1f} ms"
                    say(f"{own.name:42} {times}  {own.statuses} ({own.asked} asked)")
            assert served.runs(), served.said()
    return felt


def _fill(port: int, items: int) -> None:
    drawn = random.Random(1)
    body = b"".join(
        json.dumps(
            {
                "id": f"i{n}",
                "attributes": {
                    "genre": [f"g{drawn.randrange(300)}" for _ in range(3)],
                    "brand": f"b{drawn.randrange(500)}",
                    "price": 100 * drawn.random(),
                },
            }
        ).encode()
        + b"\n"
        for n in range(items)
    )
    with socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
        head = f"POST /items HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {LINES}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        assert connection.recv(12).endswith(b"200")


def summary(felt: list[Felt]) -> list[str]:
    """What to say of all floods."""
    slow = [own for own in felt if max(own.health, own.recommend) > MAX_WAIT]
    longest = max(felt, key=lambda own: own.turn)
    lines = [f"{len(felt)} floods: one turn of the loop took {1e3 * longest.turn:.0f} ms of CPU at most ({longest.name})"]
    return [*lines, f"  others waited longer than {1e3 * MAX_WAIT:.0f} ms in {len(slow)} of them"]


def main() -> None:
    """All floods, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each flood")
    parser.add_argument("--items", type=int, default=20_000, help="in the catalogue")
    parser.add_argument("--only", nargs="*", help="names of floods")
    args = parser.parse_args()
    felt = floods(args.seconds, args.items, lambda text: print(text, flush=True), args.only)
    print("\n" + "\n".join(summary(felt)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3:])
    else:
        main()
