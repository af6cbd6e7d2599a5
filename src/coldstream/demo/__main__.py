"""The audience as a process: `python -m coldstream.demo HOST PORT SCENARIO SPEED`."""

import sys

from coldstream.demo.audience import Audience, patient_client
from coldstream.demo.scenarios import SCENARIOS
from coldstream.errors import ColdstreamError


def main(host: str, port: str, name: str, speed: str) -> None:
    """Run a scenario until somebody stops it."""
    try:
        with patient_client(host, int(port)) as client:
            Audience(client, name, float(speed)).run(SCENARIOS[name].events())
    except KeyboardInterrupt:
        return
    except ColdstreamError as error:
        sys.exit(f"the audience has left: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
