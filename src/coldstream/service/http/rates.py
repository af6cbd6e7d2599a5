"""Rate limits per client."""

import time
from collections import OrderedDict
from collections.abc import Callable


class Rates:
    """A token bucket for every name, filled at `per_second` (0: no limit). It holds the requests of a second, at least one.

    >>> rates = Rates(per_second=2, clock=lambda: 0.0)
    >>> [rates.wait("shop") for _ in range(3)]
    [0.0, 0.0, 0.5]
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unlimited = per_second == 0
        self._refill = 0.0 if self._unlimited else 1 / per_second
        self._slack = self._refill * (max(1.0, per_second) - 1)
        # A bucket is stored as the time at which it is full again; full ones are forgotten. The last to pass is last.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, name: str) -> float:
        """Return how many seconds a request must wait; 0 if it may pass. Only requests that pass count."""
        if self._unlimited:
            return 0.0
        now = self._clock()
        self._forget(now)
        full_at = max(self._full_at.get(name, now), now)
        if full_at - now > self._slack:
            return full_at - now - self._slack
        self._full_at[name] = full_at + self._refill
        self._full_at.move_to_end(name)
        return 0.0

    def __len__(self) -> int:
        """Return the number of names remembered: those that passed within about the time that a bucket takes to fill."""
        return len(self._full_at)

    def _forget(self, now: float) -> None:
        # Two are dropped for one that may be added: full buckets get fewer, and no request pays for many of them.
        for _ in range(2):
            if self._full_at and next(iter(self._full_at.values())) <= now:
                self._full_at.popitem(last=False)
