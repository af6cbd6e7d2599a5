"""The running means and deviations of columns."""

from typing import NamedTuple

import numpy as np

from coldstream.support.arrays import Doubles

MOST_DEVIATIONS = 10.0
"""What lies farther from the mean counts as so many deviations."""


class RunningScale(NamedTuple):
    """Of every column how many values there were, their mean and their summed squared deviations. Never changed in place."""

    values: Doubles
    mean: Doubles
    squares: Doubles

    @classmethod
    def of(cls, columns: int) -> "RunningScale":
        """Of columns that nothing is known of."""
        return cls(np.zeros(columns), np.zeros(columns), np.zeros(columns))

    def with_rows(self, rows: Doubles) -> "RunningScale":
        """The scale that knows more rows (n, columns); what is NaN is not there."""
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
        """The standard deviations; 1 where all values were the same."""
        variance = np.divide(self.squares, self.values, out=np.zeros_like(self.squares), where=self.values > 0)
        # Below this, it is what rounding leaves of equal values.
        return np.where(variance > (1e-12 * np.maximum(1.0, np.abs(self.mean))) ** 2, np.sqrt(variance), 1.0)

    def scaled(self, rows: Doubles) -> Doubles:
        """Rows in deviations from the mean."""
        return np.clip((rows - self.mean) / self.deviation, -MOST_DEVIATIONS, MOST_DEVIATIONS)
