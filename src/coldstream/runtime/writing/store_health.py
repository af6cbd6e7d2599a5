"""Whether the store does what it is asked for. That it can be read says little: from a full disk all can be read."""

from collections.abc import Callable
from time import monotonic

from coldstream.runtime.snapshots import RETRY_AFTER

QUIET = 2 * RETRY_AFTER
"""Seconds without a failure of what is done in the background: longer than between two tries."""


class StoreHealth:
    """After a failure the store is said to work only when something was written again."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self.owes_proof = False
        """Whether something failed since something was written."""
        self._now, self._quiet_from = now, 0.0
        self._ails = False

    @property
    def works(self) -> bool:
        """Whether what was asked last was done, and in the background everything lately."""
        return not self.owes_proof and self._now() >= self._quiet_from

    def failed(self) -> None:
        """Something was not done."""
        self.owes_proof = self._ails = True

    def failed_in_background(self) -> None:
        """Something was not done that is tried again before long, whatever else is written meanwhile."""
        self.failed()
        self._quiet_from = self._now() + QUIET

    def wrote(self) -> None:
        """Something was written."""
        self.owes_proof = False

    def recovered(self) -> bool:
        """Whether it works again; it is told once."""
        again = self._ails and self.works
        self._ails = self._ails and not again
        return again
