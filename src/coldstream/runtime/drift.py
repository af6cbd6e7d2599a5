"""Drift detection: the Page–Hinkley test on the percentile ranks of chosen items.

The test sums by how much each percentile rank exceeds the mean so far, less an allowed slack. When the sum has risen by more
than a threshold above its minimum, ranks have become significantly worse, and the test raises an alarm.
"""

from typing import Any

ALLOWED, ALARM = 5.0, 500.0
"""The slack by which a rank may exceed the mean, and the rise of the sum that raises an alarm; both in percentile points."""

ENOUGH = 300
"""The number of ranks required before the first alarm, because ranks are unstable while everything is new."""


class PageHinkley:
    """The Page–Hinkley test of percentile ranks, which raises an alarm when they become worse and then resets itself."""

    def __init__(self) -> None:
        self._ranks, self._mean, self._sum, self._lowest = 0, 0.0, 0.0, 0.0

    def update(self, percentile: float) -> bool:
        """Add a percentile rank, and return whether it raises an alarm."""
        self._ranks += 1
        self._mean += (percentile - self._mean) / self._ranks
        self._sum += percentile - self._mean - ALLOWED
        self._lowest = min(self._lowest, self._sum)
        if self._ranks < ENOUGH or self._sum - self._lowest <= ALARM:
            return False
        self._ranks, self._mean, self._sum, self._lowest = 0, 0.0, 0.0, 0.0
        return True

    def state(self) -> list[Any]:
        """Return the state of the test, for `from_state`."""
        return [self._ranks, self._mean, self._sum, self._lowest]

    @classmethod
    def from_state(cls, state: list[Any]) -> "PageHinkley":
        """Restore a test from what `state` returned."""
        drift = cls()
        drift._ranks, drift._mean, drift._sum, drift._lowest = state
        return drift
