"""Running of many trials, in parallel processes or one after the other."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from ctypes import c_int64
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from coldstream.errors import ColdstreamError, Interrupted
from coldstream.evaluation.methods import parse_method
from coldstream.evaluation.prequential import Trial, run_trial, untested
from coldstream.evaluation.workload import Source, Workload, loaded
from coldstream.events.stream import Stream

# Each trial has a core of its own, so threads of a matrix library would only take cores from other trials.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_SECONDS_BETWEEN_LOOKS = 0.1
_KILLED = "a process that ran trials was killed; free some memory, or use fewer processes (--jobs 1)"


Counters: TypeAlias = Any
"""Numbers of events done, by index of the job, in memory that all processes share."""


class Job(NamedTuple):
    """One trial to run."""

    source: Source
    method: str
    seed: int
    top: int
    untested: bool = False
    """True to give the trial only the part of the stream that an evaluation does not test, as tuning does."""
    target: str | None = None
    """Kind of the events to test; None for the kinds that the schema marks as targets."""


Outcome = TypeVar("Outcome")
Made = TypeVar("Made", covariant=True)


class _One(Protocol[Made]):
    """Type of `run` and `attempt`."""

    def __call__(self, job: Job, advance: Callable[[int], None], /) -> Made: ...


Run: TypeAlias = "Callable[[Job, Callable[[int], None]], Trial]"
"""Type of a function that runs one trial and reports the number of events done to its second argument."""


class Spread(Protocol):
    """Type of a function that runs jobs on other machines, as `_run_spread` does in other processes."""

    def __call__(
        self,
        one: "_One[Outcome]",
        killed: Callable[[str], Outcome],
        jobs: Sequence[Job],
        advance: Callable[[int, int], None],
        /,
    ) -> list[Outcome]:
        """Return the outcome of each job; that of a job which did not finish is `killed` of the reason."""


def run(job: Job, advance: Callable[[int], None]) -> Trial:
    """Run one trial in this process."""
    workload = loaded(job.source)
    method = parse_method(job.method).build(workload, job.seed)
    return run_trial(method, stream_of(job, workload), job.top, advance, targets_of(job, workload))


def targets_of(job: Job, workload: Workload) -> frozenset[str | None] | None:
    """Return the kinds of events that a job tests; None, which means all, if the schema has no kinds."""
    if job.target is not None:
        return frozenset({job.target})
    kinds = workload.schema.feedback
    return frozenset({None, *(kind.name for kind in kinds if kind.is_target)}) if kinds else None


def stream_of(job: Job, workload: Workload) -> Stream:
    """Return the part of a workload's stream that a job may read."""
    return untested(workload.stream) if job.untested else workload.stream


class Failure(NamedTuple):
    """The outcome of a job that failed: the reason."""

    reason: str


def attempt(job: Job, advance: Callable[[int], None], run: Run = run) -> Trial | Failure:
    """Run one trial in this process; return a `Failure` instead of raising an error."""
    try:
        return run(job, advance)
    except ColdstreamError as error:
        failure = Failure(str(error))
    except Exception as error:  # A bug in one method, or too little memory for it, must not discard the other trials.
        failure = Failure(f"{type(error).__name__}: {error}")
    advance(len(stream_of(job, loaded(job.source)).events))  # Nothing of the job is left to do.
    return failure


def check(jobs: Sequence[Job]) -> None:
    """Raise `InvalidInput` if a job's method does not have its options or cannot take as many items as the stream has."""
    for job in {(job.source, job.method): job for job in jobs}.values():
        workload = loaded(job.source)
        spec = parse_method(job.method)
        spec.build(workload, job.seed)
        spec.check_items(len({event.item for event in stream_of(job, workload).events}))


def run_all(
    jobs: Sequence[Job],
    processes: int,
    advance: Callable[[int, int], None],
    run: Run = run,
    spread: Spread | None = None,
) -> list[Trial]:
    """Run all jobs in the given number of processes; the first error ends the run and is raised.

    `advance` is called with the index of a job among the distinct ones and its number of events done. A method that does
    not depend on the seed runs once, and its trial counts for all seeds. `run` replaces the function that runs one trial,
    and `spread` the one that distributes jobs, for example over other machines.
    """
    return _all(run, _raise, jobs, processes, advance, spread)


def attempt_all(
    jobs: Sequence[Job],
    processes: int,
    advance: Callable[[int, int], None],
    run: Run = run,
    spread: Spread | None = None,
) -> list[Trial | Failure]:
    """Run all jobs as `run_all` does, but go on after errors: a job that failed has a `Failure` instead of a trial."""
    return _all(partial(attempt, run=run), Failure, jobs, processes, advance, spread)


def _all(
    one: _One[Outcome],
    killed: Callable[[str], Outcome],
    jobs: Sequence[Job],
    processes: int,
    advance: Callable[[int, int], None],
    spread: Spread | None,
) -> list[Outcome]:
    different = distinct(jobs)
    if spread is not None:
        found = spread(one, killed, different, advance)
    elif processes > 1 and len(different) > 1:
        found = _run_spread(one, killed, different, processes, advance)
    else:
        found = [one(job, partial(advance, number)) for number, job in enumerate(different)]
    outcomes = dict(zip(different, found, strict=True))
    return [outcomes[_unseeded(job)] for job in jobs]


def _raise(reason: str) -> Trial:
    raise Interrupted(reason)


def distinct(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs without duplicates; jobs that differ only in a seed that has no effect are one."""
    return list(dict.fromkeys(map(_unseeded, jobs)))


def _unseeded(job: Job) -> Job:
    return job if parse_method(job.method).seeded else job._replace(seed=0)


def _run_spread(
    one: _One[Outcome],
    killed: Callable[[str], Outcome],
    jobs: Sequence[Job],
    processes: int,
    advance: Callable[[int, int], None],
) -> list[Outcome]:
    context = multiprocessing.get_context("spawn")  # A fork would be unsafe, because the libraries have started threads.
    done = context.Array(c_int64, len(jobs))
    os.environ.update({name: number for name, number in _ONE_THREAD.items() if name not in os.environ})
    pool = ProcessPoolExecutor(min(processes, len(jobs)), context, _begin, (done,))
    try:
        with _uninterrupted():  # A process inherits the signal mask of the one that starts it.
            futures = [pool.submit(_run_watched, one, number, job) for number, job in enumerate(jobs)]
        _watch(futures, done, advance)
        return [killed(_KILLED) if _was_killed(future) else future.result() for future in futures]
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _watch(futures: Sequence[Future[Any]], done: Counters, advance: Callable[[int, int], None]) -> None:
    """Report the progress of the jobs until all are done; raise the error of the first that fails."""
    waiting = set(futures)
    while waiting:
        finished, waiting = wait(waiting, _SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
        for future in finished:
            if not _was_killed(future):
                future.result()
        for number, events in enumerate(done):
            advance(number, events)


def _was_killed(future: Future[Any]) -> bool:
    """Return whether a killed process broke the pool, in which case no running job finishes."""
    return isinstance(future.exception(), BrokenProcessPool)


_done: Counters | None = None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Defer Ctrl-C until the block ends: a new process interrupted before it is ready would print a traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(done: Counters) -> None:
    global _done
    _done = done
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles interruptions.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent ends: a killed parent sends no message, and the worker would wait on its queue for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_watched(one: _One[Outcome], number: int, job: Job) -> Outcome:
    def advance(events: int) -> None:
        if _done is not None:
            _done[number] = events

    return one(job, advance)
