"""When learners merge, and how others take the place of those who are lost."""

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
"""Seconds before it is tried again to find others who learn."""


class Merges:
    """Knows when the last merge was."""

    def __init__(self, limits: WriterLimits) -> None:
        self._limits, self._last = limits, monotonic()

    def note(self) -> None:
        """There was one."""
        self._last = monotonic()

    def are_due(self, learner: Learner) -> bool:
        """Whether learners should merge: after so many events, after so long, or where somebody waits for it."""
        if not learner.unmerged:
            return False
        late = monotonic() - self._last >= self._limits.merge_seconds
        return late or learner.unmerged >= self._limits.merge_events or learner.is_waited_for


async def hired_again(before: Learner, store: View, in_store: InStore) -> Learner:
    """A learner with others who learn, and what the log leads to with them, from the newest snapshot on."""
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
