"""Shards of the catalogue as Ray actors.

They hold what a scan reads of their items, and nothing else: one that is lost takes nothing with it that is not known in
front. Whoever is lost is not restarted alone: all begin again without items, and are told of all of them.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from types import ModuleType
from typing import Any

import numpy as np

from coldstream.engines.ray.session import ONE_THREAD, EngineUnavailable, about, check_same, node_address
from coldstream.scoring.questions import Part, Question
from coldstream.scoring.scan import Standing
from coldstream.scoring.shard import Best, Shard, ShardShape, ShardsLost, Update, warm_up

log = logging.getLogger(__name__)

LONGEST_START = 300.0
"""Seconds that shards get to begin: the first on a machine compile."""

LONGEST_ANSWER = 10.0
"""Seconds that they get for an answer: everybody waits meanwhile."""

LARGE = 65_536
"""Bytes of a question that is put into the cluster's memory once, and not sent to every shard."""


class Actor:
    """A shard in a process of its own."""

    def __init__(self, number: int, count: int, shape: ShardShape) -> None:
        self._shape = writeable(shape)
        self._shard = Shard(number, count, self._shape)

    def about(self) -> dict[str, Any]:
        """Where it is, and which release it runs; what it will need is compiled by then."""
        import ray

        warm_up(self._shape)
        return {**about(), "pid": os.getpid(), "node": node_address(ray)}

    def update(self, number: int, update: Update) -> int:
        """Take up what has changed."""
        return self._shard.update(number, update)

    def best(self, known: int, question: Question, part: Part) -> Best:
        """Its best items for every request."""
        return self._shard.best(known, writeable(question), writeable(part))

    def standing(self, known: int, question: Question, part: Part, score: float, slot: int) -> Standing:
        """Where a score stands among its items."""
        return self._shard.standing(known, writeable(question), writeable(part), score, slot)

    def score(self, known: int, question: Question, part: Part, slot: int) -> float:
        """The score of one of its items."""
        return self._shard.score(known, writeable(question), writeable(part), slot)


def writeable(value: Any) -> Any:
    """The same with arrays of its own: kernels know no arrays that are read-only, as those in the cluster's memory are."""
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy()
    return value._make(map(writeable, value)) if hasattr(value, "_make") else value


class RayShards:
    """So many actors, spread over the nodes of a cluster. They begin in the background."""

    def __init__(self, ray: ModuleType, count: int, shape: ShardShape) -> None:
        self.count = count
        self._ray, self._started = ray, monotonic()
        self._taking: list[Any] = []  # of updates that are on their way, one for each shard
        self.places: list[tuple[str, int]] = []
        """Where each is, once it has begun: the address of its node, and its process there."""
        self.actors: list[Any] = []
        with self._reached():
            remote = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Actor)
            options = {"scheduling_strategy": "SPREAD", "runtime_env": {"env_vars": ONE_THREAD}}
            for number in range(count):
                self.actors.append(remote.options(**options).remote(number, count, shape))
            self._beginning = [actor.about.remote() for actor in self.actors]

    def update(self, number: int, updates: Sequence[Update]) -> None:
        with self._reached():
            told = zip(self.actors, updates, strict=True)
            self._taking += [actor.update.remote(number, update) for actor, update in told]

    def behind(self) -> int | None:
        with self._reached():
            if self._beginning and not self._have_begun():
                return None
            if self._taking:
                _, self._taking = self._ray.wait(self._taking, num_returns=len(self._taking), timeout=0)
        return -(-len(self._taking) // self.count)

    def best(self, known: int, question: Question, parts: Sequence[Part]) -> Sequence[Best]:
        with self._reached():
            sent, asked = self._sent(question), zip(self.actors, parts, strict=True)
            best: Sequence[Best] = self._got([actor.best.remote(known, sent, part) for actor, part in asked])
        return best

    def standing(self, known: int, question: Question, parts: Sequence[Part], score: float, slot: int) -> Sequence[Standing]:
        with self._reached():
            sent, asked = self._sent(question), zip(self.actors, parts, strict=True)
            answers = [actor.standing.remote(known, sent, part, score, slot) for actor, part in asked]
            standing: Sequence[Standing] = self._got(answers)
        return standing

    def score(self, known: int, question: Question, part: Part, slot: int) -> float:
        with self._reached():
            actor = self.actors[slot % self.count]
            return float(self._got([actor.score.remote(known, question, part, slot)])[0])

    def close(self) -> None:
        with suppress(Exception):  # where the cluster is gone, so are they
            for actor in self.actors:
                self._ray.kill(actor)

    def _have_begun(self) -> bool:
        done, _ = self._ray.wait(self._beginning, num_returns=self.count, timeout=0)
        seconds = monotonic() - self._started
        if len(done) < self.count:
            if seconds > LONGEST_START:
                raise ShardsLost(f"shards did not begin within {LONGEST_START:g} s; each needs a core of the cluster")
            return False
        told = self._got(self._beginning)
        self._beginning = []
        for one in told:
            check_same(one["node"], one)
        self.places = [(one["node"], one["pid"]) for one in told]
        where = [f"{node} {pid}" for node, pid in self.places]
        log.info("shards began", extra={"shards": self.count, "seconds": round(seconds, 3), "where": where})
        return True

    def _sent(self, question: Question) -> Any:
        large = sum(own.nbytes for own in question.folded) > LARGE
        return self._ray.put(question) if large and self.count > 1 else question

    def _got(self, asked: Sequence[Any]) -> Any:
        return self._ray.get(list(asked), timeout=LONGEST_ANSWER)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise `ShardsLost` where the cluster, or a shard of it, cannot be reached or has failed."""
        errors = self._ray.exceptions
        try:
            yield
        except errors.GetTimeoutError as error:
            raise ShardsLost(f"shards did not answer within {LONGEST_ANSWER:g} s") from error
        except errors.RayTaskError as error:
            cause = error.as_instanceof_cause()
            raise ShardsLost(
                str(cause) if isinstance(cause, ShardsLost) else f"a shard failed ({_worded(error)})"
            ) from error
        except (errors.RayError, EngineUnavailable, ConnectionError) as error:
            raise ShardsLost(f"a shard was lost ({_worded(error)})") from error


def _worded(error: BaseException) -> str:
    return " ".join(str(error).split())[-200:]
