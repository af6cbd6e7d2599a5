"""How often each client may ask."""

import time
from collections import OrderedDict
from collections.abc import Callable


class Rates:
    """A token bucket for every name: it holds the requests of one second, at least one, and fills at the rate.

    >>> rates = Rates(per_second=2, clock=lambda: 0.0)
    >>> [rates.wait("shop") for _ in range(3)]
    [0.0, 0.0, 0.5]
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unlimited = per_second == 0
        self._refill = 0.0 if self._unlimited else 1 / per_second
        self._slack = self._refill * (max(1.0, per_second) - 1)
        # A bucket is the time when it will be full again; one that is full need not be remembered. Who passed last is last.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, name: str) -> float:
        """How many seconds a request must wait; 0 if it may pass, and only then does it count."""
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
        """How many names are remembered: at most as many as ever passed within the time that a bucket takes to fill."""
        return len(self._full_at)

    def _forget(self, now: float) -> None:
        # Two for the one that may come: the number of full buckets falls, and no request pays for many others.
        for _ in range(2):
            if self._full_at and next(iter(self._full_at.values())) <= now:
                self._full_at.popitem(last=False)
