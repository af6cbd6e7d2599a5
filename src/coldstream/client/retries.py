"""How often a request is sent, and how long a client waits in between."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import random

TRANSIENT = frozenset({429, 502, 503, 504})
"""Statuses that go over: too many requests, starting, stopping, a store that is down, a proxy without a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """A request is sent up to `most` times. Waits double from `first` seconds up to `longest`, and `jitter` spreads them."""

    most: int = 6
    first: float = 0.1
    longest: float = 5.0
    jitter: Callable[[], float] = random
    """A number from 0 to 1: clients that failed together should not come back together."""

    def wait(self, attempt: int, asked: str | None) -> float:
        """Seconds to wait after an `attempt`, counted from 1, where the service may have `asked` for some."""
        backoff = min(self.longest, self.first * 2.0 ** (attempt - 1)) * (0.5 + self.jitter() / 2)
        try:
            wanted = float(asked) if asked is not None else 0.0
        except ValueError:  # a date, which HTTP allows
            wanted = 0.0
        return min(self.longest, max(backoff, wanted)) if math.isfinite(wanted) else backoff
