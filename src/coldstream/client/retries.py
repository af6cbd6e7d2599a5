"""The retry policy of clients: the number of attempts, and the waits between them."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from random import random

TRANSIENT = frozenset({429, 502, 503, 504})
"""Statuses of transient conditions: rate limit, start, shutdown, an unavailable store, a proxy without a backend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """A retry policy: up to `most` attempts, with waits from `first` seconds doubling up to `longest`, spread by `jitter`.

    A wait that the service requests with `Retry-After` is honoured even beyond `longest`. All waits of a call together take
    at most `patience` seconds: instead of a longer wait, the call fails at once.
    """

    most: int = 6
    first: float = 0.1
    longest: float = 5.0
    patience: float = 30.0
    jitter: Callable[[], float] = random
    """Returns a number from 0 to 1, which keeps clients that failed together from retrying together."""

    def wait(self, attempt: int, asked: str | None, waited: float = 0.0) -> float | None:
        """Return the seconds to wait after an `attempt`, counted from 1; None if the request should not be sent again.

        `asked` is the `Retry-After` header of the response, if any; `waited` is the number of seconds that the call waited
        before.
        """
        backoff = min(self.longest, self.first * 2.0 ** (attempt - 1)) * (0.5 + self.jitter() / 2)
        wait = max(backoff, _seconds_asked(asked))
        return wait if attempt < self.most and waited + wait <= self.patience else None


def _seconds_asked(asked: str | None) -> float:
    """Return the seconds that a `Retry-After` header requests; 0 if it is missing or cannot be parsed."""
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
