"""A budget of time for something beside the work: a share of what the work leaves of every second."""

from time import perf_counter, process_time

MOST_SAVED = 0.05
"""Seconds that can be saved up."""

ALWAYS = 0.02
"""The share of all time that is earned however busy the process is, so that nothing ever stops for good."""


class TimeBudget:
    """Seconds earned as a share of the time in which the process had nothing to do, and spent by what is measured.

    A share of 1 or more is never used up.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._saved = MOST_SAVED
        self._since, self._worked = perf_counter(), process_time()

    def left(self) -> bool:
        """Whether there is anything to spend."""
        now, worked = perf_counter(), process_time()
        passed = now - self._since
        idle = max(passed - (worked - self._worked), 0.0)
        self._saved = min(self._saved + max(self._share * idle, min(self._share, ALWAYS) * passed), MOST_SAVED)
        self._since, self._worked = now, worked
        return self._share >= 1.0 or self._saved > 0

    def spend(self, seconds: float) -> None:
        """So much was spent, perhaps more than there was: the next then waits longer."""
        self._saved -= seconds
