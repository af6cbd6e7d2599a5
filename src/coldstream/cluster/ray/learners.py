"""Learners as Ray actors.

The driver has the log, and is the only one who writes to it; actors have what they learned, and nothing else. Whoever is
lost is not restarted alone: all begin again from what was known at a merge, and are handed the lines behind it. So an actor
that was cut off can do no harm, and no call is ever repeated.
"""

import logging
import os
from collections.abc import Callable, Sequence
from time import monotonic
from types import ModuleType
from typing import Any

from coldstream.cluster.exchange import Changes
from coldstream.cluster.lines import Lines
from coldstream.cluster.partition import Partition, Preceding, Tested
from coldstream.cluster.ray.session import ONE_THREAD, about, check_nodes, check_same, node_address
from coldstream.errors import Interrupted
from coldstream.runtime.team import LearnersLost
from coldstream.snapshots.increments import State

log = logging.getLogger(__name__)

LONGEST_START = 300.0
"""Seconds that learners get to begin: the first on a machine compile."""

LONGEST_STEP = 120.0
"""Seconds that they get for what was asked of them."""


class Actor:
    """A partition in a process of its own."""

    def __init__(self, state: State, learner: int, learners: int) -> None:
        self._partition = Partition(state, learner, learners)

    def about(self) -> dict[str, Any]:
        """Where it is, and which release it runs."""
        import ray

        return {**about(), "pid": os.getpid(), "node": node_address(ray)}

    def take(self, number: int, lines: Lines) -> Preceding:
        """Take a batch."""
        return self._partition.take(number, lines)

    def learn(self, upto: int, *preceding: Preceding) -> int:
        """Learn it as far as a line; how many events it has learned."""
        self._partition.learn(upto, preceding)
        return self._partition.learned

    def test(self, upto: int, top: int, *preceding: Preceding) -> Tested:
        """Rank and learn it as far as a line."""
        return self._partition.test(upto, preceding, top)

    def changes(self) -> Changes:
        """What it has changed since the last merge."""
        return self._partition.changes()

    def own_changes(self) -> Changes:
        """The same of its users' ids."""
        return self._partition.own_changes()

    def merge(self, *changes: Changes) -> int:
        """Take up what all have changed."""
        return self._partition.merge(changes)

    def merged(self, *changes: Changes) -> Changes:
        """What a merge has led to."""
        return self._partition.exchange.merged(changes)

    def state(self) -> State:
        """Everything it knows."""
        return self._partition.recommender.state()


class RayLearners:
    """So many actors, spread over the nodes of a cluster."""

    def __init__(self, ray: ModuleType, state: State, count: int) -> None:
        self.count = count
        self._ray, self._number, self._last = ray, 0, list[Any]()
        self._preceding: list[Any] = []
        remote = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Actor)
        options = {"scheduling_strategy": "SPREAD", "runtime_env": {"env_vars": ONE_THREAD}}
        known = ray.put(state)
        self.actors = [remote.options(**options).remote(known, number, count) for number in range(count)]
        started = monotonic()
        try:
            told = self._got([actor.about.remote() for actor in self.actors], LONGEST_START)
            for one in told:
                check_same(one["node"], one)
        except BaseException as error:
            self.close()
            if _could_not_begin(error):  # as where a node has another release
                check_nodes(ray)
            raise
        self.places = [(one["node"], one["pid"]) for one in told]
        """Where each is: the address of its node, and its process there."""
        where = [f"{node} {pid}" for node, pid in self.places]
        log.info("learners began", extra={"learners": count, "seconds": round(monotonic() - started, 3), "where": where})

    def take(self, lines: Lines) -> None:
        self._number += 1
        batch = self._ray.put(lines)
        self._preceding = [actor.take.remote(self._number, batch) for actor in self.actors]

    def learn(self, upto: int) -> None:
        self._last = [actor.learn.remote(upto, *self._preceding) for actor in self.actors]

    def test(self, upto: int, top: int) -> Callable[[], Sequence[Tested]]:
        tested = [actor.test.remote(upto, top, *self._preceding) for actor in self.actors]
        return lambda: self._got(tested, LONGEST_STEP)

    def merge(self) -> None:
        changes = [actor.changes.remote() for actor in self.actors]
        self._last = [actor.merge.remote(*changes) for actor in self.actors]

    def merge_for_front(self) -> Callable[[], Sequence[Changes]]:
        own = [actor.own_changes.remote() for actor in self.actors]
        changes = [actor.changes.remote() for actor in self.actors]
        self._last = [actor.merge.remote(*changes) for actor in self.actors]
        merged = self.actors[0].merged.remote(*changes)
        return lambda: self._got([merged, *own, *self._last], LONGEST_STEP)[: 1 + self.count]

    def wait(self) -> None:
        """Wait until what was asked for last is done."""
        self._got(self._last, LONGEST_STEP)

    def states(self) -> Sequence[State]:
        states: Sequence[State] = self._got([actor.state.remote() for actor in self.actors], LONGEST_STEP)
        return states

    def close(self) -> None:
        for actor in self.actors:
            self._ray.kill(actor)

    def _got(self, asked: Sequence[Any], seconds: float) -> Any:
        """Answers, or `LearnersLost` where they do not come."""
        if not asked:
            return []
        errors = self._ray.exceptions
        try:
            return self._ray.get(list(asked), timeout=seconds)
        except errors.RayTaskError as error:
            cause = error.as_instanceof_cause()
            if isinstance(cause, errors.RayError | Interrupted):  # it had asked another, who was lost
                raise LearnersLost(_worded(cause)) from error
            raise cause from error
        except errors.GetTimeoutError as error:
            raise LearnersLost(f"learners did not answer within {seconds:g} s") from error
        except errors.RayError as error:
            raise LearnersLost(_worded(error)) from error


def _could_not_begin(error: BaseException) -> bool:
    """Whether learners failed by themselves, and were not lost with a process or a machine."""
    return "creation task" in str(error) if isinstance(error, LearnersLost) else isinstance(error, Exception)


def _worded(error: BaseException) -> str:
    return f"a learner was lost ({' '.join(str(error).split())[:200]})"
