"""Noticing that taste has changed: the Page–Hinkley test on how far down the chosen items were ranked.

Percentile ranks are compared with their mean so far. What they exceed it by, less a little that is allowed, is added up;
when the sum has risen far above its lowest, ranks have been worse for a while than they used to be, and that is no accident.
"""

from typing import Any

ALLOWED, ALARM = 5.0, 500.0
"""Percentile points by which a rank may exceed the mean, and how many of them in excess, added up, are an alarm."""

ENOUGH = 300
"""Ranks before the first alarm: in the beginning everything is new."""


class PageHinkley:
    """The Page–Hinkley test of percentile ranks: says when they have become worse. After an alarm it begins anew."""

    def __init__(self) -> None:
        self._ranks, self._mean, self._sum, self._lowest = 0, 0.0, 0.0, 0.0

    def update(self, percentile: float) -> bool:
        """One more rank; whether it raises the alarm."""
        self._ranks += 1
        self._mean += (percentile - self._mean) / self._ranks
        self._sum += percentile - self._mean - ALLOWED
        self._lowest = min(self._lowest, self._sum)
        if self._ranks < ENOUGH or self._sum - self._lowest <= ALARM:
            return False
        self._ranks, self._mean, self._sum, self._lowest = 0, 0.0, 0.0, 0.0
        return True

    def state(self) -> list[Any]:
        """All it remembers."""
        return [self._ranks, self._mean, self._sum, self._lowest]

    @classmethod
    def from_state(cls, state: list[Any]) -> "PageHinkley":
        """The inverse of `state`."""
        drift = cls()
        drift._ranks, drift._mean, drift._sum, drift._lowest = state
        return drift
