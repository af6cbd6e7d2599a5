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
from typing import Any, NamedTuple, TypeAlias

from coldstream.errors import Interrupted
from coldstream.evaluation.methods import parse_method
from coldstream.evaluation.prequential import Trial, run_trial, untested
from coldstream.evaluation.workload import Source, loaded

# Each trial has a core to itself; threads of a matrix library would only take it from the next.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_SECONDS_BETWEEN_LOOKS = 0.1


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


def run(job: Job, advance: Callable[[int], None]) -> Trial:
    """Run one trial here."""
    workload = loaded(job.source)
    stream = untested(workload.stream) if job.untested else workload.stream
    method = parse_method(job.method).build(workload, job.seed)
    return run_trial(method, stream, job.top, advance)


def run_all(jobs: Sequence[Job], processes: int, advance: Callable[[int, int], None]) -> list[Trial]:
    """Run all jobs, in so many processes; `advance` hears, by the number of the distinct job, how many events are done.

    A method whose seed makes no difference runs once, and the trial counts for all its seeds.
    """
    different = distinct(jobs)
    spread = _run_spread if processes > 1 and len(different) > 1 else _run_here
    trials = dict(zip(different, spread(different, processes, advance), strict=True))
    return [trials[_unseeded(job)] for job in jobs]


def distinct(jobs: Sequence[Job]) -> list[Job]:
    """The jobs that have to be run: of a method whose seed makes no difference, one."""
    return list(dict.fromkeys(map(_unseeded, jobs)))


def _unseeded(job: Job) -> Job:
    return job if parse_method(job.method).seeded else job._replace(seed=0)


def _run_here(jobs: Sequence[Job], _: int, advance: Callable[[int, int], None]) -> list[Trial]:
    return [run(job, partial(advance, number)) for number, job in enumerate(jobs)]


def _run_spread(jobs: Sequence[Job], processes: int, advance: Callable[[int, int], None]) -> list[Trial]:
    context = multiprocessing.get_context("spawn")  # a fork would copy threads that the libraries have started
    done = context.Array(c_int64, len(jobs))
    os.environ.update({name: number for name, number in _ONE_THREAD.items() if name not in os.environ})
    pool = ProcessPoolExecutor(min(processes, len(jobs)), context, _begin, (done,))
    try:
        with _uninterrupted():  # a process is born with the mask of the one that starts it
            futures = [pool.submit(_run_watched, number, job) for number, job in enumerate(jobs)]
        _watch(futures, done, advance)
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise Interrupted(
            "a process that ran trials was killed; free some memory, or use fewer processes (--jobs 1)"
        ) from error
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _watch(futures: Sequence[Future[Trial]], done: Counters, advance: Callable[[int, int], None]) -> None:
    """Pass on how far the jobs are until all are done, or one has failed."""
    waiting = set(futures)
    while waiting:
        finished, waiting = wait(waiting, _SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
        for future in finished:
            future.result()
        for number, events in enumerate(done):
            advance(number, events)


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


def _run_watched(number: int, job: Job) -> Trial:
    def advance(events: int) -> None:
        if _done is not None:
            _done[number] = events

    return run(job, advance)
