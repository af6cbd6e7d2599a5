"""How often a request is sent, and how long a client waits in between."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from random import random

TRANSIENT = frozenset({429, 502, 503, 504})
"""Statuses that go over: too many requests, starting, stopping, a store that is down, a proxy without a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """A request is sent up to `most` times. Waits double from `first` seconds up to `longest`, and `jitter` spreads them.

    A wait that the service asks for with `Retry-After` is honoured beyond `longest`. All waits of a call together take
    `patience` seconds at most: rather than wait longer, the call fails at once.
    """

    most: int = 6
    first: float = 0.1
    longest: float = 5.0
    patience: float = 30.0
    jitter: Callable[[], float] = random
    """A number from 0 to 1: clients that failed together should not come back together."""

    def wait(self, attempt: int, asked: str | None, waited: float = 0.0) -> float | None:
        """Seconds to wait after an `attempt`, counted from 1; None if the request should not be sent again.

        The service may have `asked` for a wait with `Retry-After`; `waited` are the seconds that the call has waited before.
        """
        backoff = min(self.longest, self.first * 2.0 ** (attempt - 1)) * (0.5 + self.jitter() / 2)
        wait = max(backoff, _seconds_asked(asked))
        return wait if attempt < self.most and waited + wait <= self.patience else None


def _seconds_asked(asked: str | None) -> float:
    """The seconds that a header `Retry-After` names; 0 where it cannot be read."""
    if asked is None:
        return 0.0
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(asked).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0
