"""`coldstream serve`: the durable online service."""

import argparse
import os
from typing import Any

from coldstream.service.server import serve
from coldstream.service.settings import add_flags, given, settled


def add_to(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "serve",
        description="Answers over HTTP, logs every change before it is acknowledged, and learns it at once.",
        epilog="every setting can also stand in a file (--config) or in the environment (COLDSTREAM_SERVE_PORT=8000)",
    )
    add_flags(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    serve(settled(args.config, os.environ, given(args)))
    return 0
