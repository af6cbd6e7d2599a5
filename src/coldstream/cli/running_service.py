"""A running service, as commands talk to it: they wait while it is away, and say so."""

import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import httpx

from coldstream.client import Client, Retries, Retry, ServiceError
from coldstream.errors import Unavailable
from coldstream.service.messages.core import LinesTaken

KEY = "COLDSTREAM_KEY"
"""The environment variable with the key: other users of a machine can read the flags of a process."""

PATIENCE = 120.0
"""Seconds that a service may be away: it restarts, or another takes over."""
AT_FIRST = 10.0
"""Seconds until one that never answered is given up: it is not there, or its address is another."""
TIMEOUT = httpx.Timeout(300.0, connect=10.0)
"""Seconds that an answer may take: thousands of lines are learned in one call."""
PAUSE = 0.5
"""Seconds between two attempts."""


class RunningService:
    """Sends records to a service, in bulk."""

    def __init__(self, url: str) -> None:
        self._patience = _Patience(url)
        # Time ends the attempts, not their number.
        retries = Retries(most=sys.maxsize, first=PAUSE, longest=PAUSE, patience=math.inf)
        self._client = Client(
            url, key=os.environ.get(KEY), timeout=TIMEOUT, retries=retries, on_retry=self._patience.wait_on
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def sets(self) -> dict[str, list[str]]:
        """Name the fields whose values are lists, by side; none where the key may not read the schema."""
        try:
            schema = self._client.schema(values=0)
        except ServiceError:
            return {}
        self._patience.has_answered = True
        sides = {"user": schema.user, "item": schema.item, "context": schema.context}
        return {side: [name for name, own in fields.items() if own["kind"] == "set"] for side, fields in sides.items()}

    def take(self, role: str, records: Sequence[Mapping[str, Any]]) -> LinesTaken:
        """Send events, items or users, each of which is taken or refused by itself."""
        client = self._client
        send: dict[str, Callable[[Sequence[Mapping[str, Any]]], LinesTaken]] = {
            "event": client.import_events,
            "item": client.import_items,
            "user": client.import_users,
        }
        try:
            return send[role](records)
        except ServiceError as error:
            raise Unavailable(f"/{role}s is refused with {error}") from error


class _Patience:
    """Decides how long a service is waited for, and tells the user once per outage."""

    def __init__(self, url: str) -> None:
        self._url, self._began = url, 0.0
        self.has_answered = False

    def wait_on(self, retry: Retry) -> None:
        """Go on waiting, or raise that the service has been away for too long."""
        cause, status = retry.error.__cause__, retry.error.status
        self.has_answered |= status is not None
        patience = PATIENCE if self.has_answered else AT_FIRST
        problem = f"takes nothing (status {status})"
        if status is None:
            problem = f"does not answer ({str(cause) or type(cause).__name__})"
        if retry.attempt == 1:
            self._began = time.monotonic()
            until = datetime.now().astimezone() + timedelta(seconds=patience)
            print(f"the service at {self._url} {problem}; trying again until {until:%H:%M:%S}", file=sys.stderr)
        elif time.monotonic() >= self._began + patience:
            remedy = "start again to go on where it was" if self.has_answered else "start it, or give its address with --url"
            raise Unavailable(f"the service at {self._url} {problem}; {remedy}") from retry.error
