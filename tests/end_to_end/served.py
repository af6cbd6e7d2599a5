"""A service as others meet it: a process of its own, a store that outlives it, and a client that talks to it over TCP."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from email.message import Message
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Condition, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import pytest

from coldstream.storage import stores
from coldstream.storage.store import Saved
from coldstream.storage.view import View

if TYPE_CHECKING:
    from postgres_server import PostgresServer

SQLITE, POSTGRES = "sqlite", "postgresql"
STORES = (SQLITE, POSTGRES)

PATIENCE = 240.0
"""Seconds until a test gives up on what should take one: kernels may have to be compiled first."""

SCHEMA = """
exclude_seen = false
[item]
id = { kind = "id" }
genre = { kind = "set" }
[user]
id = { kind = "id" }
city = { kind = "category" }
[context]
device = { kind = "category" }
"""


class Gone(Exception):
    """No answer came. What was asked for may be done or not."""


class Answer(NamedTuple):
    """What the server said."""

    status: int
    headers: Message
    body: Any


class Client:
    """One connection that is kept, and made again after it broke."""

    def __init__(self, port: int, timeout: float = PATIENCE, host: str = "127.0.0.1", key: str | None = None) -> None:
        self._connection = HTTPConnection(host, port, timeout=timeout)
        self._always = {} if key is None else {"Authorization": f"Bearer {key}"}

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """The answer to one request; raises `Gone` if there is none."""
        content = None if body is None else json.dumps(body).encode()
        given = {**self._always, **({"Content-Type": "application/json"} if content else {}), **(headers or {})}
        try:
            self._connection.request(method, path, content, given)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, HTTPException) as error:
            self.close()
            raise Gone(f"{method} {path}: {error!r}") from error
        return Answer(
            response.status, response.headers, json.loads(text) if "json" in response.headers["Content-Type"] else text
        )

    def done(self, method: str, path: str, body: object = None) -> Any:
        """The body of an answer that has to be a good one."""
        answer = self.ask(method, path, body)
        assert answer.status == 200, answer
        return answer.body

    def close(self) -> None:
        self._connection.close()


class Served:
    """`coldstream serve` as a process. Its log is read as it comes, so it never has to wait for a reader."""

    def __init__(self, *arguments: object, folder: Path) -> None:
        self.text: list[str] = []
        self._news, self._ended = Condition(), False
        self._clients: list[Client] = []
        self._process = self._started(arguments, folder)
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _started(self, arguments: tuple[object, ...], folder: Path) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "coldstream", "serve", "--port", "0", *map(str, arguments)],
            env=os.environ | {"TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def port(self) -> int:
        """The port it listens on, as soon as it says so."""
        return int(self.logged("listening")["address"].rpartition(":")[2])

    def client(self) -> Client:
        """A connection that is closed with the server."""
        client = Client(self.port)
        self._clients.append(client)
        return client

    def ready(self) -> "Served":
        """The server, when it is ready to answer."""
        self.logged("ready")
        self.client().done("GET", "/ready")
        return self

    def log(self, event: str) -> list[dict[str, Any]]:
        """The lines of its log about one kind of event."""
        lines = (json.loads(line) for line in list(self.text) if line.startswith("{"))
        return [line for line in lines if line["event"] == event]

    def logged(self, event: str) -> dict[str, Any]:
        """The first line about a kind of event, when it comes."""
        with self._news:
            self._news.wait_for(lambda: self.log(event) or self._ended, PATIENCE)
        lines = self.log(event)
        assert lines, f"{event!r} was not logged:\n{self.said()}"
        return lines[0]

    def said(self) -> str:
        """All that it wrote to its standard error so far."""
        return "".join(self.text)

    def runs(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        self._process.kill()
        self.ended()

    def terminate(self) -> int:
        """Ask it to stop; its exit status."""
        self._process.terminate()
        return self.ended()

    def ended(self) -> int:
        """Its exit status, when it has ended by itself."""
        status = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        for client in self._clients:
            client.close()
        assert self._process.stderr is not None
        self._process.stderr.close()
        if error is not None:
            print("".join(self.text[-50:]), file=sys.stderr)  # pytest shows it beside the failure

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._news:
                self.text.append(line)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


class Home:
    """Where a service lives: a store of one kind, a schema, and a folder for everything else."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.schema = folder / "schema.toml"
        self.schema.write_text(SCHEMA)
        self._temporary = folder / "temporary"
        self._temporary.mkdir()

    @property
    def data(self) -> Path:
        """The folder of a store in SQLite."""
        assert self.url.startswith(f"{SQLITE}:")
        return Path(self.url.removeprefix(f"{SQLITE}:"))

    @property
    def flags(self) -> tuple[str, str]:
        """How a command is told which store."""
        return ("--data", str(self.data)) if self.url.startswith(f"{SQLITE}:") else ("--store", self.url)

    def serve(self, *arguments: object) -> Served:
        """A server on this store, with a small model, so that it is quick."""
        small = ("--set", "factors=4", "--set", "negatives=5", "--erase-minutes", 0)
        return self._served("--schema", self.schema, *self.flags, *small, *arguments)

    def _served(self, *arguments: object) -> Served:
        return Served(*arguments, folder=self._temporary)

    def rest(self) -> None:
        """Come back when the database is done with what a killed server asked for last: it may commit that still."""
        if self.url.startswith(f"{SQLITE}:"):
            return
        with psycopg.connect(self.url, autocommit=True) as connection:
            sessions = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'coldstream'"
            wait_until(lambda: connection.execute(sessions).fetchone() is None)

    def look(self) -> "closing[View]":
        """The store, whoever writes to it."""
        return closing(stores.inspected(self.url))

    def lines(self) -> dict[int, dict[str, Any]]:
        """The log: position → what the line says."""
        with self.look() as store:
            return {entry.position: json.loads(entry.body) for entry in store.read(0)}

    def verify(self) -> str:
        """What `coldstream verify` prints where nothing differs."""
        command = [sys.executable, "-m", "coldstream", "verify", *self.flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def damage(self, saved: Saved, how: Callable[[bytes], bytes]) -> None:
        """Change the content of a snapshot behind everybody's back."""
        if self.url.startswith(f"{SQLITE}:"):
            (path,) = (self.data / "snapshots").glob(f"{saved.number:010d}-*")
            path.write_bytes(how(path.read_bytes()))
            return
        with psycopg.connect(self.url) as connection:
            where = f"number = {saved.number} AND part = 0"
            ((content,),) = connection.execute(f"SELECT content FROM coldstream_snapshot_chunk WHERE {where}")
            connection.execute(f"UPDATE coldstream_snapshot_chunk SET content = %s WHERE {where}", (how(content),))

    def everything(self) -> bytes:
        """All bytes that the store holds of the log and its snapshots."""
        if self.url.startswith(f"{SQLITE}:"):
            return b"".join(map(_content, sorted(self.data.rglob("*"))))
        with psycopg.connect(self.url) as connection:
            log = connection.execute("SELECT person, body FROM coldstream_log ORDER BY position").fetchall()
            snapshots = connection.execute("SELECT content FROM coldstream_snapshot_chunk ORDER BY number, part").fetchall()
        return b"".join(part for row in log + snapshots for part in row if part is not None)

    def half_written(self) -> set[Path]:
        """Files of snapshots that are being taken, or that nobody finished."""
        roots = [self._temporary, *([self.data] if self.url.startswith(f"{SQLITE}:") else [])]
        names = ("*taking*", ".*.writing")
        return {path for root in roots for name in names for path in root.rglob(name)}


def homes(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Home:
    """A home of one kind, with nothing in its store yet."""
    if kind == SQLITE:
        return Home(tmp_path, f"{SQLITE}:{tmp_path / 'data'}")
    server: PostgresServer = request.getfixturevalue("postgres")
    return Home(tmp_path, server.new_schema())


def wait_until(holds: Callable[[], object]) -> None:
    """Come back when something holds that is about to."""
    for _ in _moments():
        if holds():
            return
    raise AssertionError("it did not happen")


def _content(path: Path) -> bytes:
    with suppress(FileNotFoundError, IsADirectoryError):  # it may be gone since it was seen
        return path.read_bytes()
    return b""


def _moments() -> Iterator[float]:
    end = time.monotonic() + PATIENCE
    while (now := time.monotonic()) < end:
        yield now
        time.sleep(0.005)
