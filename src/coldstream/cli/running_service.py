"""Access of commands to a running service. Commands wait while the service is unavailable, and report it."""

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
"""The environment variable with the API key. Options would be visible to other users of the machine."""

PATIENCE = 120.0
"""Seconds to wait for a service that has answered before: it may restart, or another process may take over."""
AT_FIRST = 10.0
"""Seconds to wait for a service that has never answered: it may not be running, or its address may be wrong."""
TIMEOUT = httpx.Timeout(300.0, connect=10.0)
"""Seconds to wait for an answer, because thousands of lines are learned in one call; and for a connection."""
PAUSE = 0.5
"""Seconds between two attempts."""


class RunningService:
    """A running service that receives records in bulk."""

    def __init__(self, url: str) -> None:
        self._patience = _Patience(url)
        # The number of attempts is not limited: `_Patience` limits their time.
        retries = Retries(most=sys.maxsize, first=PAUSE, longest=PAUSE, patience=math.inf)
        self._client = Client(
            url, key=os.environ.get(KEY), timeout=TIMEOUT, retries=retries, on_retry=self._patience.wait_on
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def sets(self) -> dict[str, list[str]]:
        """Return the names of the fields with list values, by side; empty if the key may not read the schema."""
        try:
            schema = self._client.schema(values=0)
        except ServiceError:
            return {}
        self._patience.has_answered = True
        sides = {"user": schema.user, "item": schema.item, "context": schema.context}
        return {side: [name for name, own in fields.items() if own["kind"] == "set"] for side, fields in sides.items()}

    def take(self, role: str, records: Sequence[Mapping[str, Any]]) -> LinesTaken:
        """Send events, items or users, each of which is accepted or refused on its own."""
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
    """The time limit for an unavailable service. It reports each outage to the user once."""

    def __init__(self, url: str) -> None:
        self._url, self._began = url, 0.0
        self.has_answered = False

    def wait_on(self, retry: Retry) -> None:
        """Return to let the client wait, or raise `Unavailable` if the service has been unavailable for too long."""
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
