"""The command line: `coldstream datasets | evaluate | paper | tune`."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from coldstream.errors import ColdstreamError

INTERRUPTED = 130
"""What a shell expects of a command that was stopped with Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    try:
        args = _parser().parse_args(arguments)
        return int(args.run(args))
    except ColdstreamError as error:
        print(f"coldstream: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("coldstream: interrupted; no file was left half-written", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coldstream", description="An online, context-aware item recommender that learns from every interaction."
    )
    parser.add_argument("--version", action="version", version=f"coldstream {version('coldstream')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    try:
        from coldstream.cli import datasets, evaluate, paper, tune
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed; the commands need it: pip install 'coldstream[evaluation]'"
        raise ColdstreamError(message) from error
    for command in (datasets, evaluate, paper, tune):
        command.add_to(commands)
    return parser
