"""Standardization of columns by their running means and standard deviations."""

from typing import NamedTuple

import numpy as np

from coldstream.support.arrays import Doubles

MOST_DEVIATIONS = 10.0
"""Largest scaled value, in standard deviations; larger ones are clipped."""


class RunningScale(NamedTuple):
    """Per column the number of values, their mean and the sum of their squared deviations. Immutable."""

    values: Doubles
    mean: Doubles
    squares: Doubles

    @classmethod
    def of(cls, columns: int) -> "RunningScale":
        """Return the scale of columns without values."""
        return cls(np.zeros(columns), np.zeros(columns), np.zeros(columns))

    def with_rows(self, rows: Doubles) -> "RunningScale":
        """Return the scale with more rows (n, columns); NaN counts as absent."""
        there = ~np.isnan(rows)
        new = there.sum(axis=0).astype(float)
        mean = np.divide(np.where(there, rows, 0.0).sum(axis=0), new, out=np.zeros_like(self.mean), where=new > 0)
        squares = np.where(there, (rows - mean) ** 2, 0.0).sum(axis=0)
        total = self.values + new
        share = np.divide(new, total, out=np.zeros_like(total), where=total > 0)
        off = mean - self.mean
        return RunningScale(total, self.mean + off * share, self.squares + squares + off**2 * self.values * share)

    @property
    def deviation(self) -> Doubles:
        """The standard deviations by column; 1 where all values were equal."""
        variance = np.divide(self.squares, self.values, out=np.zeros_like(self.squares), where=self.values > 0)
        # A smaller variance is the rounding error of equal values.
        return np.where(variance > (1e-12 * np.maximum(1.0, np.abs(self.mean))) ** 2, np.sqrt(variance), 1.0)

    def scaled(self, rows: Doubles) -> Doubles:
        """Return rows in standard deviations from the mean, clipped to ±`MOST_DEVIATIONS`; NaN stays NaN."""
        return np.clip((rows - self.mean) / self.deviation, -MOST_DEVIATIONS, MOST_DEVIATIONS)
