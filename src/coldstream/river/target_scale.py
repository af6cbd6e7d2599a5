"""The running mean and deviation of a target."""

import math
from typing import Any, NamedTuple

from coldstream.errors import InvalidInput, shown
from coldstream.support.arrays import plain

MOST_DEVIATIONS = 10.0
"""A target that lies farther from the mean counts as so many deviations: one outlier does not undo what was learned."""


class TargetScale(NamedTuple):
    """What a machine learns and predicts in: deviations from the mean of the targets so far. Never changed in place."""

    targets: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Of all deviations from the mean, summed."""

    @property
    def deviation(self) -> float:
        """The standard deviation; 1 where all targets were the same."""
        return math.sqrt(self.squares / self.targets) if self.squares > 0 else 1.0

    def with_target(self, y: Any) -> "TargetScale":
        """The scale that knows one target more."""
        number = plain(y)
        if not isinstance(number, int | float) or not abs(number) < 1e150:
            raise InvalidInput(f"y must be a finite number, got {shown(y)}")
        count, off = self.targets + 1, number - self.mean
        mean = self.mean + off / count
        return TargetScale(count, mean, self.squares + off * (number - mean))

    def scaled(self, y: float) -> float:
        """A target in deviations from the mean."""
        return min(max((y - self.mean) / self.deviation, -MOST_DEVIATIONS), MOST_DEVIATIONS)

    def target(self, scaled: float) -> float:
        """The inverse of `scaled`."""
        return self.mean + self.deviation * scaled
