"""The audience as a process: `python -m coldstream.demo HOST PORT SCENARIO SPEED`."""

import sys
from contextlib import suppress

from coldstream.demo.audience import Audience, Line
from coldstream.demo.scenarios import SCENARIOS
from coldstream.errors import Unavailable


def main(host: str, port: str, name: str, speed: str) -> None:
    """Live a scenario until somebody stops it."""
    with suppress(KeyboardInterrupt, Unavailable):
        Audience(Line(host, int(port)), name, float(speed)).live(SCENARIOS[name].happenings())


if __name__ == "__main__":
    main(*sys.argv[1:])
