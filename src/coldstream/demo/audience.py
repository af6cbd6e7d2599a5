"""The audience: lives a scenario over HTTP, from wherever the service has come to."""

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote

from coldstream.demo.happenings import Choice, Happening, ItemCame, ItemWent, UserCame
from coldstream.errors import Unavailable

MOST_PUT = 500
"""Items or users in one call."""

PATIENCE = 300.0
"""Seconds that a service may take to get ready: the first start compiles."""


class Line:
    """One connection to the service, made again when it breaks."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = HTTPConnection(host, port, timeout=60)

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """The status and the answer; what cannot be done now is asked again until it can."""
        content = None if body is None else json.dumps(body).encode()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                self._connection.request(method, path, content, {"Content-Type": "application/json"})
                response = self._connection.getresponse()
                status, text = response.status, response.read()
            except (OSError, HTTPException):
                self._connection.close()
                time.sleep(0.2)
                continue
            if status != 503:
                return status, json.loads(text)
            time.sleep(0.2)
        raise Unavailable(f"the service does not answer {method} {path}; look at its log")


class Audience:
    """Does what happens, so many choices per second, or as fast as they are learned."""

    def __init__(self, line: Line, name: str, speed: float) -> None:
        self._line, self._name, self._speed = line, name, speed
        self._most_choices = 100 if not speed else max(1, round(speed / 50))
        self._path, self._records = "", list[dict[str, Any]]()  # what is to be sent in one call

    def live(self, happenings: Iterator[Happening], most: int | None = None) -> int:
        """Go on from where the service has come to, until so many choices were made; how many there are."""
        self._line.ask("GET", "/ready")
        done = int(self._line.ask("GET", "/evaluation")[1]["events"])
        number, start = 0, time.monotonic()
        for happening in happenings:
            if isinstance(happening, Choice):
                if most is not None and number >= most:
                    break
                number += 1
            if number > done or (number == done and not isinstance(happening, Choice)):
                self._wait(start, number - done)
                self._do(happening, number)
        self._flush()
        return number

    def _wait(self, start: float, choices: int) -> None:
        if self._speed:
            time.sleep(max(0.0, start + choices / self._speed - time.monotonic()))

    def _do(self, happening: Happening, number: int) -> None:
        match happening:
            case Choice():
                self._choose(happening, number)
            case ItemCame():
                self._add("/items", {"id": happening.item, "attributes": dict(happening.attributes)}, MOST_PUT)
            case UserCame():
                self._add("/users", {"id": happening.user, "attributes": dict(happening.attributes)}, MOST_PUT)
            case ItemWent():
                self._flush()
                self._line.ask("DELETE", f"/items/{quote(happening.item, safe='')}")

    def _choose(self, choice: Choice, number: int) -> None:
        asked = {"user": choice.user, "context": dict(choice.context), "time": choice.time}
        if self._speed:  # people look before they choose; what they are shown has no influence here
            self._line.ask("POST", "/recommend", asked)
        event = {**asked, "item": choice.item, "event_id": f"{self._name}-{number}"}
        self._add("/events", event, self._most_choices)

    def _add(self, path: str, record: dict[str, Any], most: int) -> None:
        if path != self._path:
            self._flush()
        self._path = path
        self._records.append(record)
        if len(self._records) >= most:
            self._flush()

    def _flush(self) -> None:
        if self._records:
            status, answer = self._line.ask("POST", self._path, self._records)
            if status != 200:
                raise Unavailable(f"the service refuses what happens in the demo: {answer}")
            self._records = []
