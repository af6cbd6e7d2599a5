"""The audience: acts a scenario out over HTTP, from wherever the service has come to."""

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote

from coldstream.demo.scenario_events import Choice, ItemCame, ItemWent, ScenarioEvent, UserCame
from coldstream.errors import Unavailable

MOST_PUT = 500
"""Items or users in one call."""

PATIENCE = 300.0
"""Seconds that a service may take to get ready: the first start compiles."""


class HttpClient:
    """One connection to the service, made again when it breaks."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = HTTPConnection(host, port, timeout=60)

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
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
    """Sends the events of a scenario, so many choices per second, or as fast as they are learned."""

    def __init__(self, client: HttpClient, name: str, speed: float) -> None:
        self._client, self._name, self._speed = client, name, speed
        self._most_choices = 100 if not speed else max(1, round(speed / 50))
        self._path, self._records = "", list[dict[str, Any]]()  # what is to be sent in one call

    def run(self, events: Iterator[ScenarioEvent], most: int | None = None) -> int:
        """Go on from where the service has come to, until so many choices were made; how many there are."""
        self._client.request("GET", "/ready")
        done = int(self._client.request("GET", "/evaluation")[1]["events"])
        number, start = 0, time.monotonic()
        for event in events:
            if isinstance(event, Choice):
                if most is not None and number >= most:
                    break
                number += 1
            if number > done or (number == done and not isinstance(event, Choice)):
                self._wait(start, number - done)
                self._send(event, number)
        self._flush()
        return number

    def _wait(self, start: float, choices: int) -> None:
        if self._speed:
            time.sleep(max(0.0, start + choices / self._speed - time.monotonic()))

    def _send(self, event: ScenarioEvent, number: int) -> None:
        match event:
            case Choice():
                self._choose(event, number)
            case ItemCame():
                hidden = {"hidden": True} if event.hidden else {}
                self._add("/items", {"id": event.item, "attributes": dict(event.attributes), **hidden}, MOST_PUT)
            case UserCame():
                self._add("/users", {"id": event.user, "attributes": dict(event.attributes)}, MOST_PUT)
            case ItemWent():
                self._flush()
                self._client.request("DELETE", f"/items/{quote(event.item, safe='')}")

    def _choose(self, choice: Choice, number: int) -> None:
        asked = {"user": choice.user, "context": dict(choice.context), "time": choice.time}
        if self._speed:  # people look before they choose; what they are shown has no influence here
            self._client.request("POST", "/recommend", asked)
        event = {**asked, "item": choice.item, "event_id": f"{self._name}-{number}"}
        if choice.kind is not None:
            event["kind"] = choice.kind
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
            status, answer = self._client.request("POST", self._path, self._records)
            if status != 200:
                raise Unavailable(f"the service refuses what happens in the demo: {answer}")
            self._records = []
