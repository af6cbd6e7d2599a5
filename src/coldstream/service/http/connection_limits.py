"""Limits on connections: their number, their times and their bytes."""

import resource
from typing import NamedTuple

from coldstream.errors import InvalidInput
from coldstream.service.settings import Settings

MOST = 4096
"""Most connections if `connections` is not set: that many connections with long headers hold about 150 MB."""
RESERVED = 128
"""File descriptors left for the store, snapshots, libraries, and connections that are turned away with an answer."""


class ConnectionLimits(NamedTuple):
    """Limits on one connection, and on all of them together."""

    connections: int
    """Most connections that are served at once."""
    header_seconds: float
    """Most seconds that the headers of a request may take."""
    body_seconds: float
    """Most seconds that a body may be late."""
    idle_seconds: float
    """Most seconds that a connection waits for its next request, or an answer for its reader."""
    header_bytes: int
    """Most bytes of the path and headers of a request."""
    bodies_bytes: int
    """Most bytes that all bodies together hold, beyond which only small bodies are taken."""


def connection_limits(settings: Settings) -> ConnectionLimits:
    """Return the limits by the settings. Raises `InvalidInput` for more connections than file descriptors allow."""
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
