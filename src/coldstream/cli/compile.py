"""`coldstream compile`: machine code before anybody waits for it."""

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
    """Declare the command."""
    parser = commands.add_parser(
        "compile",
        description="Compiles all kernels that a service needs, so that its first start takes seconds. "
        "They are kept in NUMBA_CACHE_DIR, for the processor that NUMBA_CPU_NAME names; set both for the service as well.",
    )
    parser.add_argument("--preset", action="append", choices=["default", "paper"], help="the presets to compile (default)")
    parser.set_defaults(run=_run)


def _learning(preset: str) -> None:
    """All that a service of a preset calls; what only reads comes last, and was perhaps compiled by then."""
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
    # Processes that begin anew: they read what others have compiled, and threads would wait for each other.
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(part, name) for part in (_learning, compile_reading, _merging) for name in presets]
        for part in (*parts, pool.submit(_predicting)):
            part.result()
    config: Any = numba.config
    where = config.CACHE_DIR or "beside the sources, or in the user's cache"
    processor = os.environ.get("NUMBA_CPU_NAME", "this machine's processor")
    print(f"compiled, or found compiled, in {time.perf_counter() - started:.1f} s for {processor}; kept in {where}")
    return 0
