"""A connection to a Ray cluster: one that is there, or one that begins and ends with this process."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
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
        except RuntimeError as error:
            message = f"address {address!r}: the cluster and this process do not fit together ({_first_line(error)})"
            raise EngineUnavailable(f"{message}; use the same versions of Ray and Python everywhere") from error
        except ValueError as error:
            message = f"address must be HOST:PORT or auto, got {address!r}"
            raise EngineUnavailable(f"{message} ({_first_line(error)}); leave it out for a cluster here") from error
        except Exception as error:  # Ray has no class of its own for what keeps it from starting
            ray.shutdown()
            if attempt + 1 == TRIES:
                message = f"Ray could not be started in {TRIES} tries ({_first_line(error)})"
                raise EngineUnavailable(f"{message}; is the machine too busy, or its memory full?") from error


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


def node_address(ray: ModuleType) -> str:
    """The address of the node that this process is on."""
    return str(ray.util.get_node_ip_address())


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
