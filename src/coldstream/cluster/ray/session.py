"""A connection to a Ray cluster: one that is there, or one that begins and ends with this process."""

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from coldstream import __version__
from coldstream.errors import ColdstreamError
from coldstream.runtime.rule import LEARNING_RULE

EXTRA = "pip install 'coldstream[ray]'"

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A learner has a core to itself; threads of a matrix library would only take it from the next."""

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # it reports to nobody
    "RAY_raylet_start_wait_time_s": "120",  # a busy machine gets time to start it
    "RAY_worker_niceness": "0",  # those who learn are no less important than who answers
}
"""Of a cluster that we start, unless the environment says otherwise."""

REACHED_WITHIN = 5.0
"""Seconds."""

ASKED_FOR = 30.0
"""Seconds that a node gets to say which release it has."""

_VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")
"""How Ray words what the cluster has, and what this process has."""

TRIES = 3
"""Of starting a cluster here: on a busy machine one part of Ray may give up on another."""

OBJECT_STORE = 512 * 2**20
"""Bytes of memory through which the learners of a cluster of our own exchange arrays."""


class EngineUnavailable(ColdstreamError):
    """There is no Ray, no cluster at an address, or one of another version."""


def loaded() -> ModuleType:
    """Ray."""
    try:
        ray = import_module("ray")
    except ModuleNotFoundError as error:
        raise EngineUnavailable(f"{error.name} is not installed; --engine ray needs it: {EXTRA}") from error
    return ray


@contextmanager
def connected(address: str | None, cpus: int) -> Iterator[ModuleType]:
    """Ray, connected to the cluster at an address; without one, to a cluster of so many cores on this machine."""
    ray = loaded()
    if ray.is_initialized():  # whoever connected before goes on with it
        yield ray
        return
    _connect(ray, address, cpus)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: ModuleType, address: str | None, cpus: int) -> None:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    if address is not None:
        _check_reachable(address)
    for attempt in range(TRIES):
        try:
            _init(ray, address, cpus)
            return
        except ConnectionError as error:
            raise _no_cluster(address, error) from error
        except ValueError as error:
            message = f"address must be HOST:PORT or auto, got {address!r}"
            raise EngineUnavailable(f"{message} ({_first_line(error)}); leave it out for a cluster here") from error
        except Exception as error:  # Ray has no class of its own for what keeps it from starting
            ray.shutdown()
            _refuse_other_versions(address, error)
            if attempt + 1 == TRIES:
                message = f"Ray could not be started in {TRIES} tries ({_first_line(error)})"
                raise EngineUnavailable(f"{message}; is the machine too busy, or its memory full?") from error


def _refuse_other_versions(address: str | None, error: Exception) -> None:
    """Say what Ray says where versions differ, shorter: both versions of both."""
    versions = _VERSIONS.findall(str(error))
    if isinstance(error, RuntimeError) and len(versions) == 2:
        there, here = (f"Ray {of_ray} and Python {of_python}" for of_ray, of_python in versions)
        message = f"address {address!r}: the cluster and this process do not fit together, {there} there and {here} here"
        raise EngineUnavailable(f"{message}; use the same versions of Ray and Python everywhere") from error


def _check_reachable(address: str) -> None:
    """Refuse an address where nobody listens: Ray would ask there for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto" or not host or not port.isdigit():  # Ray knows what to say
        return
    try:
        socket.create_connection((host, int(port)), REACHED_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str | None, error: BaseException) -> EngineUnavailable:
    message = f"address {address!r}: no Ray cluster answers there ({_first_line(error)})"
    return EngineUnavailable(f"{message}; start one with `ray start --head`, or leave --address out")


def _init(ray: ModuleType, address: str | None, cpus: int) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
    if address is None:
        ray.init("local", num_cpus=cpus, include_dashboard=False, object_store_memory=OBJECT_STORE, **quiet)
    else:
        ray.init(address=address, **quiet)


def about() -> dict[str, Any]:
    """What has to be the same in every process that learns one stream."""
    return {"coldstream": __version__, "learning rule": LEARNING_RULE}


def check_same(node: str, there: dict[str, Any]) -> None:
    """Refuse a learner of another release: it would not lead to the same bits."""
    for name, own in about().items():
        if there.get(name) != own:
            message = f"{name} is {own} here and {there.get(name)} on node {node}"
            raise EngineUnavailable(f"{message}; install the same release of coldstream on every node")


def check_nodes(ray: ModuleType) -> None:
    """Refuse a cluster with nodes that have another release of coldstream, or none. It takes seconds.

    What is asked there is of the standard library: another release may have nothing of what this one would ask.
    """
    affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    task = ray.remote(num_cpus=0, max_retries=0)(resolve_name)
    able = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    on_node = [task.options(scheduling_strategy=affinity(node["NodeID"], soft=False)) for node in able]
    asked = [one.remote("coldstream:__version__") for one in on_node]
    for node, ref in zip(able, asked, strict=True):
        address = node["NodeManagerAddress"]
        try:
            there = ray.get(ref, timeout=ASKED_FOR)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.as_instanceof_cause(), ImportError):
                message = f"coldstream is {__version__} here, and cannot be loaded on node {address} ({_last_line(error)})"
                raise EngineUnavailable(f"{message}; install the same release of coldstream on every node") from error
        except ray.exceptions.RayError:  # it does not answer: versions are not what is wrong with it
            continue
        else:
            check_same(address, {**about(), "coldstream": there})


def node_address(ray: ModuleType) -> str:
    """The address of the node that this process is on."""
    return str(ray.util.get_node_ip_address())


def _last_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[-1][:200]


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
