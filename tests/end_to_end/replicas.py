"""Several services on one PostgreSQL schema, and clients that go to any of them."""

import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from itertools import count
from threading import Event, Thread
from typing import Any

from served import PATIENCE, Answer, Client, Gone, Home, Served, wait_until

WRITER = "writer"
SHOPPERS = 4


class Cluster:
    """The replicas on one store, by the port that each has."""

    def __init__(self, home: Home, *flags: object) -> None:
        self.home, self._flags = home, flags
        self.replicas: list[Served] = []

    def add(self, *flags: object) -> Served:
        """One more, when it is ready."""
        server = self.home.serve("--failover-seconds", 1.5, *self._flags, *flags)
        self.replicas.append(server)
        return server.ready()

    def writer(self) -> Served:
        """The one that writes, as soon as one does."""
        return self.writer_but()

    def writer_but(self, *others: Served) -> Served:
        """The one that writes, and is none of these: they may not answer."""
        found: list[Served] = []

        def look() -> bool:
            asked = [server for server in self.replicas if server not in others and server.runs()]
            found[:] = [server for server in asked if role_of(server) == WRITER]
            return bool(found)

        wait_until(look)
        return found[0]

    def check_same(self) -> None:
        """All replicas come to know all lines, and at equal positions they hold the same bits."""

        def are_level() -> bool:
            found: dict[int, set[str]] = {}
            for server in self.replicas:
                if server.runs():
                    said = server.client().done("GET", "/fingerprint")
                    found.setdefault(said["position"], set()).add(said["fingerprint"])
            assert all(len(own) == 1 for own in found.values()), found
            with self.home.look() as store:  # a write whose client has gone may still come
                return list(found) == [store.last()]

        wait_until(are_level)

    def close(self) -> None:
        for server in self.replicas:
            server.__exit__(None, None, None)


def role_of(server: Served) -> str | None:
    client = Client(server.port)
    try:
        return str(client.done("GET", "/health")["role"])
    except Gone:
        return None
    finally:
        client.close()


class Shopper(Thread):
    """Posts events, each until it is acknowledged by some replica, and asks another to know what was acknowledged."""

    def __init__(
        self, name: str, ports: Callable[[], Sequence[Any]], over: Event, connect: Callable[[Any], Client] | None = None
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.acknowledged: dict[str, int | None] = {}
        """By event id: its position, or None where it was there already when it was sent again."""
        self.times: list[float] = []
        """When they were."""
        self.answered: list[tuple[float, float]] = []
        """Of each, when it was sent last, and when it was acknowledged."""
        self.failed: list[Answer | str] = []
        """Requests that had to be sent again."""
        self.read_right = self.read_late = 0
        """Reads of what was written that were right, and those that a replica answered too late and that were sent again."""
        self.read_wrong: list[Answer] = []
        self.error: BaseException | None = None
        self._ports, self._over, self._sent = ports, over, 0.0
        self._connect = connect or (lambda port: Client(port, timeout=6.0))
        self._random, self._numbers = random.Random(name), count()
        self._clients: dict[Any, Client] = {}

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._shop()
        except BaseException as error:
            self.error = error
        finally:
            for client in self._clients.values():
                client.close()

    def _shop(self) -> None:
        number = next(self._numbers)
        name, user = f"{self.name}-{number}", f"{self.name}-u{number}"
        event = {"user": user, "item": f"i{self._random.randrange(30)}", "time": 1.7e9 + number, "event_id": name}
        answer = self._insist("POST", "/events", event)
        if answer is None:
            return
        body = answer.body
        self.acknowledged[name] = body["position"] if body["learned"] else None
        self.times.append(time.monotonic())
        self.answered.append((self._sent, self.times[-1]))
        self._read(user, body["position"])

    def _read(self, user: str, position: int) -> None:
        """A user whom nobody knew before the event is known to whoever has learned it."""
        port, end = self._port(), time.monotonic() + PATIENCE
        while True:
            answer = self._ask(port, "GET", f"/users/{user}", after=position)
            late = isinstance(answer, Answer) and answer.status == HTTPStatus.SERVICE_UNAVAILABLE
            self.read_late += late
            if not late or self._over.is_set():
                break
            assert time.monotonic() < end, "a replica never came to know what was acknowledged"
        if isinstance(answer, Answer):
            self.read_right += answer.status == HTTPStatus.OK
            if not late and answer.status != HTTPStatus.OK:
                self.read_wrong.append(answer)

    def _insist(self, method: str, path: str, body: object) -> Answer | None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self._sent = time.monotonic()
            answer = self._ask(self._port(), method, path, body)
            if isinstance(answer, Answer) and answer.status == HTTPStatus.OK:
                return answer
            self.failed.append(answer)
            if isinstance(answer, Answer):
                assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE, answer
            if self._over.is_set():
                return None
            time.sleep(0.02)
        raise AssertionError("it was never acknowledged")

    def _ask(self, port: Any, method: str, path: str, body: object = None, after: int | None = None) -> Answer | str:
        if port not in self._clients:
            self._clients[port] = self._connect(port)
        client = self._clients[port]
        try:
            return client.ask(method, path, body, {} if after is None else {"Coldstream-After": str(after)})
        except Gone as gone:
            return str(gone)

    def _port(self) -> Any:
        return self._random.choice(self._ports())


@contextmanager
def shopping(
    ports: Callable[[], Sequence[Any]], prefix: str = "s", connect: Callable[[Any], Client] | None = None
) -> Iterator[list[Shopper]]:
    """Shoppers who are busy while the block runs."""
    over = Event()
    shoppers = [Shopper(f"{prefix}{n}", ports, over, connect) for n in range(SHOPPERS)]
    for shopper in shoppers:
        shopper.start()
    try:
        yield shoppers
    finally:
        over.set()
        for shopper in shoppers:
            shopper.join(PATIENCE)
    for shopper in shoppers:
        if shopper.error is not None:
            raise shopper.error
        assert not shopper.is_alive()


def check_log(shoppers: Collection[Shopper], lines: dict[int, dict[str, Any]]) -> int:
    """What was acknowledged is in the log, once, where it was said to be; how many events that are."""
    where: dict[str, int] = {}
    for position, line in lines.items():
        if line["kind"] == "event":
            assert line["event_id"] not in where, f"{line['event_id']} is there twice"
            where[line["event_id"]] = position
    acknowledged = 0
    for shopper in shoppers:
        for name, position in shopper.acknowledged.items():
            assert name in where, f"{name} was acknowledged and is lost"
            assert position is None or where[name] == position
            acknowledged += 1
    return acknowledged
