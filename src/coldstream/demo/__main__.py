"""The audience as a process: `python -m coldstream.demo HOST PORT SCENARIO SPEED`."""

import sys
from contextlib import suppress

from coldstream.demo.audience import Audience, HttpClient
from coldstream.demo.scenarios import SCENARIOS
from coldstream.errors import Unavailable


def main(host: str, port: str, name: str, speed: str) -> None:
    """Run a scenario until somebody stops it."""
    with suppress(KeyboardInterrupt, Unavailable):
        Audience(HttpClient(host, int(port)), name, float(speed)).run(SCENARIOS[name].events())


if __name__ == "__main__":
    main(*sys.argv[1:])
