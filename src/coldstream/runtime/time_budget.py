"""A budget of time for something beside the work: a share of every second, and no more than a little saved up."""

from time import perf_counter

MOST_SAVED = 0.05


class TimeBudget:
    """Seconds earned as a share of the time that passes, and spent by what is measured."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._saved = MOST_SAVED
        self._since = perf_counter()

    def left(self) -> bool:
        """Whether there is anything to spend."""
        now = perf_counter()
        self._saved = min(self._saved + self._share * (now - self._since), MOST_SAVED)
        self._since = now
        return self._saved > 0

    def spend(self, seconds: float) -> None:
        """So much was spent, perhaps more than there was: the next then waits longer."""
        self._saved -= seconds
