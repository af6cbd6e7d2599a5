"""`coldstream compile`: compile all kernels ahead of time."""

import argparse
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numba

from coldstream.cluster.warming import warm_merging
from coldstream.config import PRESETS
from coldstream.features.fields import Categories, Category, Id, Number, TimePart
from coldstream.features.schema import Schema
from coldstream.model.factorization_machine import FactorizationMachine
from coldstream.runtime.warming import warm_reading, warm_up

_SCHEMA = Schema(
    user=[Id(), Category("country"), Number("age")],
    item=[Id(), Categories("genre"), Category("brand"), Number("price")],
    context=[Category("device"), TimePart("weekday")],
)


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    parser = commands.add_parser(
        "compile",
        description="Compiles all kernels that a service needs, so that its first start takes seconds. "
        "They are kept in NUMBA_CACHE_DIR, for the processor that NUMBA_CPU_NAME names; set both for the service as well.",
    )
    parser.add_argument("--preset", action="append", choices=["default", "paper"], help="the presets to compile (default)")
    parser.set_defaults(run=_run)


def _learning(preset: str) -> None:
    """Compile all kernels that a service with a preset calls.

    Reading kernels come last, since another process may cache them first.
    """
    warm_up(_SCHEMA, PRESETS[preset])


def compile_reading(preset: str = "default") -> None:
    """Compile the kernels that answer requests."""
    warm_reading(_SCHEMA, PRESETS[preset])


def _merging(preset: str) -> None:
    warm_merging(_SCHEMA, PRESETS[preset])


def _predicting() -> None:
    machine = FactorizationMachine()
    machine.learn_one({"city": "Kyoto"}, 1.0)
    machine.predict_one({"city": "Kyoto"})


def _run(args: argparse.Namespace) -> int:
    started, presets = time.perf_counter(), args.preset or ["default"]
    # Spawned processes read each other's results from the cache, while threads would block each other in the compiler.
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(part, name) for part in (_learning, compile_reading, _merging) for name in presets]
        for part in (*parts, pool.submit(_predicting)):
            part.result()
    config: Any = numba.config
    where = config.CACHE_DIR or "beside the sources, or in the user's cache"
    processor = os.environ.get("NUMBA_CPU_NAME", "this machine's processor")
    print(f"compiled, or found compiled, in {time.perf_counter() - started:.1f} s for {processor}; kept in {where}")
    return 0
