"""`coldstream serve`: run the durable online service."""

import argparse
import os
from functools import partial
from typing import Any

from coldstream.cluster.team import HIRE_HERE, team_of
from coldstream.errors import ColdstreamError, InvalidInput
from coldstream.runtime.team import Hiring
from coldstream.service.feed import Feed
from coldstream.service.http.server import serve
from coldstream.service.settings import Settings, add_flags, given, settled


def add_to(commands: Any) -> None:
    """Add the command and its options to the parser."""
    parser = commands.add_parser(
        "serve",
        description="Answers over HTTP, logs every change before it is acknowledged, and learns it at once.",
        epilog="every setting can also stand in a file (--config) or in the environment (COLDSTREAM_SERVE_PORT=8000)",
    )
    add_flags(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    settings = settled(args.config, os.environ, given(args))
    if settings.engine is None:
        if settings.address is not None:
            raise InvalidInput(
                f"address is that of an engine's cluster, got {settings.address!r}; give --engine ray with it"
            )
        serve(settings, hiring=Hiring(here=HIRE_HERE), feed=_feed(settings))
        return 0
    from coldstream.cluster.ray.session import connected  # its libraries are optional

    with connected(settings.address, settings.learners) as ray:
        from coldstream.cluster.ray.learners import RayLearners

        serve(settings, hiring=Hiring(team_of(partial(RayLearners, ray)), HIRE_HERE), feed=_feed(settings))
    return 0


def _feed(settings: Settings) -> Feed | None:
    """Return the feed from the broker or outbox that the settings name, or None."""
    if settings.ingest is None:
        return None
    try:
        from coldstream.ingest.feed import SourceFeed  # its libraries are optional
        from coldstream.ingest.ingestion import DeadLetters
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed; ingest needs it"
        raise ColdstreamError(f"{message}: pip install 'coldstream[ingest]', or [nats] or [kafka]") from error
    dead = settings.ingest_dead
    if dead is None:
        if settings.data is None:
            raise InvalidInput(
                "ingest_dead is missing; with ingest and a store, give a file for what cannot be learned, --ingest-dead FILE"
            )
        dead = settings.data / "dead-letters.jsonl"
    if dead == settings.ingest_dead or dead.parent.is_dir():  # the store creates the data folder of a new log later
        DeadLetters(dead).check()
    return SourceFeed(settings.ingest, dead, settings.ingest_batch)
