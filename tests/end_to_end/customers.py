"""Clients that post at the same time, and remember what they were promised."""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from threading import Event
from time import sleep
from typing import Any

from served import Answer, Client, Gone, Served

ITEMS, USERS = 30, 40
MOST_REQUESTS = 20_000
"""Of one customer in one visit."""

Line = dict[str, Any]


class Customer:
    """One client with one connection. Every event has an id of its own; one whose fate is unclear is sent again."""

    def __init__(self, name: str) -> None:
        self.promised: dict[int, Line] = {}
        """What the server said is in the log, at the position that it gave."""
        self.acknowledged: set[str] = set()
        """The ids of events that the server said it has learned, now or before."""
        self.unclear: list[list[Line]] = []
        """Events, as they were posted together, of which the server has said nothing."""
        self.sent: set[str] = set()
        self.refusals: list[Answer] = []
        """Answers of a server that could not take it."""
        self._doubtful: set[str] = set()  # refused since the server began, and perhaps in its log all the same
        self.name, self._numbers = name, count()
        self._random = random.Random(name)

    def visit(self, port: int, over: Event, known: Collection[str]) -> None:
        """Post until it is over. `known` are the ids that the log had when this server began."""
        self._doubtful = set()
        with closing(Client(port)) as client:
            for _ in range(MOST_REQUESTS):
                if over.is_set():
                    return
                try:
                    self._act(client, known)
                except Gone:
                    over.wait(0.01)

    def settle(self, client: Client, known: Collection[str]) -> None:
        """Send again what is unclear, to a server that takes it."""
        for events in list(self.unclear):
            self.unclear.remove(events)
            self._post(client, events, known)
            assert events not in self.unclear

    def _act(self, client: Client, known: Collection[str]) -> None:
        chance = self._random.random()
        if self.unclear:
            self._post(client, self.unclear.pop(0), known)
        elif chance < 0.4:
            self._post(client, [self._event()], known)
        elif chance < 0.75:
            self._post(client, [self._event() for _ in range(self._random.randint(2, 20))], known)
        elif chance < 0.82:
            self._put(client, "item", {"genre": self._random.sample(["a", "b", "c"], 2)})
        elif chance < 0.89:
            self._put(client, "user", {"city": self._random.choice(["Jena", "Gera"])})
        elif chance < 0.94:
            self._delete_item(client)
        else:
            answer = client.ask("POST", "/recommend", {"user": self._user(), "time": 0})
            assert answer.status == 200 or self._is_refused(answer), answer

    def _post(self, client: Client, events: list[Line], known: Collection[str]) -> None:
        ids = [event["event_id"] for event in events]
        self.sent.update(ids)
        self.unclear.append(events)
        answer = client.ask("POST", "/events", events[0] if len(events) == 1 else events)
        if self._is_refused(answer):
            self._doubtful.update(ids)
            return
        self.unclear.remove(events)
        assert answer.status == 200, answer
        self._check(ids, answer.body["learned"], answer.body["duplicates"], known)
        self.acknowledged.update(ids)
        if answer.body["learned"]:
            first = answer.body["position"] - len(events) + 1
            self.promised |= {first + n: {"kind": "event", **event} for n, event in enumerate(events)}

    def _check(self, ids: list[str], learned: int, duplicates: int, known: Collection[str]) -> None:
        """What came in one request is learned together or was before, and the server can tell."""
        assert (learned, duplicates) in ((len(ids), 0), (0, len(ids)))
        if not self._doubtful.issuperset(ids):
            assert [name in known for name in ids] == [duplicates > 0] * len(ids)

    def _put(self, client: Client, what: str, attributes: Mapping[str, Any]) -> None:
        name = self._item() if what == "item" else self._user()
        answer = client.ask("PUT", f"/{what}s/{name}", {"attributes": attributes})
        if not self._is_refused(answer):
            assert answer.status == 200, answer
            self.promised[answer.body["position"]] = {"kind": what, "id": name, "attributes": attributes}

    def _delete_item(self, client: Client) -> None:
        name = self._item()
        answer = client.ask("DELETE", f"/items/{name}")
        if answer.status == 200:
            self.promised[answer.body["position"]] = {"kind": "item-removed", "id": name}
        else:
            assert answer.status == 404 or self._is_refused(answer), answer

    def _is_refused(self, answer: Answer) -> bool:
        if answer.status != 503:
            return False
        self.refusals.append(answer)
        sleep(0.005)
        return True

    def _event(self) -> Line:
        number = next(self._numbers)
        event = {"user": self._user(), "item": self._item(), "time": 1.7e9 + 60 * number}
        if number % 3 == 0:
            event["context"] = {"device": self._random.choice(["desk", "phone"])}
        return {**event, "event_id": f"{self.name}-{number}"}

    def _item(self) -> str:
        return f"i{self._random.randrange(ITEMS)}"

    def _user(self) -> str:
        return f"u{self._random.randrange(USERS)}"


@contextmanager
def busy(customers: Sequence[Customer], server: Served, known: Collection[str] = frozenset()) -> Iterator[None]:
    """Customers post while the block runs. What any of them could not believe is raised at its end."""
    over = Event()
    with ThreadPoolExecutor(len(customers)) as pool:
        visits = [pool.submit(customer.visit, server.port, over, known) for customer in customers]
        try:
            yield
        finally:
            over.set()
    for visit in visits:
        visit.result()


def event_ids(lines: Mapping[int, Line]) -> list[str]:
    """The ids of the events in a log, in order."""
    return [line["event_id"] for line in lines.values() if line["kind"] == "event"]


def check_promises(customers: Sequence[Customer], lines: Mapping[int, Line]) -> None:
    """What was acknowledged is in the log where the server said, no event is there twice, and none that nobody sent."""
    ids = event_ids(lines)
    found = set(ids)
    assert len(ids) == len(found)
    for customer in customers:
        assert customer.acknowledged <= found
        assert {position: lines.get(position) for position in customer.promised} == customer.promised
    assert found <= set().union(*(customer.sent for customer in customers))
