"""The options for running trials on Ray or with several learners, and the engine that they select."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from coldstream.cli.numbers import whole
from coldstream.errors import InvalidInput
from coldstream.evaluation.runs import Run, Spread, run


class Engine(NamedTuple):
    """The function that runs one trial, the number of processes, and the way trials are distributed."""

    run: Run
    processes: int
    spread: Spread | None = None


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the options that select where trials run."""
    own = parser.add_argument_group("more than one machine, or more than one learner")
    own.add_argument("--engine", choices=["ray"], help="run on Ray: trials are spread over its cores, or learners are")
    own.add_argument("--address", metavar="HOST:PORT", help="of a Ray cluster; without it, one on this machine")


def add_learners(parser: argparse.ArgumentParser) -> None:
    """Add the options that set how many learners share a stream."""
    parser.add_argument(
        "--learners",
        type=whole,
        metavar="N",
        help="let N learn every stream together, each with users of its own: on Ray as actors, else one after the other",
    )
    parser.add_argument("--merge-every", type=whole, metavar="N", help="events after which learners merge (500)")


@contextmanager
def engine_of(args: argparse.Namespace) -> Iterator[Engine]:
    """Yield the engine that the options select; raises `InvalidInput` for options that contradict each other."""
    learners, merge_every = getattr(args, "learners", None), getattr(args, "merge_every", None)
    if args.engine is None and args.address is not None:
        raise InvalidInput(f"--address is for a cluster, got {args.address!r}; give --engine ray with it")
    if learners is None and merge_every is not None:
        raise InvalidInput(f"--merge-every is for several learners, got {merge_every}; give --learners N with it")
    if args.engine is None and learners is None:
        yield Engine(run, args.jobs)
        return
    from coldstream.cluster.runs import MERGE_EVERY, RunWithLearners  # its libraries are optional

    every = merge_every or MERGE_EVERY
    if args.engine is None:
        yield Engine(RunWithLearners(learners or 1, every), args.jobs)
        return
    from coldstream.cluster.ray.session import connected

    with connected(args.address, learners or args.jobs) as ray:
        from coldstream.cluster.ray.runs import RunOnRay, spread_over

        if learners is None:
            yield Engine(run, 1, spread_over(ray))
        else:
            yield Engine(RunOnRay(learners, every, ray), 1)
