"""Trials with several learners."""

from collections.abc import Callable
from dataclasses import dataclass

from coldstream.cluster.learners import Learners, LocalLearners
from coldstream.cluster.trial import run_trial
from coldstream.errors import InvalidInput, shown
from coldstream.evaluation.methods import parse_method
from coldstream.evaluation.model import Model
from coldstream.evaluation.prequential import Trial
from coldstream.evaluation.runs import Job, run, stream_of
from coldstream.evaluation.workload import loaded
from coldstream.features.schema import SIDES
from coldstream.recommender import Recommender
from coldstream.runtime.limits import WriterLimits
from coldstream.snapshots.increments import State

MERGE_EVERY = WriterLimits().merge_events
"""Default number of events between merges."""


@dataclass(frozen=True)
class RunWithLearners:
    """A runner of trials that uses several learners for methods that learn, and runs other methods as usual."""

    learners: int
    merge_every: int = MERGE_EVERY

    def __call__(self, job: Job, advance: Callable[[int], None]) -> Trial:
        workload = loaded(job.source)
        method = parse_method(job.method).build(workload, job.seed)
        if not isinstance(method, Model) or not method.learns:
            return run(job, advance)
        if self.learners > 1:
            _refuse_bounds(method.recommender)
        return run_trial(method, stream_of(job, workload), job.top, self.begin, self.merge_every, advance)

    def begin(self, state: State) -> Learners:
        """Start learners from a state; here, in this process."""
        return LocalLearners(state, self.learners)


def _refuse_bounds(recommender: Recommender) -> None:
    """Raise `InvalidInput` for bounds that evict: in a trial no process knows the whole state to tell the learners."""
    bounds, fields = recommender.bounds, [(side, one) for side in SIDES for one in getattr(recommender.schema, side)]
    given = {name: getattr(bounds, name) for name in ("memory", "items", "users", "expire_users")}
    given |= {
        f"{name} of {side}.{one.name}": getattr(one, name, None) for side, one in fields for name in ("most", "expire")
    }
    for name, value in given.items():
        if value is not None:
            message = f"{name} must not be bounded in a trial with several learners, got {shown(value)}"
            raise InvalidInput(f"{message}; leave the bound out, or try it with one")
