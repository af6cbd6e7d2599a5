"""Background maintenance of the store, one task at a time: erasure of deleted users and compaction of the log."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic

from coldstream.errors import ColdstreamError, Interrupted
from coldstream.runtime.erasure.compaction import Compaction
from coldstream.runtime.erasure.erasures import Erasures
from coldstream.runtime.erasure.log_reading import LogReading
from coldstream.runtime.learner import Learner
from coldstream.runtime.snapshots import RETRY_AFTER

log = logging.getLogger(__name__)


class Upkeep:
    """The scheduler of erasure and compaction. The next process resumes what an interrupted one leaves undone."""

    def __init__(
        self,
        erasures: Erasures,
        compaction: Compaction,
        reading: LogReading,
        wait: float,
        release: Callable[[], Awaitable[object]],
    ) -> None:
        self._erasures, self._compaction, self._reading = erasures, compaction, reading
        self._wait, self._release = wait, release
        self._not_before = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin_if_due(self, learner: Learner) -> None:
        """Begin the maintenance that is due in the background, unless some is running already."""
        if self._task is None and monotonic() >= self._not_before and (self._erasure_is_due() or self._compaction.is_due):
            self._task = asyncio.create_task(self._run(learner))

    async def end(self) -> None:
        """Wait until no maintenance is running."""
        if self._task is not None:
            await self._task

    async def _run(self, learner: Learner) -> None:
        try:
            if self._erasure_is_due():
                await self._erasures.erase(learner, self._reading, self._release)
            # No lines are deleted while an erasure is pending, so that no claims are kept of users who are to be erased.
            if self._compaction.is_due and not self._erasures.pending:
                await self._compaction.compact(learner, self._reading)
        except Interrupted:
            pass
        except ColdstreamError as error:
            log.warning("work in the background was not finished; it is tried again", extra={"reason": str(error)})
            self._not_before = monotonic() + RETRY_AFTER
        except Exception as error:  # requests must not suffer from it; metrics show what is left undone
            log.error("work in the background failed; it is tried again", exc_info=error)
            self._not_before = monotonic() + RETRY_AFTER
        finally:
            self._task = None

    def _erasure_is_due(self) -> bool:
        return bool(self._erasures.pending) and self._erasures.oldest_seconds >= self._wait
