"""Ports for servers that have to be told theirs before they listen."""

import socket
from itertools import count
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_held = list[socket.socket]()


def free_port() -> int:
    """A port that no other process of the tests is given as long as this one lives, and that the system gives to nobody.

    It is below those that connections are given, or they might take it before the server does, or while it restarts.
    """
    first = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32768
    for port in count(first - 1, -1):
        claim, probe = socket.socket(socket.AF_UNIX), socket.socket()
        try:
            claim.bind(f"\0coldstream-tests-port-{port}")  # in Linux's abstract namespace: it goes with the process
            probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        finally:
            probe.close()
        _held.append(claim)
        return port
    raise AssertionError("there is no free port")
