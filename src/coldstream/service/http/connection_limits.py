"""How much connections may take: how many of them, for how long, and how much each may hold."""

import resource
from typing import NamedTuple

from coldstream.errors import InvalidInput
from coldstream.service.settings import Settings

MOST = 4096
"""Connections, where nothing else is said: idle ones that send long headers then hold about 150 MB."""
RESERVED = 128
"""Descriptors for the store, snapshots and libraries, and for those who are told that there is no room."""


class ConnectionLimits(NamedTuple):
    """Limits on one connection, and on all of them together."""

    connections: int
    header_seconds: float
    body_seconds: float
    idle_seconds: float
    header_bytes: int
    bodies_bytes: int


def connection_limits(settings: Settings) -> ConnectionLimits:
    """The limits that the settings and the process have. More connections than descriptors are refused."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = MOST if descriptors == resource.RLIM_INFINITY else max(descriptors - RESERVED, descriptors // 2)
    wanted = min(room, MOST) if settings.connections is None else settings.connections
    if wanted > room and descriptors != resource.RLIM_INFINITY:
        message = f"connections must be at most {room} where a process may open {descriptors} files, got {wanted}"
        raise InvalidInput(f"{message}; raise the limit (ulimit -n), or ask for fewer")
    return ConnectionLimits(
        wanted,
        settings.header_seconds,
        settings.body_seconds,
        settings.idle_seconds,
        settings.header_bytes,
        settings.bodies_bytes,
    )
