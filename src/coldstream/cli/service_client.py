"""A running service, as commands talk to it."""

import json
import sys
import time
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from coldstream.errors import InvalidInput, Unavailable, shown

KEY = "COLDSTREAM_KEY"
"""The variable with the key: others can see the flags of a process."""

PATIENCE = 120.0
"""Seconds that a service may be away: it restarts, or another takes over."""
AT_FIRST = 10.0
"""Seconds until one that never answered is given up: it is not there, or its address is another."""
LONGEST = 300.0
"""Seconds that an answer may take: thousands of lines are learned in one go."""
PAUSE = 0.5
"""Seconds between two tries."""


class ServiceClient:
    """One connection, made again when it breaks; what cannot be done now is sent again."""

    def __init__(self, url: str, key: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise InvalidInput(f"--url must be that of a service, got {shown(url)}; write http://127.0.0.1:8000")
        connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection, self._url = connect(parts.hostname, parts.port, timeout=AT_FIRST), url
        self._headers = {"Content-Type": "application/x-ndjson"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._met = False

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def sets(self) -> dict[str, list[str]]:
        """By side, the fields whose values are lists; none where the key may not read the schema."""
        found: dict[str, list[str]] = {}
        page: int | None = 0
        while page is not None:
            status, document = self.answer("GET", f"/schema?values=0&after={page}", b"")
            if status != 200:
                return {}
            for side in ("user", "item", "context"):
                found.setdefault(side, []).extend(name for name, own in document[side].items() if own["kind"] == "set")
            page = document["next"]
        return found

    def send(self, path: str, body: bytes) -> tuple[int, Any]:
        """The status and the answer to lines of JSON. Where an answer ended early, the lines it did not come to go again."""
        done: Any = {"taken": 0, "duplicates": 0, "refused": 0, "refusals": []}
        before = 0
        while True:
            status, answer = self.answer("POST", path, body)
            if status == 200 and before == 0:
                return status, answer
            if status == 200 or _next_line(answer) is not None:
                counts = {name: done[name] + answer.get(name, 0) for name in ("taken", "duplicates", "refused")}
                told = [{**one, "line": one["line"] + before} for one in answer.get("refusals", ())]
                done = {**answer, **counts, "refusals": done["refusals"] + told}
            line = _next_line(answer)
            if status == 200 or line is None:
                return status, done if status == 200 else answer
            body, before = b"\n".join(body.split(b"\n")[line - 1 :]), before + line - 1

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """The status and the answer to a request, as soon as the service gives one, or has taken some of its lines."""
        began, trouble = time.monotonic(), ""
        while not trouble or time.monotonic() < began + self._patience:
            try:
                if self._connection.sock is None:
                    self._connect()
                self._connection.request(method, path, body, self._headers)
                response = self._connection.getresponse()
                status, text = response.status, response.read()
            except (OSError, HTTPException) as error:
                self._connection.close()
                problem = f"does not answer ({str(error) or type(error).__name__})"
            else:
                self._met = True
                answer = _decoded(text)
                if status not in (429, 503) or _next_line(answer) is not None:
                    return status, answer
                problem = f"takes nothing (status {status})"
            if not trouble:
                self._tell(problem)
            trouble = problem
            time.sleep(PAUSE)
        remedy = "start again to go on where it was" if self._met else "start it, or give its address with --url"
        raise Unavailable(f"the service at {self._url} {trouble}; {remedy}")

    def _connect(self) -> None:
        self._connection.connect()
        self._connection.sock.settimeout(LONGEST)

    @property
    def _patience(self) -> float:
        return PATIENCE if self._met else AT_FIRST

    def _tell(self, problem: str) -> None:
        until = datetime.now().astimezone() + timedelta(seconds=self._patience)
        print(f"the service at {self._url} {problem}; trying again until {until:%H:%M:%S}", file=sys.stderr)


def _next_line(answer: Any) -> int | None:
    """The line to go on with, where an answer ended early for a reason that passes, and some lines were done before it."""
    if not isinstance(answer, dict) or answer.get("status") not in (408, 503) or answer.get("next_line", 1) == 1:
        return None
    return int(answer["next_line"])


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # somebody else's page
        return {"detail": text[:200].decode(errors="replace")}
