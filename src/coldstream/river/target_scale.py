"""Standardization of a target by its running mean and standard deviation."""

import math
from typing import Any, NamedTuple

from coldstream.errors import InvalidInput, shown
from coldstream.support.arrays import plain

MOST_DEVIATIONS = 10.0
"""Largest scaled target, in standard deviations; larger ones are clipped, so that one outlier does not undo learning."""


class TargetScale(NamedTuple):
    """The running mean and deviation of targets, which convert targets to the scale of a machine and back. Immutable."""

    targets: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of the squared deviations from the mean."""

    @property
    def deviation(self) -> float:
        """The standard deviation of the targets; 1 if all targets were equal."""
        return math.sqrt(self.squares / self.targets) if self.squares > 0 else 1.0

    def with_target(self, y: Any) -> "TargetScale":
        """Return the scale with one more target; raise `InvalidInput` unless it is a number below 1e150 in magnitude."""
        number = plain(y)
        if not isinstance(number, int | float) or not abs(number) < 1e150:
            raise InvalidInput(f"y must be a finite number, got {shown(y)}")
        count, off = self.targets + 1, number - self.mean
        mean = self.mean + off / count
        return TargetScale(count, mean, self.squares + off * (number - mean))

    def scaled(self, y: float) -> float:
        """Return a target in standard deviations from the mean, clipped to ±`MOST_DEVIATIONS`."""
        return min(max((y - self.mean) / self.deviation, -MOST_DEVIATIONS), MOST_DEVIATIONS)

    def target(self, scaled: float) -> float:
        """Convert a scaled target back, the inverse of `scaled`."""
        return self.mean + self.deviation * scaled
