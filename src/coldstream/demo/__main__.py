"""The process that plays a scenario against a service: `python -m coldstream.demo HOST PORT SCENARIO SPEED`."""

import sys

from coldstream.demo.audience import Audience, patient_client
from coldstream.demo.scenarios import SCENARIOS
from coldstream.errors import ColdstreamError


def main(host: str, port: str, name: str, speed: str) -> None:
    """Play the scenario `name` against a service until it ends or is interrupted; `speed` is in choices per second."""
    try:
        with patient_client(host, int(port)) as client:
            Audience(client, name, float(speed)).run(SCENARIOS[name].events())
    except KeyboardInterrupt:
        return
    except ColdstreamError as error:
        sys.exit(f"the audience has left: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
