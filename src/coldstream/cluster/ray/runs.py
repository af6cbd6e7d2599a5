"""Trials on Ray: with learners that are actors, or many trials at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from coldstream.cluster.ray.learners import RayLearners
from coldstream.cluster.ray.session import ONE_THREAD, about, check_nodes, check_same, node_address
from coldstream.cluster.runs import RunWithLearners
from coldstream.evaluation.prequential import unwatched
from coldstream.evaluation.runs import Job, stream_of
from coldstream.evaluation.workload import Workload, hand_over, loaded
from coldstream.snapshots.increments import State

LOOK_EVERY = 1.0
"""Seconds."""

RETRIES = 2
"""How often a trial is begun again whose process or machine was lost. It leads to the same result."""

Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class RunOnRay(RunWithLearners):
    """Runs a trial with learners that are actors."""

    ray: ModuleType | None = None

    def begin(self, state: State) -> RayLearners:
        """Learners that know a state."""
        assert self.ray is not None
        return RayLearners(self.ray, state, self.learners)


def spread_over(ray: ModuleType) -> Callable[..., list[Any]]:
    """Runs jobs as tasks of a cluster. Workloads are sent along: nodes need none of the files."""

    def spread(
        one: Callable[[Job, Callable[[int], None]], Outcome],
        killed: Callable[[str], Outcome],
        jobs: Sequence[Job],
        advance: Callable[[int, int], None],
    ) -> list[Outcome]:
        sent = {job.source: ray.put(loaded(job.source)) for job in jobs}
        task = ray.remote(num_cpus=1, max_retries=RETRIES, runtime_env={"env_vars": ONE_THREAD})(_run)
        asked = {task.remote(one, job, sent[job.source]): number for number, job in enumerate(jobs)}
        waiting, found = list(asked), dict[int, Outcome]()
        while waiting:
            done, waiting = ray.wait(waiting, timeout=LOOK_EVERY)
            for ref in done:
                number = asked[ref]
                found[number] = _got(ray, ref, killed)
                advance(number, len(stream_of(jobs[number], loaded(jobs[number].source)).events))
        return [found[number] for number in range(len(jobs))]

    return spread


def _got(ray: ModuleType, ref: Any, killed: Callable[[str], Outcome]) -> Outcome:
    try:
        outcome, there, node = ray.get(ref, timeout=LOOK_EVERY)
    except ray.exceptions.RayTaskError as error:
        cause = error.as_instanceof_cause()
        if isinstance(cause, ImportError | AttributeError | RuntimeError):  # as where a node has another release
            check_nodes(ray)
        raise cause from error
    except ray.exceptions.RayError as error:
        return killed(f"a trial was lost {1 + RETRIES} times on the cluster ({' '.join(str(error).split())[:200]})")
    check_same(node, there)
    result: Outcome = outcome
    return result


def _run(
    one: Callable[[Job, Callable[[int], None]], Outcome], job: Job, workload: Workload
) -> tuple[Outcome, dict[str, Any], str]:
    import ray

    hand_over(job.source, workload)
    return one(job, unwatched), about(), node_address(ray)
