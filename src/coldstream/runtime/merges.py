"""The schedule on which parallel learners merge, and the replacement of learners that were lost."""

import asyncio
import logging
from time import monotonic

from coldstream.errors import StoreUnavailable
from coldstream.runtime.learner import Learner
from coldstream.runtime.limits import WriterLimits
from coldstream.runtime.recovery import recovered_again
from coldstream.runtime.snapshots import InStore
from coldstream.runtime.team import LearnersLost
from coldstream.storage.view import View

log = logging.getLogger(__name__)

AGAIN_AFTER = 1.0
"""Seconds between two attempts to start new learners."""


class Merges:
    """The schedule of merges: holds the time of the last one."""

    def __init__(self, limits: WriterLimits) -> None:
        self._limits, self._last = limits, monotonic()

    def note(self) -> None:
        """Note that a merge happened now."""
        self._last = monotonic()

    def are_due(self, learner: Learner) -> bool:
        """Return whether learners should merge now.

        They should where there are unmerged events and `merge_events` or `merge_seconds` is reached, or a caller waits.
        """
        if not learner.unmerged:
            return False
        late = monotonic() - self._last >= self._limits.merge_seconds
        return late or learner.unmerged >= self._limits.merge_events or learner.is_waited_for


async def hired_again(before: Learner, store: View, in_store: InStore) -> Learner:
    """Replace a learner whose team was lost: recover from the newest snapshot with a new team, and return the new learner.

    It abandons the learner `before`, and tries again every `AGAIN_AFTER` seconds until it succeeds.
    """
    started = monotonic()
    before.abandon()
    while True:
        try:
            learner = await in_store(lambda: recovered_again(store, before))
            break
        except (LearnersLost, StoreUnavailable) as error:
            log.warning("there is nobody to learn; it is tried again", extra={"reason": str(error)})
            await asyncio.sleep(AGAIN_AFTER)
    learner.curves, learner.evaluation = before.curves, before.evaluation
    log.info("others learn", extra={"position": learner.position, "seconds": round(monotonic() - started, 3)})
    return learner
