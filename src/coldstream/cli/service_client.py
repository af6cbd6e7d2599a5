"""A running service, as commands talk to it."""

import json
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from coldstream.errors import InvalidInput, Unavailable, shown

KEY = "COLDSTREAM_KEY"
"""The variable with the key: others can see the flags of a process."""

PATIENCE = 120.0
"""Seconds that a service may be away: it restarts, or another takes over."""


class ServiceClient:
    """One connection, made again when it breaks; what cannot be done now is sent again."""

    def __init__(self, url: str, key: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise InvalidInput(f"--url must be that of a service, got {shown(url)}; write http://127.0.0.1:8000")
        connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection, self._url = connect(parts.hostname, parts.port, timeout=300), url
        self._headers = {"Content-Type": "application/x-ndjson"} | ({"Authorization": f"Bearer {key}"} if key else {})

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def send(self, path: str, body: bytes) -> tuple[int, Any]:
        """The status and the answer to lines of JSON."""
        end, trouble = time.monotonic() + PATIENCE, "does not answer"
        while time.monotonic() < end:
            try:
                self._connection.request("POST", path, body, self._headers)
                response = self._connection.getresponse()
                status, text = response.status, response.read()
            except (OSError, HTTPException) as error:
                trouble = f"does not answer ({error or type(error).__name__})"
                self._connection.close()
                time.sleep(0.5)
                continue
            if status not in (429, 503):
                return status, json.loads(text)
            trouble = f"takes nothing (status {status})"
            time.sleep(0.5)
        raise Unavailable(f"the service at {self._url} {trouble}; start again to go on where it was")
