"""Many trials, spread over the cores."""

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

# Each trial has a core to itself; threads of a matrix library would only take it from the next.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_SECONDS_BETWEEN_LOOKS = 0.1
_KILLED = "a process that ran trials was killed; free some memory, or use fewer processes (--jobs 1)"


Counters: TypeAlias = Any
"""Events done, by the number of the job, in memory that all processes share."""


class Job(NamedTuple):
    """One trial to run."""

    source: Source
    method: str
    seed: int
    top: int
    untested: bool = False
    """Whether the trial may see only the part of the stream that an evaluation does not test: for tuning."""
    target: str | None = None
    """The kind of the events to be tested; without one, those that the schema says matter."""


Outcome = TypeVar("Outcome")
Made = TypeVar("Made", covariant=True)


class _One(Protocol[Made]):
    """`run` or `attempt`."""

    def __call__(self, job: Job, advance: Callable[[int], None], /) -> Made: ...


Run: TypeAlias = "Callable[[Job, Callable[[int], None]], Trial]"
"""Runs one trial; whoever waits hears how many events are done."""


class Spread(Protocol):
    """Runs jobs on other machines, as `_run_spread` does in other processes."""

    def __call__(
        self,
        one: "_One[Outcome]",
        killed: Callable[[str], Outcome],
        jobs: Sequence[Job],
        advance: Callable[[int, int], None],
        /,
    ) -> list[Outcome]:
        """What each has led to; `killed` makes it of the reason where it came to no end."""


def run(job: Job, advance: Callable[[int], None]) -> Trial:
    """Run one trial here."""
    workload = loaded(job.source)
    method = parse_method(job.method).build(workload, job.seed)
    return run_trial(method, stream_of(job, workload), job.top, advance, targets_of(job, workload))


def targets_of(job: Job, workload: Workload) -> frozenset[str | None] | None:
    """The kinds that are tested; None for all, where there are no kinds."""
    if job.target is not None:
        return frozenset({job.target})
    kinds = workload.schema.feedback
    return frozenset({None, *(kind.name for kind in kinds if kind.is_target)}) if kinds else None


def stream_of(job: Job, workload: Workload) -> Stream:
    """What a job may see of a workload's stream."""
    return untested(workload.stream) if job.untested else workload.stream


class Failure(NamedTuple):
    """Why there is no trial of a job."""

    reason: str


def attempt(job: Job, advance: Callable[[int], None], run: Run = run) -> Trial | Failure:
    """Run one trial here, or say why it came to no end."""
    try:
        return run(job, advance)
    except ColdstreamError as error:
        failure = Failure(str(error))
    except Exception as error:  # a bug in one method, or too little memory for it, is no reason to lose the others
        failure = Failure(f"{type(error).__name__}: {error}")
    advance(len(stream_of(job, loaded(job.source)).events))  # there is nothing left to do of it
    return failure


def check(jobs: Sequence[Job]) -> None:
    """Raise what a method would refuse at once: options that it has not, or more items than it takes."""
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
    """Run all jobs, in so many processes; `advance` hears, by the number of the distinct job, how many events are done.

    A method whose seed makes no difference runs once, and the trial counts for all its seeds. The first error ends it.
    Jobs may be spread over other machines instead, and another way to `run` one may be given.
    """
    return _all(run, _raise, jobs, processes, advance, spread)


def attempt_all(
    jobs: Sequence[Job],
    processes: int,
    advance: Callable[[int, int], None],
    run: Run = run,
    spread: Spread | None = None,
) -> list[Trial | Failure]:
    """Run all jobs as `run_all` does, to the end: what has failed stands in the place of its trial."""
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
    """The jobs that have to be run: of a method whose seed makes no difference, one."""
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
    context = multiprocessing.get_context("spawn")  # a fork would copy threads that the libraries have started
    done = context.Array(c_int64, len(jobs))
    os.environ.update({name: number for name, number in _ONE_THREAD.items() if name not in os.environ})
    pool = ProcessPoolExecutor(min(processes, len(jobs)), context, _begin, (done,))
    try:
        with _uninterrupted():  # a process is born with the mask of the one that starts it
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
    """Pass on how far the jobs are until all are done, or one has failed."""
    waiting = set(futures)
    while waiting:
        finished, waiting = wait(waiting, _SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
        for future in finished:
            if not _was_killed(future):
                future.result()
        for number, events in enumerate(done):
            advance(number, events)


def _was_killed(future: Future[Any]) -> bool:
    """Whether the process of a job, or of one beside it, was killed: then none that was running comes to an end."""
    return isinstance(future.exception(), BrokenProcessPool)


_done: Counters | None = None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the block ends: a new process that hears it before it is ready would only complain."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that was killed sends no word, and its queue would be waited at for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_watched(one: _One[Outcome], number: int, job: Job) -> Outcome:
    def advance(events: int) -> None:
        if _done is not None:
            _done[number] = events

    return one(job, advance)
